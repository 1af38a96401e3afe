"""Strange and damaged tables: a metric, or one line and exit code 2; never half a file."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from fuzz.inputs import cases
from nearfar import Metric
from nearfar.command import app

ODD = ("", "nan", "inf", "NA", "a", "ä", '"', "'", "1,5", "1;2", "=1+1", " 3 ", "\x00", "[1, 2]")
CELLS = st.sampled_from([*ODD, "1e400", "9" * 40, "2024-02-29", "2024-02-30", "true", "False"])
NUMBERS = st.integers(-5, 5).map(str)
FORMS = ("{}%", "€{}.500", "{} m", "{}0 cm", "({})", "<{}", "{}k", "0{}", "{}/7/2021", "{}:30", "x")
WRITTEN = st.builds(str.format, st.sampled_from(FORMS), st.integers(0, 30))
NAMES = st.lists(
    st.sampled_from(["a", "b", "label", "id", "", "a b", "x[0]", "ä", "1", "Unnamed: 0"]),
    min_size=1,
    max_size=4,
)


def learn(path, *options):
    """Learn from a table, check what is left behind, and return the exit code."""
    out = path.with_name("out.safetensors")
    arguments = ["learn", path, "--label", "label", "--method", "lda", "--write", *options]
    result = CliRunner().invoke(app, [*map(str, arguments), "--out", str(out)])
    assert "Traceback" not in result.output, result.output
    assert result.exit_code in (0, 2, 3, 4), (result.exit_code, result.output, result.exception)
    if result.exit_code == 2:
        assert result.stderr.splitlines()[-1].startswith("nearfar: "), result.stderr
    if out.exists():
        assert np.isfinite(Metric.load(out).matrix).all()
    assert {each.name for each in path.parent.iterdir()} <= {path.name, out.name}
    return result.exit_code


@cases
@given(data=st.data())
def test_text_table(data):
    names = data.draw(NAMES) + data.draw(st.sampled_from([["label"], []]))
    n = data.draw(st.integers(0, 30))
    separator = data.draw(st.sampled_from([",", ";", "\t"]))
    kinds = [data.draw(st.sampled_from([NUMBERS, NUMBERS, CELLS, WRITTEN])) for _ in names]
    lines = [names] + [[data.draw(kind) for kind in kinds] for _ in range(n)]
    text = data.draw(st.sampled_from(["\n", "\r\n"])).join(separator.join(line) for line in lines)
    encoding = data.draw(st.sampled_from(["utf-8", "utf-8-sig", "latin-1", "utf-16"]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / data.draw(st.sampled_from(["t.csv", "t.tsv", "t.jsonl"]))
        path.write_bytes(text.encode(encoding, errors="replace"))
        learn(path)


def written(suffix):
    """A good table as the bytes of a file."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 3)), np.arange(20) % 2
    buffer = io.BytesIO()
    if suffix == ".npz":
        np.savez(buffer, X=X, label=y)
    else:
        frame = pl.DataFrame(X, schema=["a", "b", "c"]).with_columns(label=pl.Series(y))
        frame.write_parquet(buffer) if suffix == ".parquet" else frame.write_csv(buffer)
    return buffer.getvalue()


GOOD = {suffix: written(suffix) for suffix in (".npz", ".parquet", ".csv")}


@pytest.mark.parametrize("suffix", GOOD)
def test_good_table(suffix, tmp_path):
    (tmp_path / f"t{suffix}").write_bytes(GOOD[suffix])
    assert learn(tmp_path / f"t{suffix}") != 2


@cases
@given(data=st.data())
def test_damaged_table(data):
    suffix = data.draw(st.sampled_from(list(GOOD)))
    content = bytearray(GOOD[suffix])
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=5)):
        content[place] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"t{suffix}"
        path.write_bytes(bytes(content))
        learn(path)
