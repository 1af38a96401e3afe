"""``nearfar weigh``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from nearfar import SourceWeights
from nearfar.search import write_qrels
from search.test_sources import shop

INPUT = ["q.parquet", "d.parquet", "--qrels", "qrels.txt", "--source", "title"]


@pytest.fixture
def tables(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tables and judgements in the working directory; return the tables."""
    queries, documents, relevance = shop()
    for name, table in (("q", queries), ("d", documents)):
        pl.DataFrame({"id": range(len(table["text"])), **table}).write_parquet(f"{name}.parquet")
    write_qrels("qrels.txt", relevance)
    return queries, documents


def test_weights_of_files_are_those_of_arrays(run: Any, tables: Any) -> None:
    queries, documents = tables
    columns = ["--source", "picture", "--bm25", "text", "--number", "price"]
    text = run("weigh", *INPUT, *columns).stdout
    loaded = SourceWeights.load("weights.safetensors")
    expected = SourceWeights().fit(*shop())
    assert loaded.weights_ == pytest.approx(expected.weights_)
    assert "Weights written to weights.safetensors" in text
    scores = loaded.scores(queries, documents)
    assert scores.shape == (40, 150)


def test_prints_json_and_exits_with_3_without_a_gain(document: Any, tables: Any) -> None:
    found = document("weigh", *INPUT, "--out", "w.safetensors", code=3)
    assert found["outcome"] == "same"
    assert found["weights"].keys() == {"title"}
    assert Path("w.safetensors").exists()


def test_dates_count_as_days(run: Any, tables: Any) -> None:
    documents = pl.read_parquet("d.parquet")
    days = pl.Series("day", (100 * documents["price"]).cast(pl.Int32)).cast(pl.Date)
    documents.with_columns(day=days).write_parquet("d.parquet")
    run("weigh", *INPUT, "--number", "day")
    weights = SourceWeights.load("weights.safetensors")
    assert weights.weights_["day"] < 0
    np.testing.assert_allclose(weights.numbers_["day"][0], days.to_physical().mean())


def test_mistakes_are_named(run: Any, tables: Any) -> None:
    assert "colour" in run("weigh", *INPUT, "--number", "colour", code=2).stderr
    wrong = run("weigh", *INPUT, "--number", "text", code=2).stderr
    assert "Row 0 of text has missing" in wrong
    unclear = run("weigh", *INPUT[:4], code=2).stderr
    assert "lists in columns title, picture; choose one with --source." in unclear


def test_the_result_says_whether_to_use_it(run: Any, tables: Any) -> None:
    alone = run("weigh", *INPUT, code=3).stdout
    assert "This choice is not shown to be better than" in alone
    better = run("weigh", *INPUT, "--source", "picture", "--number", "price").stdout
    assert "This choice" not in better


def test_show_says_what_sources_add_and_where_weights_come_from(
    run: Any, document: Any, tables: Any
) -> None:
    run("weigh", *INPUT, "--number", "price")
    weights = SourceWeights.load("weights.safetensors")
    found = document("show", "weights.safetensors")
    assert found["weights"] == weights.weights_
    assert found["provenance"]["data"] == {"queries": 36, "documents": 150}
    shown = run("show", "weights.safetensors").stdout
    assert str(weights.chosen_) in shown
    assert "from 36 queries and 150 documents" in shown
    refused = run("transform", "weights.safetensors", "q.parquet", "x.npy", code=2).stderr
    assert "weights of the sources of a search" in refused
