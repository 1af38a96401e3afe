from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics.pairwise import cosine_distances

from nearfar import Metric
from nearfar.neighbors import kneighbors

METRIC = ["neighbors", "metric.safetensors", "iris.csv"]


def test_of_chosen_rows(document, iris):
    options = ["--row", 3, "--row", 140, "--neighbors", 4, "--label", "species", "--show", "name"]
    found = document(*METRIC, *options)
    distances, rows = kneighbors(Metric.load("metric.safetensors"), iris[0], n_neighbors=4)
    np.testing.assert_array_equal([line["neighbor"] for line in found], rows[[3, 140]].ravel())
    np.testing.assert_allclose(
        [line["distance"] for line in found], distances[[3, 140]].ravel(), rtol=1e-6
    )
    assert found[0]["query"] == 3
    assert found[0]["label"] == "setosa"
    assert found[0]["text"] == f"flower {rows[3, 0]}"


def test_of_all_rows(run):
    run(*METRIC, "--id", "name", "--out", "out.tsv")
    table = pl.read_csv("out.tsv", separator="\t")
    assert table.shape == (750, 4)
    assert (table["query"] != table["neighbor"]).all()


def test_of_other_rows(document):
    pl.read_csv("iris.csv")[:2].drop("species").write_csv("asked.csv")
    options = ["--queries", "asked.csv", "--neighbors", 1, "--label", "species"]
    found = document(*METRIC, *options)
    assert [line["neighbor"] for line in found] == [0, 1]
    assert found[0]["distance"] == pytest.approx(0, abs=1e-6)


def test_on_the_terminal(run):
    result = run(*METRIC, "--id", "name", "--show", "species", "--row", "flower 7")
    assert "iris, row flower 7: setosa" in result.stdout
    assert result.stdout.count("│ flower ") == 5


def test_of_a_gated_metric(document, iris):
    found = document("neighbors", "gated.safetensors", "iris", "--row", 5)
    expected = kneighbors(Metric.load("gated.safetensors"), iris[0], n_neighbors=5)[1][5]
    assert [line["neighbor"] for line in found] == expected.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--row", "150"], "no row '150'; it has rows 0 to 149"),
        (["--row", "x", "--id", "name"], "no row 'x'; it has flower 0, flower 1"),
        (["--neighbors", "150"], "more than the 149 rows"),
        (["--out", "out.npy"], "cannot be written in this format"),
        (["--out", "iris.csv"], "is an input"),
        (["--queries", "rows.csv"], "no file"),
    ],
)
def test_errors(fail, options, message):
    assert message in fail(*METRIC, *options)


def test_wrong_number_of_features(fail, iris):
    np.save("narrow.npy", iris[0][:, :3])
    message = fail("neighbors", "metric.safetensors", "narrow.npy")
    assert "needs 4 features, but narrow.npy has 3 columns" in message


def test_a_full_disk_is_one_line(fail, monkeypatch):
    def full(*_, **__):
        raise pa.ArrowException("no space left on device\nand more")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    assert "out.parquet cannot be written: no space left" in fail(*METRIC, "--out", "out.parquet")


def test_queries_show_their_label_and_text(run, document):
    asked = pl.read_csv("iris.csv")[[0, 60]]
    asked.write_csv("asked.csv")
    options = ["--queries", "asked.csv", "--label", "species", "--show", "name", "--neighbors", 1]
    result = run(*METRIC, *options)
    assert "asked, row 0, setosa: flower 0" in result.stdout
    assert "asked, row 1, versicolor: flower 60" in result.stdout
    found = document(*METRIC, *options)
    assert [line["query_label"] for line in found] == ["setosa", "versicolor"]
    assert [line["query_text"] for line in found] == ["flower 0", "flower 60"]


def test_queries_may_lack_labels(run):
    asked = pl.read_csv("iris.csv")[[0, 60]]
    asked.with_columns(pl.Series("species", ["setosa", None])).write_csv("asked.csv")
    result = run(*METRIC, "--queries", "asked.csv", "--label", "species", "--neighbors", 1)
    assert "asked, row 0, setosa" in result.stdout
    assert "asked, row 1\n" in result.stdout.replace(" \n", "\n")


def test_plain_distances(document, fail, iris):
    X, _ = iris
    found = document("neighbors", "rows.npy", "--distance", "cosine", "--neighbors", 2)
    best = np.argsort(cosine_distances(X[:1], X)[0])[1:3]
    assert {row["neighbor"] for row in found if row["query"] == 0} == set(best.tolist())
    cosine = [row["distance"] for row in found if row["query"] == 0]
    np.testing.assert_allclose(cosine, cosine_distances(X[:1], X[best])[0], atol=1e-9)
    drop = ["--drop", "species", "--drop", "name"]
    found = document("neighbors", "iris.csv", *drop, "--distance", "euclidean", "--row", 7)
    nearest = np.sort(np.linalg.norm(X - X[7], axis=1))[1:6]
    np.testing.assert_allclose([row["distance"] for row in found], nearest, atol=1e-9)
    assert "or a table and --distance" in fail("neighbors", "iris.csv")
    assert "no metric file" in fail(
        "neighbors", "metric.safetensors", "iris.csv", "--distance", "cosine"
    )


def test_the_terminal_shows_the_first_queries_and_says_so(run, document):
    arguments = (
        "neighbors",
        "metric.safetensors",
        "iris.csv",
        "--label",
        "species",
        "--drop",
        "name",
    )
    assert "first 5 of 150 rows; --out has all" in run(*arguments).stderr
    assert len({found["query"] for found in document(*arguments)}) == 150
