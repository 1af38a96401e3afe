"""Tables that are damaged, or made to take much memory or time: one sentence, and little work."""

from __future__ import annotations

import gzip
import io
import itertools
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearfar import Metric
from nearfar.columns import Columns
from nearfar.frames import csv as csv_format
from nearfar.frames import table as packed_files
from nearfar.frames.reader import ColumnChoice
from nearfar.frames.reading import read_table
from nearfar.frames.table import TableError

TEXT = "a,b,label\n1,2,p\n3,5,q\n"
LEARN = ("--label", "label", "--method", "lda", "--write", "--out", "m")


def peak_of(function, *arguments):
    """Return what a call returns, and the most bytes of Python and NumPy meanwhile."""
    tracemalloc.start()
    try:
        return function(*arguments), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class TestLongCells:
    """Memory is in proportion to the text, not to the longest cell times the number of rows."""

    n = 500_000

    @pytest.fixture
    def table(self, folder):
        cells = ["1.5"] * 199 + ["9" * self.n]
        rows = [f"{cell},{i % 7},{i % 2}" for i, cell in enumerate(cells)]
        Path("x.csv").write_text("\n".join(["a,b,label", *rows]))

    def test_memory(self, table):
        rows, peak = peak_of(lambda: read_table("x.csv", label="label"))
        assert rows.X.shape[0] == 200
        assert peak < 20 * self.n

    def test_messages(self, table, run):
        result = run("learn", "x.csv", *LEARN, code=None)
        assert "999" in result.stderr
        assert max(map(len, result.output.splitlines())) < 1000

    @pytest.mark.parametrize("option", ["--numeric", "--categorical"])
    def test_kinds(self, table, run, option):
        result = run("learn", "x.csv", *LEARN, option, "a", code=None)
        assert max(map(len, result.output.splitlines())) < 1000

    def test_errors_of_cells(self):
        columns = Columns().fit(pl.DataFrame({"a": ["1 m", "2 m", "30 cm"] * 9}))
        with pytest.raises(ValueError, match=r"'9999.*\.\.\.' in row 0") as caught:
            columns.apply(pl.DataFrame({"a": ["9" * self.n]}))
        assert len(str(caught.value)) < 200

    def test_errors_of_rows(self, folder):
        Path("x.csv").write_text(f"a,b,label\n1,{'9' * self.n}x,p\n1,2,3,4\n")
        with pytest.raises(TableError) as caught:
            read_table("x.csv", label="label")
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("length", [140_000, 10_000_000])
def test_long_names(folder, fail, length):
    Path("x.csv").write_text(f"{'a' * length},b,label\n1,2,p\n3,4,q\n")
    assert "has a column name that is not closed or has more than 131,072" in fail(
        "learn", "x.csv", *LEARN
    )


def test_labels_alone(folder, fail):
    Path("x.csv").write_text("label\n0\n1\n")
    assert "x.csv has no columns left for features." in fail("learn", "x.csv", *LEARN)


def test_labels_of_many_digits_are_names(folder):
    Path("x.csv").write_text(f"a,label\n0,{'9' * 40}\n1,{'1' * 40}\n2,{'9' * 40}\n")
    assert len(np.unique(read_table("x.csv", label="label").labels)) == 2


def test_signalling_nans(folder):
    """Their sums give warnings, which are errors here."""
    values = np.arange(20.0) ** 1.5
    values.view(np.uint64)[3] = 0x7FF0000000000001
    table = pa.table({"a": values, "b": np.arange(20.0) * 0.7, "label": np.arange(20) % 2})
    pq.write_table(table, "x.parquet")
    assert read_table("x.parquet", label="label").feature_names == ("a", "a=(missing)", "b")


def test_classes_of_equal_rows(folder, fail):
    rows = ["0,0", "-3,2", "0,-4", "0,0", "3,-3", "0,4"]
    Path("x.csv").write_text("\n".join(["a,label", *rows]))
    assert "two classes are needed" in fail("learn", "x.csv", *LEARN)


def test_names_are_cut_in_messages(folder, fail):
    Path("x.csv").write_text(f"{'a' * 100_000},b,label\n1,2,p\n")
    assert len(fail("learn", "x.csv", "--label", "c", "--out", "m")) < 300


class _CountedFile(io.BytesIO):
    """Counts bytes that are read."""

    n_read = 0

    def readline(self, size=-1):
        line = super().readline(size)
        self.n_read += len(line)
        return line


def test_an_open_quote_in_the_header_is_read_once(folder, monkeypatch):
    """Each line once; the quotes of all lines before were counted again for every line."""
    monkeypatch.setattr(csv_format, "_CSV_MAX_RECORD_BYTES", 1 << 16)
    counted = []

    class CountingBytes(bytes):
        def count(self, *arguments):
            counted.append(len(self))
            return super().count(*arguments)

    class Lines(_CountedFile):
        def readline(self, size=-1):
            return CountingBytes(super().readline(size))

    Path("x.csv").write_text(TEXT)
    reader = csv_format.CsvReader(Path("x.csv"), csv_format.ColumnChoice())
    header = reader._header(Lines(b'"' + b"a,b\n" * (1 << 15)))
    assert len(header) == 1 << 16
    assert sum(counted) <= len(header)


@pytest.mark.parametrize("content", [bytes(10_000), TEXT.encode("utf-16-le"), b"a\0b\n1\n"])
def test_zero_bytes(folder, fail, content):
    Path("x.csv").write_bytes(content)
    line = fail("learn", "x.csv", *LEARN)
    assert "has zero bytes in its first line" in line
    assert "\0" not in line


