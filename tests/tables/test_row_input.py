"""Rows from tables, arrays and datasets, and errors that say what to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from nearfar.tables.errors import TableError
from nearfar.tables.preparation import ColumnRules
from nearfar.tables.row_input import read_rows
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
    rows = read_rows(source, labelled=True, **options)
    np.testing.assert_array_equal(rows.X, X)
    np.testing.assert_array_equal(np.unique(rows.labels, return_inverse=True)[1], y)
    if options == TABLE:
        assert rows.feature_names == tuple(NAMES)


def test_names_and_texts(folder):
    rows = read_rows("iris.csv", ids="name", text="species")
    assert rows.row_name(3) == "flower 3"
    assert rows.texts[149] == "virginica"
    assert rows.y is None


def test_another_array_has_the_labels(folder, iris):
    np.testing.assert_array_equal(read_rows("both.npz", label="other").labels, iris[1] % 2)


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
    assert np.unique(read_rows("in.csv", label="y").labels).tolist() == classes


def test_float32_stays(folder, iris):
    np.save("single.npy", iris[0].astype(np.float32))
    pl.DataFrame(iris[0].astype(np.float32)).write_parquet("single.parquet")
    assert read_rows("single.npy").X.dtype == np.float32
    assert read_rows("single.parquet").X.dtype == np.float32


FILES = {
    "cell.csv": "x,y\n" + "".join(f"{i * i},a\n" for i in range(30)) + "x7,b\n" * 30,
    "lists.jsonl": '{"v": [1, 2], "y": "a"}\n{"v": [3], "y": "b"}\n',
    "junk.jsonl": "{junk",
    "junk.csv.gz": "junk",
    "nolabel.csv": "x,y\n1,a\n3,\n2,a\n",
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
    "no label": ("iris.csv", {}, "column of labels with --label; iris.csv has a, b"),
    "no such label": ("iris.csv", {"label": "kind"}, "no column 'kind'; it has a, .*species"),
    "no such column": ("iris.csv", {"label": "species", "drop": ["q"]}, "no column 'q'"),
    "label dropped": ("iris.csv", {"label": "name", "drop": ["name"]}, "cannot be dropped"),
    "decimal labels": ("decimal.csv", {"label": "y"}, "decimal numbers"),
    "infinite": ("inf.parquet", {"label": "y"}, "Column z: 'inf' in row 1 .* not a finite number"),
    "a cell": (
        "cell.csv",
        {"label": "y", "rules": ColumnRules(numeric=["x"])},
        "Column x: 'x7' in row 30 .* is not a number",
    ),
    "lists": ("lists.jsonl", {"label": "y"}, "Column v: 'a list of 1' in row 1 .*a list of 2"),
    "bytes as labels": ("bytes.parquet", {"label": "y"}, "Column y has Binary; labels must be"),
    "JSON": ("junk.jsonl", {"label": "y"}, "cannot be read"),
    "not gzip": ("junk.csv.gz", {"label": "y"}, "cannot be read"),
    "missing labels": ("nolabel.csv", {"label": "y"}, "1 row .* has no label"),
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
        _ = read_rows(source, labelled=True, **options).labels
    assert "\n" not in str(caught.value)
