"""Check an installed nearfar: README's example, what extras give, and what is said without them.

``readme FILE`` runs the first example in Python. ``use EXTRA`` uses what an extra is for.
``missing`` does so for all extras where none is installed, and looks at the errors.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import nearfar
from nearfar import RCA, BoostMetric, datasets

DATA = datasets.load("circles")
METRIC = RCA().fit(DATA.X, DATA.y).metric_


def use_cli() -> None:
    METRIC.save("circles.safetensors")
    assert "10 features" in _command("show", "circles.safetensors")


def use_parquet() -> None:
    from nearfar.rows.files import ParquetRows

    if find_spec("pyarrow"):
        from pyarrow import parquet, table

        parquet.write_table(table({"x": [1.0, 2.0]}), "rows.parquet")
    np.testing.assert_array_equal(ParquetRows("rows.parquet")[:], [[1.0], [2.0]])


def use_plots() -> None:
    from nearfar import plots

    plots.importances(METRIC)


def use_report() -> None:
    from nearfar import learn, read_table

    table = read_table(DATA.X, label=DATA.y)
    learn(table, method=BoostMetric(max_iter=3)).report("page.html")
    assert Path("page.html").read_text().startswith("<!DOCTYPE html>")


def use_dask() -> None:
    from dask import array

    rows = array.from_array(DATA.X, chunks=(100, -1))
    found = RCA(scale="standard").fit(rows, DATA.y).metric_.matrix
    expected = RCA(scale="standard").fit(DATA.X, DATA.y).metric_.matrix
    np.testing.assert_allclose(found, expected, atol=1e-9)


def use_faiss() -> None:
    distances, _ = METRIC.to_faiss(DATA.X).search(DATA.X[:3].astype(np.float32), 1)
    np.testing.assert_allclose(distances, 0, atol=1e-4)


def use_onnx() -> None:
    METRIC.to_onnx("map.onnx")
    assert Path("map.onnx").stat().st_size > METRIC.L.size


def use_match() -> None:
    from nearfar import RecordMatcher

    names = {"name": [f"person number {7 * i}" for i in range(40)]}
    pairs = [(i, j) for i in range(40) for j in (i, (i + 1) % 40)]
    RecordMatcher().fit(names, {**names}, pairs, [i == j for i, j in pairs])


def use_search() -> None:
    from nearfar import Relevance, SourceWeights

    texts = {"text": [f"word{i} word{i + 1}" for i in range(40)]}
    SourceWeights().fit(texts, texts, Relevance(range(40), range(40)))


USES: dict[str, Callable[[], None]] = {
    name.removeprefix("use_").replace("_", "-"): use
    for name, use in list(globals().items())
    if name.startswith("use_")
}
WITHOUT_MESSAGE = {
    "dask": "whoever has a Dask array has the package",
    "report": "a table comes first, and reading it names the extra cli",
}


def check_missing() -> None:
    """Every extra that is not installed is named by the error."""
    for extra, use in USES.items():
        if extra in WITHOUT_MESSAGE:
            continue
        try:
            use()
        except (ImportError, AssertionError) as error:
            message = str(error)
            assert f"nearfar[{extra}]" in message, f"{extra}: {message}"
            print(f"{extra}: {message}")
        else:
            raise SystemExit(f"{extra} works without its extra")


def run_readme(path: str) -> None:
    """Run the first example of README in Python."""
    text = Path(path).read_text()
    example = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert example, "README has no example"
    names: dict[str, object] = {}
    exec(example[1], names)
    assert isinstance(names["auto"], nearfar.AutoMetric)


def _command(*arguments: str) -> str:
    program = Path(sys.executable).parent / "nearfar"
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr.strip()
    return done.stdout


if __name__ == "__main__":
    assert "site-packages" in nearfar.__file__, f"{nearfar.__file__} is not the installed one"
    action, *rest = sys.argv[1:]
    if action == "readme":
        run_readme(*rest)
    elif action == "missing":
        check_missing()
    else:
        USES[rest[0]]()