@pytest.mark.parametrize(
    ("encoding", "name"),
    [("utf-16", "UTF-16"), ("utf-32", "UTF-32"), ("utf-32-be", "UTF-32"), ("utf-16-be", "UTF-16")],
)
def test_other_encodings(folder, fail, encoding, name):
    mark = "\ufeff" if encoding.endswith("be") else ""
    Path("x.csv").write_bytes((mark + TEXT).encode(encoding))
    assert f"x.csv is in {name}; save it in UTF-8." in fail("learn", "x.csv", *LEARN)


@pytest.mark.parametrize(
    "text", [TEXT.replace("\n", "\r"), TEXT.replace("\n", "\r", 1), "a\rb\rc", "a;b\r1;2"]
)
def test_line_ends_of_old_macs(folder, fail, text):
    Path("x.csv").write_bytes(text.encode())
    assert "has the line ends of old Macs (CR)" in fail("learn", "x.csv", *LEARN)


def test_line_ends_in_names(folder):
    Path("x.csv").write_bytes(b'"a\rb","c\r\nd",label\r\n1,2,p\r\n3,4,q\r\n')
    assert read_table("x.csv", label="label").feature_names == ("a\rb", "c\r\nd")


class TestBombs:
    """Small files that would become large are refused before they do."""

    @pytest.fixture(autouse=True)
    def limits(self, monkeypatch):
        monkeypatch.setattr(packed_files, "_ALWAYS_BYTES", 1 << 20)
        monkeypatch.setattr(packed_files, "_CHUNK_BYTES", 1 << 16)

    def refused(self, name, **options):
        with pytest.raises(TableError, match=f"{name} has .* or more in less than 1 MB"):
            read_table(name, **options)

    def test_npz(self, folder):
        np.savez_compressed("x.npz", X=np.zeros((1 << 18, 8)), y=np.arange(1 << 18))
        _, peak = peak_of(lambda: self.refused("x.npz"))
        assert peak < 1 << 20

    def test_labels(self, folder):
        np.savez_compressed("x.npz", X=np.ones((4, 2)), y=np.zeros(1 << 21))
        self.refused("x.npz")

    def test_a_false_size(self, folder):
        """No more is read than the archive says."""
        np.savez_compressed("x.npz", X=np.zeros((1 << 18, 8)))
        with zipfile.ZipFile("x.npz") as archive:
            size = archive.getinfo("X.npy").file_size
        content = Path("x.npz").read_bytes()
        Path("x.npz").write_bytes(content.replace(size.to_bytes(4, "little"), b"\xff\0\0\0"))
        with pytest.raises(TableError, match=r"x.npz cannot be read"):
            read_table("x.npz")

    @pytest.mark.parametrize("command", ["learn", "transform"])
    def test_gzip(self, folder, fail, command):
        with gzip.open("x.csv.gz", "wb") as file:
            file.write(b"a,b,c,d\n" + b"0,0,0,0\n" * (1 << 19))
        given = {
            "learn": ("x.csv.gz", "--label", "a", "--out", "m"),
            "transform": ("metric.safetensors", "x.csv.gz", "out.csv"),
        }
        before = set(folder.iterdir())
        assert "MB or more in less than 1 MB" in fail(command, *given[command])
        assert set(folder.iterdir()) == before

    def test_parquet(self, folder):
        zeros = pa.array(np.zeros(1 << 18))
        pq.write_table(pa.table({"a": zeros, "b": zeros, "label": zeros}), "x.parquet")
        self.refused("x.parquet", label="label")

    def test_what_compresses_well_is_read(self, folder):
        X = np.zeros((1 << 15, 8))
        X[::100] = np.random.default_rng(0).standard_normal((len(X[::100]), 8))
        np.savez_compressed("x.npz", X=X)
        np.testing.assert_array_equal(read_table("x.npz").X, X)


class _CountedName(str):
    """Counts how often it is compared or looked up."""

    __slots__ = ()
    n = 0

    def __eq__(self, other):
        type(self).n += 1
        return str.__eq__(self, other)

    def __hash__(self):
        type(self).n += 1
        return str.__hash__(self)


class TestWideTables:
    """Work is in proportion to the number of columns."""

    @pytest.mark.parametrize("role", ["others", "drop", "metric"])
    def test_choice_of_columns(self, role):
        n = 300
        columns = [_CountedName(f"x{i}") for i in range(n)]
        names = tuple(_CountedName(f"x{i}") for i in range(0, n, 2))
        metric = Metric(np.ones((1, len(names))))
        vars(metric)["feature_names"] = names
        choice = {"metric": metric} if role == "metric" else {role: names}
        _CountedName.n = 0
        ColumnChoice(**choice).features(Path("x.csv"), columns)
        assert _CountedName.n < 20 * n

    @pytest.mark.parametrize("missing", [False, True])
    def test_reading(self, folder, missing):
        """Four times the columns are about four times the calls."""
        calls = []
        for n in (100, 400):
            rows = np.arange(20 * n).reshape(20, n) ** 1.5 % 7
            frame = pl.DataFrame(rows.round(3), schema=[f"x{i}" for i in range(n)])
            frame = frame.with_columns(label=pl.Series(["p", "q"] * 10))
            if missing:
                frame = frame.with_columns(pl.all().replace(rows[0, 0].round(3), None))
            frame.write_csv("x.csv")
            count = itertools.count()
            sys.setprofile(lambda *_, count=count: next(count))
            try:
                read_table("x.csv", label="label")
            finally:
                sys.setprofile(None)
            calls.append(next(count))
        assert calls[1] < 5 * calls[0]
