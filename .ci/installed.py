"""Check an installed nearfar: README's example, what extras give, and what is said without them.

``readme FILE`` runs the first example in Python. ``use EXTRA`` uses what an extra is for.
``missing`` does so for all extras where none is installed, and looks at the errors.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import nearfar
from nearfar import RCA, BoostMetric, datasets

DATA = datasets.load("circles")
METRIC = RCA().fit(DATA.X, DATA.y).metric_
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def use_cli() -> None:
    METRIC.save("circles.safetensors")
    assert "10 features" in _command("show", "circles.safetensors")


def use_excel() -> None:
    header, *rows = [("a", "b", "y")] + [(i % 7, i % 5, f"class {i % 2}") for i in range(40)]
    cells = "".join(f"<row>{''.join(map(_cell, row))}</row>" for row in [header, *rows])
    with zipfile.ZipFile("table.xlsx", "w") as file:
        file.writestr("[Content_Types].xml", _content_types())
        file.writestr("_rels/.rels", _relation("officeDocument", "xl/workbook.xml"))
        file.writestr("xl/_rels/workbook.xml.rels", _relation("worksheet", "sheet1.xml"))
        sheets = '<sheets><sheet name="s" sheetId="1" r:id="rId1"/></sheets>'
        book = f'<workbook xmlns="{SHEET}" xmlns:r="{OFFICE}">{sheets}</workbook>'
        file.writestr("xl/workbook.xml", book)
        sheet = f'<worksheet xmlns="{SHEET}"><sheetData>{cells}</sheetData></worksheet>'
        file.writestr("xl/sheet1.xml", sheet)
    found = _command("learn", "table.xlsx", "--label", "y", "--method", "rca")
    assert "40 rows x 2 features" in found


def use_plots() -> None:
    from nearfar import plots

    plots.importances(METRIC)


def use_report() -> None:
    from nearfar.report import Study, write_report

    def learn(X: np.ndarray, y: np.ndarray) -> BoostMetric:
        return BoostMetric(max_iter=3).fit(X, y)

    metric = learn(DATA.X, DATA.y).metric_
    write_report("page.html", Study("circles", DATA.X, DATA.y, metric, "BoostMetric", learn))
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


def use_langchain() -> None:
    from nearfar.deploy.langchain import MetricEmbeddings

    assert MetricEmbeddings(None, METRIC)


def use_llama_index() -> None:
    from nearfar.deploy.llama_index import MetricEmbedding

    assert MetricEmbedding


USES: dict[str, Callable[[], None]] = {
    name.removeprefix("use_").replace("_", "-"): use
    for name, use in list(globals().items())
    if name.startswith("use_")
}
WITHOUT_MESSAGE = {
    "dask": "whoever has a Dask array has the package",
    "excel": "needs the extra cli first",
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


def _cell(value: float | str) -> str:
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
    return f"<c><v>{value}</v></c>"


def _relation(kind: str, target: str) -> str:
    of = f'<Relationship Id="rId1" Type="{OFFICE}/{kind}" Target="{target}"/>'
    return f'<Relationships xmlns="{PACKAGE}/relationships">{of}</Relationships>'


def _content_types() -> str:
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {"/xl/workbook.xml": "sheet.main", "/xl/sheet1.xml": "worksheet"}
    overrides = "".join(
        f'<Override PartName="{part}" ContentType="{kind}.{name}+xml"/>'
        for part, name in parts.items()
    )
    package = "application/vnd.openxmlformats-package.relationships+xml"
    default = f'<Default Extension="rels" ContentType="{package}"/>'
    return f'<Types xmlns="{PACKAGE}/content-types">{default}{overrides}</Types>'


if __name__ == "__main__":
    assert "site-packages" in nearfar.__file__, f"{nearfar.__file__} is not the installed one"
    action, *rest = sys.argv[1:]
    if action == "readme":
        run_readme(*rest)
    elif action == "missing":
        check_missing()
    else:
        USES[rest[0]]()
