from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from nearfar.frames.formats import read_frame
from nearfar.frames.judgements import read_pairs, read_queries, read_triplets
from nearfar.frames.reading import read_table
from nearfar.frames.table import TableError


@pytest.fixture
def rows(folder):
    return read_table("iris.csv", drop=["species"], ids="name")


@pytest.fixture
def numbered(folder):
    return read_table("rows.npy")


def test_rows_by_number_and_by_name(rows, numbered):
    table = pl.read_csv("pairs.csv")
    table.with_columns(
        pl.format("flower {}", "a").alias("a"), pl.format("flower {}", "b").alias("b")
    ).write_csv("named.csv")
    by_number, by_name = (
        read_pairs(read_frame(Path("pairs.csv")), Path("pairs.csv"), numbered),
        read_pairs(read_frame(Path("named.csv")), Path("named.csv"), rows),
    )
    np.testing.assert_array_equal(by_number.index, table.select("a", "b").to_numpy())
    np.testing.assert_array_equal(by_name.index, by_number.index)
    np.testing.assert_array_equal(by_name.similar, table["similar"].to_numpy())
    assert by_name.weight is None


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_weights_and_other_formats(numbered, kind):
    table = pl.read_csv("triplets.csv").with_columns(weight=pl.lit(2.0), other=pl.lit("x"))
    path = Path(f"weighted.{kind}")
    table.write_csv(path) if kind == "csv" else table.write_parquet(path)
    triplets = read_triplets(read_frame(path), path, numbered)
    np.testing.assert_array_equal(triplets.index, table.select("anchor", "near", "far").to_numpy())
    assert set(triplets.weight) == {2.0}


def test_the_first_columns_need_no_names(numbered):
    Path("bare.csv").write_text("i,j\n3,4\n5,6\n")
    index, pairs = read_queries(read_frame(Path("bare.csv")), Path("bare.csv"), numbered)
    assert index.tolist() == [[3, 4], [5, 6]]
    assert pairs is None


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("a,b,similar\n0,999,true\n", "rows 0 to 149"),
        ("a,b,similar\n0,x,true\n", "row names with ids"),
        ("a,b,similar\n0,1,maybe\n", "'maybe' .* true or false"),
        ("a,b,similar\n0,,true\n", "missing values in a, b"),
        ("a,b,similar,weight\n0,1,true,x\n", "weights that are missing or not numbers"),
        ("a,b\n0,1\n", "no column 'similar'"),
        ("a,b,similar\n", "has no rows"),
    ],
)
def test_bad_pairs(numbered, table, message):
    Path("bad.csv").write_text(table)
    with pytest.raises(TableError, match=message):
        read_pairs(read_frame(Path("bad.csv")), Path("bad.csv"), numbered)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("anchor,near\n0,1\n", "no column 'far'"),
        ("x,y\n0,1\n", "needs the columns anchor, near, far"),
        ("x,y,z\n0,1,p\n", "needs the columns anchor, near, far"),
    ],
)
def test_bad_triplets(numbered, table, message):
    Path("bad.csv").write_text(table)
    with pytest.raises(TableError, match=message):
        read_triplets(read_frame(Path("bad.csv")), Path("bad.csv"), numbered)


def test_names_that_no_row_has(rows):
    Path("bad.csv").write_text("a,b,similar\nflower 1,tree 2,true\n")
    with pytest.raises(TableError, match="'tree 2'"):
        read_pairs(read_frame(Path("bad.csv")), Path("bad.csv"), rows)


def test_names_that_two_rows_have(folder):
    with pytest.raises(TableError, match="not unique"):
        read_table("iris.csv", drop=["name"], ids="species")


def test_pairs_that_verify_has_written(numbered, tmp_path):
    for name in ("similar", "same"):
        path = tmp_path / f"{name}.csv"
        pl.DataFrame({"a": [0, 1], "b": [2, 3], name: [True, False]}).write_csv(path)
        assert read_pairs(read_frame(path), path, numbered).similar.tolist() == [True, False]


class TestObjectsWithoutVectors:
    """Triplets and pairs of objects that have no features say what to do."""

    def test_there_are_no_rows(self, fail):
        for command in ("learn", "compare", "report"):
            message = fail(command, "--triplets", "triplets.csv")
            assert "nearfar learn OBJECTS.csv --id NAME --triplets triplets.csv" in message
            assert "OrdinalEmbedding" in message
        assert "--id NAME --pairs pairs.csv" in fail("learn", "--pairs", "pairs.csv")
        assert "Name the rows" in fail("learn")

    def test_the_rows_are_the_judgements(self, fail):
        message = "which triplets.csv does not have"
        assert message in fail("learn", "triplets.csv", "--triplets", "triplets.csv")
        assert message in fail("learn", "triplets.csv")
        assert "--pairs pairs.csv" in fail("learn", "pairs.csv", "--pairs", "pairs.csv")
        assert "--pairs pairs.csv" in fail("learn", "pairs.csv")

    def test_the_rows_are_names(self, fail, folder):
        pl.DataFrame({"name": ["x", "y", "z"], "who": ["a", "b", "a"]}).write_csv("names.csv")
        options = ["--triplets", "triplets.csv", "--id", "name"]
        for left_out in ("--drop", "--group"):
            message = fail("learn", "names.csv", *options, left_out, "who")
            assert "names.csv has no columns left for features" in message

    def test_features_may_have_such_names(self, run, folder, iris):
        X, y = iris
        table = pl.DataFrame(X[:, :3], schema=["a", "b", "c"])
        table.with_columns(pl.Series("similar", y)).write_csv("abc.csv")
        options = ["--method", "rca", "--write"]
        run("learn", "abc.csv", "--label", "similar", *options)
        table.rename({"a": "anchor", "b": "near", "c": "far"}).with_columns(
            pl.Series("y", y)
        ).write_csv("odd.csv")
        run("learn", "odd.csv", "--label", "y", *options)


def test_other_names_are_read_by_position_with_a_note(numbered, notes):
    Path("odd.csv").write_text("loser,winner,head\n0,1,2\n3,4,5\n")
    found = read_triplets(read_frame(Path("odd.csv")), Path("odd.csv"), numbered)
    assert found.index.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert "Took loser as anchor, winner as near, head as far: odd.csv" in notes[0].text
    read_triplets(read_frame(Path("triplets.csv")), Path("triplets.csv"), numbered)
    assert len(notes) == 1
