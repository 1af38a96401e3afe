"""Formats of tables beside .csv and .parquet, and files that are damaged."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.feather import write_feather

from nearfar.frames.formats import read_frame
from nearfar.frames.reading import read_table
from nearfar.frames.table import TableError
from nearfar.rows import open_rows
from table_files import NAMES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b;y\n1,5;2;p\n-3;,25;q\n", [[1.5, 2], [-3, 0.25]]),
        ("a;b;y\n1.5;2;p\n-3;0.25;q\n", [[1.5, 2], [-3, 0.25]]),
        ('a;b;y\r\n"1,5";2;"p; q"\r\n-3;1,5e2;q\r\n', [[1.5, 2], [-3, 150]]),
        ("a\tb\ty\n1.5\t2\tp\n-3\t0.25\tq\n", [[1.5, 2], [-3, 0.25]]),
    ],
)
def test_separators_are_found(folder, text, expected):
    Path("x.csv").write_text(text)
    rows = read_table("x.csv", label="y")
    assert rows.X.tolist() == expected
    assert rows.feature_names == ("a", "b")


def test_decimal_commas_beside_text(folder):
    Path("x.csv").write_text("a;city;y\n1,5;Bonn;p\n2;Ulm;q\n;Bonn;p\n3,5;Ulm;q\n")
    rows = read_table("x.csv", label="y")
    assert rows.X[:, 0].tolist() == [1.5, 2, 2, 3.5]
    assert rows.feature_names == ("a", "a=(missing)", "city=Bonn", "city=Ulm")


def test_json_lines(folder, iris):
    pl.read_csv("iris.csv").write_ndjson("iris.ndjson")
    rows = read_table("iris.ndjson", label="species", drop=["name"])
    np.testing.assert_array_equal(rows.X, iris[0])
    assert rows.feature_names == tuple(NAMES)


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
@pytest.mark.parametrize("ending", [".feather", ".arrow"])
def test_arrow_files(folder, iris, run, ending, compression):
    flowers = pl.read_csv("iris.csv").with_columns(pl.col("species").cast(pl.Categorical))
    write_feather(flowers.to_arrow(), f"iris{ending}", compression=compression, chunksize=40)
    rows = read_table(f"iris{ending}", label="species", drop=["name"])
    expected = read_table("iris.csv", label="species", drop=["name"])
    np.testing.assert_array_equal(rows.X, expected.X)
    np.testing.assert_array_equal(rows.y, expected.y)
    assert rows.feature_names == tuple(NAMES)
    for target in (f"out{ending}", "out.parquet"):
        run("neighbors", "metric.safetensors", f"iris{ending}", "--id", "name", "--out", target)
    assert pl.read_ipc(f"out{ending}").equals(pl.read_parquet("out.parquet"))


def test_lists_in_arrow_files(folder, run):
    for name in ("a.feather", "a.parquet"):
        run("transform", "metric.safetensors", "iris.csv", name, "--id", "name", "--as-vector")
    found = pl.read_ipc("a.feather")
    assert found.equals(pl.read_parquet("a.parquet"))
    assert found.schema["nearfar"] == pl.Array(pl.Float64, 4)


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "another format"])
def test_damaged_arrow_files(folder, damage):
    flowers = pl.read_csv("iris.csv")
    flowers.write_ipc("bad.feather", compression="uncompressed")
    content = Path("bad.feather").read_bytes()
    broken = {
        "empty": b"",
        "cut": content[:-100],
        "text": content.replace(b"flower 7", b"\xff\xfe\xfdwer 7"),
        "another format": Path("iris.parquet").read_bytes(),
    }
    assert broken[damage] != content
    Path("bad.feather").write_bytes(broken[damage])
    with pytest.raises(TableError, match=r"bad.feather cannot be read: [^\n]+$"):
        read_table("bad.feather", label="species", ids="name")


class TestDamagedParquet:
    """polars panics on invalid text and metadata, with a message of several lines."""

    def test_invalid_text(self, folder, fail):
        content = Path("iris.parquet").read_bytes()
        wrong = b"\xff\xfe\xfd"
        pq.write_table(pq.read_table("iris.parquet"), "plain.parquet", compression="none")
        content = Path("plain.parquet").read_bytes()
        Path("bad.parquet").write_bytes(content.replace(b"flower 7", wrong + b"ower 7"))
        line = fail("learn", "bad.parquet", "--label", "species", "--method", "lda")
        assert "bad.parquet cannot be read" in line
        for options in (["--row", "flower 3"], ["--out", "n.csv"]):
            fail("neighbors", "metric.safetensors", "bad.parquet", "--id", "name", *options)
        fail("transform", "metric.safetensors", "bad.parquet", "out.csv", "--keep", "name")

    def test_invalid_metadata(self, folder):
        table = pq.read_table("iris.parquet")
        field = pa.field("a", pa.float64(), metadata={b"\xff": b"\xff"})
        schema = table.schema.set(0, field).with_metadata({b"\xff": b"\xff"})
        pq.write_table(table.cast(schema), "odd.parquet")
        assert len(read_table("odd.parquet", label="species")) == 150

    def test_cut_short(self, folder):
        content = Path("iris.parquet").read_bytes()
        Path("cut.parquet").write_bytes(content[:400] + bytes(100) + content[500:])
        with pytest.raises(TableError, match=r"cut.parquet cannot be read: [^\n]+$"):
            read_table("cut.parquet", label="species")

    def test_a_panic_is_one_line(self, folder, fail, monkeypatch):
        def panic(*args, **kwargs):
            raise pl.exceptions.PanicException("called unwrap\non an Err value")

        monkeypatch.setattr(pl, "from_arrow", panic)
        assert "iris.parquet cannot be read: called unwrap\n" in fail(
            "learn", "iris.parquet", "--label", "species"
        )


_KNOWN_ROWS = (
    "Note: the metric was learned from 100 % of these rows; on them it looks better than on new "
    "rows.\n"
)


@pytest.mark.parametrize("source", ["single.npy", "single.parquet", "vectors.parquet"])
def test_single_precision_gives_no_warnings(folder, iris, run, source):
    """pytest turns warnings into errors."""
    single = iris[0].astype(np.float32)
    np.save("single.npy", single)
    np.save("y.npy", iris[1])
    pl.DataFrame(single, schema=NAMES).with_columns(y=iris[1]).write_parquet("single.parquet")
    pl.DataFrame({"v": single, "y": iris[1]}).write_parquet("vectors.parquet")
    label = ["--label", "y.npy" if source == "single.npy" else "y"]
    options = [*label, "--method", "boost", "--max-iter", 2, "--write", "--out", "m.safetensors"]
    assert "Warning" not in run("learn", source, *options).stderr
    for command in (
        ["neighbors", "m.safetensors", source, "--row", 3],
        ["evaluate", "m.safetensors", source, *label],
        [
            "transform",
            "m.safetensors",
            source,
            "out.npy",
            *([] if "npy" in source else ["--drop", "y"]),
        ],
    ):
        assert run(*command).stderr.removeprefix(_KNOWN_ROWS) == ""
    assert np.load("out.npy").dtype == np.float32


def test_a_damaged_header_of_an_array(folder):
    content = bytearray(Path("rows.npy").read_bytes())
    for place, byte in ((8, 1), (10, ord("(")), (11, ord("{")), (30, ord("("))):
        Path("bad.npy").write_bytes(content[:place] + bytes([byte]) + content[place + 1 :])
        for read in (read_table, open_rows):
            with pytest.raises(ValueError, match=r"cannot be read|[Hh]eader"):
                read("bad.npy")


@pytest.mark.parametrize("content", [b"\xef\xbb\xbf", b"\xef\xbb\xbf\r\n"])
def test_a_mark_alone_is_no_header(folder, content):
    Path("mark.csv").write_bytes(content)
    with pytest.raises(TableError, match="no header"):
        read_table("mark.csv")


def test_decimals_of_256_bits_are_numbers(folder):
    price = pa.array([Decimal("0.25"), None, Decimal("-3.5")], pa.decimal256(50, 2))
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0], "price": price}), "prices.parquet")
    frame = read_frame(Path("prices.parquet"))
    assert frame["price"].to_list() == [0.25, None, -3.5]


_WITHOUT_PYARROW = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, *more):
        return None if name.partition(".")[0] == "pyarrow" else super().find_spec(name, *more)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
from datetime import datetime
from pathlib import Path
import numpy as np, pandas as pd, polars as pl
from nearfar import Metric, read_table
from nearfar.tables.transform import transform_file

when = [datetime(2024, 1, day) for day in range(1, 9)]
columns = {"x": [*range(7), None], "word": ["a", "b", None, "c"] * 2, "mixed": [1, "b"] * 4}
frame = pd.DataFrame({**columns, "when": when, "kind": ["k", "l"] * 4})
frame["declared"] = pd.Categorical(["u", "v"] * 4)
frame.to_csv("frame.csv", index=False)
table, same = (read_table(source, label="kind") for source in (frame, "frame.csv"))
assert table.columns.names == same.columns.names
np.testing.assert_array_equal(table.X, same.X)
pl.DataFrame({"a": [1.0, 2.0]}).write_ndjson("a.jsonl")
print(transform_file(Metric([[2.0]]), Path("a.jsonl"), Path("a.npy")), np.load("a.npy").ravel())
for source, target in (("a.parquet", "b.csv"), ("a.jsonl", "b.feather")):
    Path("a.parquet").touch()
    try:
        transform_file(Metric([[2.0]]), Path(source), Path(target))
    except ImportError as error:
        print(error)
"""


def test_without_pyarrow(folder):
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_PYARROW], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows, *errors = done.stdout.splitlines()
    assert rows == "2 [2. 4.]"
    message = 'A Parquet or Arrow file needs pyarrow; run pip install "nearfar[parquet]".'
    assert errors == 2 * [message]
    assert not Path("b.feather").exists()
