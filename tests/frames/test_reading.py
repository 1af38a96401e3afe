"""Rows from tables, arrays and datasets, and errors that say what to do."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearfar import Metric, Triplets, learn
from nearfar.frames import TableError, read_table
from nearfar.frames.formats import column_names, open_table
from nearfar.frames.reader import ColumnChoice
from nearfar.runtime.messages import options_of_command_line
from table_files import NAMES

TABLE = {"label": "species", "drop": ["name"]}


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("iris.csv", TABLE),
        ("iris.tsv", TABLE),
        ("iris.parquet", TABLE),
        ("rows.npy", {"label": "labels.npy"}),
        ("both.npz", {}),
        ("iris", {}),
    ],
)
def test_all_sources_give_the_same(folder, iris, source, options):
    X, y = iris
    rows = read_table(source, required=True, **options)
    np.testing.assert_array_equal(rows.X, X)
    np.testing.assert_array_equal(np.unique(rows.labels, return_inverse=True)[1], y)
    if options == TABLE:
        assert rows.feature_names == tuple(NAMES)


def test_names_and_texts(folder):
    rows = read_table("iris.csv", ids="name", show="species")
    assert rows.row_name(3) == "flower 3"
    assert rows.texts[149] == "virginica"
    assert rows.y is None


def test_pictures_of_rows(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("in/a.png", "in/b.jpg", "c.png"):
        (tmp_path / name).touch()
    frame = pl.DataFrame(
        {
            "name": ["a", "b", "x", "y"],
            "file": ["in/a.png", "in/b.jpg", None, "c.png"],
            "size": [1.0, 2.0, 3.0, 4.0],
            "kind": ["k", None, "l", "k"],
        }
    )
    frame.write_csv(tmp_path / "table.csv")
    base = tmp_path.resolve()
    expected = [base / "in/a.png", None, base / "c.png"]
    rules = {"label": "kind", "drop": ["name"], "image": "file"}
    table = read_table(tmp_path / "table.csv", **rules)  # the row without a label is left out
    assert table.pictures == expected
    assert table.feature_names == ("size",)
    assert table.take(np.array([2, 0])).pictures == [expected[2], expected[0]]
    assert read_table(frame, **rules, pictures=tmp_path).pictures == expected
    named = read_table(frame[:2], ids="name", drop=["kind", "file"], pictures=tmp_path / "in")
    assert named.pictures == [base / "in/a.png", base / "in/b.jpg"]
    with pytest.raises(TableError, match=r"no picture 'in/a\.png'"):
        read_table(tmp_path / "table.csv", **rules, pictures=tmp_path / "in")
    outside = frame.with_columns(file=pl.lit("../c.png"))
    with pytest.raises(TableError, match="outside the folder"):
        read_table(outside, **rules, pictures=tmp_path / "in")
    long = frame.with_columns(file=pl.lit("x" * 5000))
    with pytest.raises(TableError, match="no picture 'xxx"):
        read_table(long, **rules, pictures=tmp_path)
    with pytest.raises(TableError, match="no named columns"):
        read_table(np.eye(3), pictures=tmp_path)


def test_another_array_has_the_labels(folder, iris):
    np.testing.assert_array_equal(read_table("both.npz", label="other").labels, iris[1] % 2)


@pytest.mark.parametrize(
    ("written", "classes"),
    [
        (["1.0", "2.0", "1.0"], [1, 2]),
        (["9007199254740992", "9007199254740993", "9007199254740993"], [2**53, 2**53 + 1]),
        (["07", "x", "07"], ["07", "x"]),
        (["true", "false", "true"], ["false", "true"]),
    ],
)
def test_classes_as_they_are_written(folder, written, classes):
    Path("in.csv").write_text(
        "a,y\n" + "".join(f"{i},{label}\n" for i, label in enumerate(written))
    )
    assert np.unique(read_table("in.csv", label="y").labels).tolist() == classes


def test_float32_stays(folder, iris):
    np.save("single.npy", iris[0].astype(np.float32))
    pl.DataFrame(iris[0].astype(np.float32)).write_parquet("single.parquet")
    assert read_table("single.npy").X.dtype == np.float32
    assert read_table("single.parquet").X.dtype == np.float32


FILES = {
    "cell.csv": "x,y\n" + "".join(f"{i * i},a\n" for i in range(30)) + "x7,b\n" * 30,
    "lists.jsonl": '{"v": [1, 2], "y": "a"}\n{"v": [3], "y": "b"}\n',
    "junk.jsonl": "{junk",
    "junk.csv.gz": "junk",
    "only.csv": "y\na\nb\n",
    "one.csv": "x,y\n1,a\n2,a\n",
    "empty.csv": "",
    "norows.csv": "x,y\n",
    "twice.csv": "a,a,y\n1,2,x\n",
    "large.csv": "a,b,y\n1,1e300,x\n2,3,z\n",
    "decimal.csv": "a,y\n1,0.5\n2,1.5\n",
    "quote.csv": 'a,y\n1,x\n2,"y\n3,x\n',
    "sheet.ods": "PK",
    "junk.npy": "junk",
    "junk.npz": "junk",
    "junk.parquet": "junk",
}

ERRORS = {
    "no such dataset": (
        "irsi",
        {},
        r"neither a file nor a dataset\. Did you mean 'iris.*\? Datasets: [^.]*wine[^.]*\.$",
    ),
    "a typo": (
        "iris.csv",
        {"label": "speces"},
        r"'speces'\. Did you mean 'species'\? It has a, b",
    ),
    "no such file": ("missing.csv", {"label": "y"}, "no file"),
    "no label": ("iris.csv", {}, "column of labels with label; iris.csv has a, b"),
    "no such label": ("iris.csv", {"label": "kind"}, "no column 'kind'; it has a, .*species"),
    "no such column": ("iris.csv", {"label": "species", "drop": ["q"]}, "no column 'q'"),
    "label dropped": ("iris.csv", {"label": "name", "drop": ["name"]}, "cannot be dropped"),
    "decimal labels": ("decimal.csv", {"label": "y", "numbers": False}, "decimal numbers"),
    "infinite": ("inf.parquet", {"label": "y"}, "Column z: 'inf' in row 1 .* not a finite number"),
    "a cell": (
        "cell.csv",
        {"label": "y", "numeric": ["x"]},
        "Column x: 'x7' in row 30 .* is not a number",
    ),
    "lists": ("lists.jsonl", {"label": "y"}, "Column v: 'a list of 1' in row 1 .*a list of 2"),
    "bytes as labels": ("bytes.parquet", {"label": "y"}, "Column y has Binary; labels must be"),
    "JSON": ("junk.jsonl", {"label": "y"}, "cannot be read"),
    "not gzip": ("junk.csv.gz", {"label": "y"}, "cannot be read"),
    "only labels": ("only.csv", {"label": "y"}, "no columns left"),
    "one class": ("one.csv", {"label": "y"}, "two classes"),
    "empty file": ("empty.csv", {"label": "y"}, "no header"),
    "no rows": ("norows.csv", {"label": "y"}, "has no rows"),
    "columns of one name": ("twice.csv", {"label": "y"}, "several columns named 'a'"),
    "large values": ("large.csv", {"label": "y"}, r"beyond 1e\+145 in column b"),
    "an open quote": ("quote.csv", {"label": "y"}, "quote that is not closed"),
    "UTF-16": ("utf16.csv", {"label": "y"}, "UTF-16"),
    "columns of an array": ("rows.npy", {"drop": ["a"]}, "Only tables"),
    "labels of an array": ("rows.npy", {"label": "y"}, "another .npy file"),
    "no labels of an array": ("rows.npy", {}, "has no labels"),
    "not an array": ("junk.npy", {}, "cannot be read"),
    "not an archive": ("junk.npz", {}, "cannot be read"),
    "not Parquet": ("junk.parquet", {"label": "y"}, "cannot be read"),
    "objects": ("objects.npy", {}, "cannot be read"),
    "three dimensions": ("cube.npy", {}, "2-d array of numbers"),
    "no X": ("no_x.npz", {}, "no array X; it has a, b"),
    "no such array": ("both.npz", {"label": "z"}, "no array 'z'; it has X, y, other"),
    "an unknown format": ("sheet.ods", {"label": "y"}, "not in a supported format"),
    "label of a dataset": ("iris", {"label": "y"}, "for files"),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_errors(folder, kind):
    for name, text in FILES.items():
        Path(name).write_text(text)
    Path("utf16.csv").write_bytes("a,y\n1,x\n".encode("utf-16"))
    np.save("cube.npy", np.ones((4, 2, 2)))
    np.save("objects.npy", np.array([{}, {}]), allow_pickle=True)
    np.savez("no_x.npz", a=np.ones(2), b=np.ones(2))
    pl.DataFrame({"x": [1, 2], "y": [b"a", b"b"]}).write_parquet("bytes.parquet")
    infinite = {"x": [1, None, 2], "z": [1.0, np.inf, 2.0], "y": ["a", "b", "a"]}
    pl.DataFrame(infinite).write_parquet("inf.parquet")
    source, options, message = ERRORS[kind]
    with pytest.raises(TableError, match=message) as caught:
        _ = read_table(source, required=True, **options).labels
    assert "\n" not in str(caught.value)


MESSY = {
    "size": ["1.5 m", "80 cm", "2 m", "n/a"] * 6,
    "city": ["Bonn", "Paris", "Bonn", None] * 6,
    "score": [1.0, 2.5, 3.0, 0.5, 2.0, 7.5] * 4,
    "name": [f"row {i}" for i in range(24)],
    "kind": ["a", "b", "a", "b"] * 6,
}


class TestSourcesOfReadTable:
    """Frames, arrays and files give the same table."""

    @pytest.fixture
    def table(self, folder):
        pl.DataFrame(MESSY).write_csv("messy.csv")
        return read_table("messy.csv", label="kind", ids="name")

    @pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "parquet"])
    def test_frames(self, table, library):
        frame = pl.DataFrame(MESSY)
        frame.write_parquet("messy.parquet")
        source = {
            "pandas": frame.to_pandas(),
            "polars": frame,
            "pyarrow": frame.to_arrow(),
            "parquet": Path("messy.parquet"),
        }[library]
        other = read_table(source, label="kind", ids="name")
        np.testing.assert_array_equal(other.X, table.X)
        np.testing.assert_array_equal(other.supervision, table.supervision)
        assert other.columns.to_json() == table.columns.to_json()
        assert other.ids == table.ids
        assert other.notes == table.notes
        assert other.kind == "labels"

    def test_notes_and_repr(self, table):
        assert repr(table) == f"<Table messy: 24 rows x {table.X.shape[1]} features, 2 classes>"
        assert "numeric, categorical, text, drop." in table.notes[0].text
        assert table.source == "messy.csv"
        assert (table.label, table.id_column) == ("kind", "name")

    def test_labels_and_groups_beside_a_frame(self, iris):
        X, y = iris
        frame = pl.DataFrame(X, schema=NAMES)
        groups = np.arange(150) % 7
        table = read_table(frame, label=y, group=groups)
        np.testing.assert_array_equal(table.X, X)
        np.testing.assert_array_equal(table.supervision, y)
        np.testing.assert_array_equal(table.groups, groups)
        with pytest.raises(TableError, match=r"150 rows need one label each; got \(3,\)"):
            read_table(frame, label=y[:3])
        with pytest.raises(TableError, match="has a column 'a'"):
            read_table(frame, label=frame["a"])

    def test_arrays(self, iris):
        X, y = iris
        table = read_table(X, label=y)
        assert repr(table) == "<Table array: 150 rows x 4 features, 3 classes>"
        np.testing.assert_array_equal(table.supervision, y)
        with pytest.raises(TableError, match="no named columns"):
            read_table(X, drop=["a"])
        with pytest.raises(TableError, match="a 2-d array of numbers; got list"):
            read_table(["a"])

    def test_columns_that_pandas_declares_categories(self, iris):
        frame = pl.DataFrame(iris[0], schema=NAMES).to_pandas()
        frame["a"] = (frame["a"] > 5).astype(int).astype("category")
        table = read_table(frame, label=iris[1])
        assert table.columns.kinds_[0].kind == "category"
        assert read_table(frame, label="a").kind == "labels"
        assert read_table(frame, numeric=["a"]).columns is None

    def test_columns_of_several_types_are_text(self):
        frame = pl.DataFrame(MESSY).to_pandas()
        frame["mixed"] = ["x", 1, 2.5, None] * 6
        table = read_table(frame, label="kind")
        assert "mixed=x" in table.feature_names

    def test_judgements(self, iris):
        frame = pl.DataFrame(iris[0], schema=NAMES)
        triplets = Triplets([[0, 1, 2], [3, 4, 5]])
        index = pl.DataFrame(triplets.index, schema=["anchor", "near", "far"])
        for given in (triplets, index, index.to_pandas()):
            table = read_table(frame, triplets=given)
            assert table.kind == "triplets"
            np.testing.assert_array_equal(table.supervision.index, triplets.index)
        pairs = pl.DataFrame({"a": [0, 1], "b": [2, 3], "similar": [True, False]})
        assert read_table(frame, pairs=pairs).supervision.similar.tolist() == [True, False]
        with pytest.raises(TableError, match="triplets refers to rows 0 to 999"):
            read_table(frame, triplets=index.with_columns(far=pl.lit(999)))

    def test_nothing_to_learn_from(self, folder):
        assert read_table("rows.npy").kind == "nothing"
        with pytest.raises(TableError, match="labels with label; iris"):
            read_table("iris.csv", required=True)
        with pytest.raises(ValueError, match="Give only one of label, triplets and pairs"):
            read_table("iris.csv", label="species", pairs="pairs.csv")


def test_options_are_named_as_the_caller_writes_them(folder):
    pl.DataFrame(MESSY).write_csv("messy.csv")
    with options_of_command_line():
        notes = read_table("messy.csv", label="kind").notes
    assert "--numeric, --categorical, --text, --drop." in notes[0].text


def test_a_frame_is_learned_from_saved_and_reported(tmp_path):
    frame = pl.DataFrame(MESSY).to_pandas()
    table = read_table(frame, label="kind")
    learned = learn(table, method="lda")
    learned.save(tmp_path / "messy.safetensors")
    learned.report(tmp_path / "messy.html")
    np.testing.assert_allclose(
        Metric.load(tmp_path / "messy.safetensors").transform(frame),
        learned.metric.transform(table.X),
    )
    assert "80 cm" in (tmp_path / "messy.html").read_text()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.txt", "a,label\n1,p\n", "If it is a table, name it .csv"),
        ("x.xls", "", "Save it as .xlsx"),
        ("x.json", "[]", "Write an object per line, and name it .jsonl"),
        ("x.csv", "My data\na,label\n1,p\n", "must name all columns, with nothing above it"),
        ("x.csv", 'a,label\n1,"p\n2,q"x\n3,"r,s\n', "look for quotes that are not closed"),
        ("x.csv", "a,label,group\n1,p,\n2,q,1\n", "1 row of .* without a group in column group"),
    ],
)
def test_files_of_newcomers(folder, name, content, message):
    Path(name).write_text(content)
    with pytest.raises(TableError, match=message):
        read_table(name, label="label", group="group" if "group" in content else None)


def test_numbers_and_classes(folder):
    Path("x.csv").write_text("a,y\n" + "".join(f"{i / 7},{i % 40}\n" for i in range(160)))
    table = read_table("x.csv", label="y")
    assert (table.kind, table.y.dtype.kind) == ("numbers", "f")
    said = "Took the labels as numbers to predict: 40 different values; if they are classes, use"
    assert f"{said} numbers=False." in [note.text for note in table.notes]
    assert read_table("x.csv", label="y", numbers=False).kind == "labels"
    Path("z.csv").write_text("a,y\n1,0.5\n2,0.7\n")
    with pytest.raises(TableError, match="a method that learns from numbers, such as mlkr"):
        read_table("z.csv", label="y", numbers=False)
    integers = np.arange(160) % 40
    assert read_table(np.eye(160), label=integers).kind == "labels"
    assert read_table(np.eye(160), label=integers, numbers=True).kind == "numbers"


def test_a_folder(folder):
    Path("rows").mkdir()
    with pytest.raises(TableError, match="rows is a folder; name a file"):
        read_table("rows", label="label")


def test_bars_between_values(folder):
    Path("x.csv").write_text("a|b|label\n1|2.5|p\n3|4.5|q\n")
    assert read_table("x.csv", label="label").X.tolist() == [[1, 2.5], [3, 4.5]]


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.empty((4, 0)), [0, 1, 0, 1], "2-d array of numbers; got ndarray float64"),
        (np.empty((0, 2)), [], "2-d array of numbers; got ndarray float64"),
        (np.eye(4), np.array(["a", 1, "b", 2], dtype=object), "make all of them text"),
        (np.eye(4), [0, 1, None, 1], "no value in row 2"),
    ],
)
def test_arrays_of_newcomers(X, y, message):
    with pytest.raises(ValueError, match=message):
        read_table(X, label=y)


def _vector_file(path: Path, X: np.ndarray, kind: str) -> None:
    """Write rows as lists, as lists of one length or as columns, in several row groups."""
    flat, width = pa.array(X.ravel()), X.shape[1]
    lists = {
        "list": pa.ListArray.from_arrays(pa.array(range(0, X.size + 1, width), pa.int32()), flat),
        "fixed": pa.FixedSizeListArray.from_arrays(flat, width),
    }
    columns = {f"f{k}": X[:, k] for k in range(width)}
    if kind in lists:
        columns = {"vector": lists[kind]}
    label = [f"class {row % 3}" for row in range(len(X))]
    pq.write_table(pa.table({**columns, "label": label}), path, row_group_size=len(X) // 3)


@pytest.mark.parametrize(
    "kind", ["fixed", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("list", "columns"))]
)
def test_parquet_takes_little_more_memory_than_its_rows(tmp_path: Path, kind: str) -> None:
    X = np.random.default_rng(0).standard_normal((80_000, 128), dtype=np.float32)
    path = tmp_path / "rows.parquet"
    _vector_file(path, X, kind)
    read_table(path, label="label", keep_unlabelled=True)  # imports take memory, too
    tracemalloc.start()
    try:
        table = read_table(path, label="label", keep_unlabelled=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(table.X, X)
    assert table.X.dtype == np.float32
    assert peak <= 1.5 * X.nbytes
    # tracemalloc does not see memory of Arrow: batches bound it.
    with open_table(path, ColumnChoice(others=tuple(column_names(path)))) as reader:
        assert max(len(batch) for batch in reader.batches()) * X[0].nbytes <= 1 << 23


@pytest.mark.parametrize("kind", ["list", "fixed", "columns"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_parquet_is_read_as_pandas_reads_it(tmp_path: Path, kind: str, precision: str) -> None:
    X = np.random.default_rng(0).standard_normal((9_000, 130)).astype(precision)
    path = tmp_path / "rows.parquet"
    _vector_file(path, X, kind)
    frame = pq.read_table(path).to_pandas()
    rows = frame["vector"].tolist() if "vector" in frame else frame.drop(columns="label")
    table = read_table(path, label="label")
    np.testing.assert_array_equal(table.X, np.asarray(rows))
    assert table.X.dtype == precision
    assert table.y is not None
    assert table.y.tolist() == frame["label"].tolist()


def test_vectors_without_a_label_or_without_numbers(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((20_000, 60))
    lists: list[list[float] | None] = X.tolist()
    lists[3] = lists[19_000] = None
    labels: list[str | None] = ["ab"[row % 2] for row in range(len(X))]
    labels[0] = labels[10_000] = None
    path = tmp_path / "rows.parquet"
    kept = np.setdiff1d(np.arange(len(X)), [0, 10_000])
    for kind in (pa.list_(pa.float64()), pa.list_(pa.float64(), 60)):
        column = pa.array(lists, kind)
        pq.write_table(pa.table({"vector": column, "label": labels}), path, row_group_size=7_000)
        table = read_table(path, label="label")
        assert table.feature_names is not None
        assert table.feature_names[-1] == "vector=(missing)"
        missing = np.isin(kept, [3, 19_000])
        np.testing.assert_array_equal(table.X[:, -1], missing)
        np.testing.assert_array_equal(table.X[~missing, :-1], X[kept][~missing])
        np.testing.assert_array_equal(table.X[missing, :-1], [np.median(X[kept][~missing], 0)] * 2)


def test_vectors_of_several_lengths_are_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    lists = [[1.0, 2.0]] * 29_999 + [[1.0]]
    pq.write_table(pa.table({"vector": lists, "label": ["a", "b"] * 15_000}), path)
    with pytest.raises(TableError, match=r"a list of 1' in row 29999 .* a list of 2 numbers"):
        read_table(path, label="label")
