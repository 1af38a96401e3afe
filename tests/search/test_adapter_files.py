"""Commands with the file of an adapter instead of a metric."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import faiss
import numpy as np
import onnxruntime
import polars as pl
import pytest

from nearfar import RetrievalAdapter
from nearfar.search import write_qrels
from search.problems import topic_search

SEARCH = ["neighbors", "a.safetensors", "d.parquet", "--queries", "q.parquet"]


@pytest.fixture(params=["dot", "cosine"])
def adapter(request: pytest.FixtureRequest, folder: Path) -> tuple[RetrievalAdapter, Any, Any]:
    """An adapter in a file, with its vectors in arrays and tables."""
    Q, X, relevance = topic_search()
    fitted = RetrievalAdapter(score=request.param, cv=2, max_iter=4).fit(Q, X, relevance)
    assert fitted.chosen_.helps
    fitted.save("a.safetensors")
    np.savez("all.npz", Q=Q, X=X)
    np.save("q.npy", Q)
    names = [f"d{row}" for row in range(len(X))]
    pl.DataFrame({"id": names, "emb": X}).write_parquet("d.parquet")
    texts = [f"what is {row}?" for row in range(len(Q))]
    asked = [f"q{row}" for row in range(len(Q))]
    pl.DataFrame({"query_id": asked, "emb": Q, "text": texts}).write_parquet("q.parquet")
    pl.DataFrame(Q, schema=[f"v{i}" for i in range(8)]).write_csv("q.csv")
    write_qrels("judged.qrels", relevance, document_ids=names, query_ids=asked)
    return fitted, Q, X


def test_neighbors_are_the_best_documents(document: Any, run: Any, adapter: Any) -> None:
    fitted, Q, X = adapter
    scores, documents = fitted.kneighbors(Q, X, 4)
    found = document(*SEARCH, "--neighbors", 4)
    assert [line["neighbor"] for line in found] == [f"d{row}" for row in documents.ravel()]
    np.testing.assert_allclose([line["score"] for line in found], scores.ravel(), rtol=1e-9)
    assert found[0]["query_text"] == "what is 0?"
    text = run(*SEARCH, "--row", "q3", "--neighbors", 2).stdout
    assert "score" in text
    assert f"d{documents[3, 0]}" in text
    arrays = document("neighbors", "a.safetensors", "all.npz", "--queries", "all.npz")
    assert arrays[0]["neighbor"] == documents[0, 0]


def test_neighbors_need_queries_and_vectors(fail: Any, adapter: Any) -> None:
    assert "give them with --queries FILE" in fail(*SEARCH[:3])
    assert "an adapter takes vectors" in fail(*SEARCH, "--label", "id")
    assert "--neighbors 900 is more than the 200 rows" in fail(*SEARCH, "--neighbors", 900)
    assert "--vector is for adapters" in fail(
        "neighbors", "metric.safetensors", "iris.csv", "--vector", "a"
    )
    np.save("wide.npy", np.ones((9, 9)))
    message = fail("neighbors", "a.safetensors", "wide.npy", "--queries", "q.npy")
    assert "X has 9 features; the adapter was learned on 8" in message


@pytest.mark.parametrize("source", ["q.npy", "q.csv", "q.parquet"])
def test_transform_maps_queries_and_documents(run: Any, adapter: Any, source: str) -> None:
    fitted, Q, _ = adapter
    for options, expected in (
        ([], fitted.transform_queries(Q)),
        (["--documents"], fitted.transform_documents(Q)),
    ):
        run("transform", "a.safetensors", source, "out.npy", *options)
        np.testing.assert_allclose(np.load("out.npy"), expected, rtol=1e-12)


def test_transform_keeps_columns_and_chooses_vectors(run: Any, fail: Any, adapter: Any) -> None:
    fitted, Q, _ = adapter
    table = pl.read_parquet("q.parquet").with_columns(pl.col("emb").alias("other"))
    table.write_parquet("two.parquet")
    command = ["transform", "a.safetensors", "two.parquet", "out.parquet"]
    assert "has lists in columns emb, other; choose one with --vector" in fail(*command)
    assert "Column text of two.parquet has no lists" in fail(*command, "--vector", "text")
    assert "no column 'x'" in fail(*command, "--vector", "x")
    run(*command, "--vector", "other", "--keep", "text", "--as-vector")
    found = pl.read_parquet("out.parquet")
    assert found["text"].to_list() == table["text"].to_list()
    np.testing.assert_allclose(found["nearfar"].to_numpy(), fitted.transform_queries(Q))
    message = fail("transform", "metric.safetensors", "iris.csv", "out.csv", "--documents")
    assert "--documents is for adapters, which metric.safetensors is not" in message


def test_show_says_what_was_chosen(run: Any, document: Any, adapter: Any) -> None:
    fitted, _, _ = adapter
    text = run("show", "a.safetensors").stdout
    assert "adapter of 8 features for queries; documents stay as they are" in text
    assert str(fitted.chosen_) in text
    found = document("show", "a.safetensors")
    assert found["chosen"]["after"] == fitted.chosen_.after
    values = np.linalg.svd(fitted.W_, compute_uv=False)
    np.testing.assert_allclose(found["singular_values"], values)
    change = np.linalg.norm(fitted.W_ - np.eye(8)) / np.linalg.norm(np.eye(8))
    assert found["change"] == pytest.approx(change)


def test_show_an_adapter_of_both_sides(run: Any, folder: Path) -> None:
    both = RetrievalAdapter(side="both", cv=None, max_iter=2).fit(*topic_search())
    both.save("both")
    text = run("show", "both").stdout
    assert "documents too" in text
    assert "both tables whitened" in text


@pytest.mark.parametrize("documents", [False, True])
def test_export_models_and_modules(run: Any, adapter: Any, documents: bool) -> None:
    fitted, Q, _ = adapter
    expected = fitted.transform_documents(Q) if documents else fitted.transform_queries(Q)
    options = ["--documents"] if documents else []
    text = run("export", "a.safetensors", "--to", "onnx", "--out", "m.onnx", *options).stdout
    assert text == "ONNX model, 8 features to 8 coordinates, written to m.onnx\n"
    session = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
    found = session.run(None, {"X": Q.astype(np.float32)})[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    run("export", "a.safetensors", "--to", "numpy", "--out", "m.py", *options)
    module: dict[str, Any] = {}
    exec(Path("m.py").read_text(), module)
    np.testing.assert_allclose(module["transform"](Q), expected)


def test_export_an_index_and_sql(run: Any, fail: Any, adapter: Any) -> None:
    fitted, Q, X = adapter
    options = ["--to", "faiss", "--out", "index"]
    text = run("export", "a.safetensors", *options, "--rows", "d.parquet").stdout
    assert text.startswith("faiss index of 200 rows")
    scores, documents = fitted.kneighbors(Q, X, 5)
    found = faiss.read_index("index").search(Q.astype(np.float32), 5)
    np.testing.assert_allclose(found[0], scores, rtol=1e-4, atol=1e-4)
    assert "give them with --rows SOURCE" in fail("export", "a.safetensors", *options)
    sql = ["export", "a.safetensors", "--to", "sql", "--out", "s.sql"]
    run(*sql, "--column", "emb", "--table", "d.parquet")
    statement = Path("s.sql").read_text().replace("LIMIT 10", "LIMIT 5")
    rows = duckdb.execute(statement, {"query": Q[2].tolist()}).fetchall()
    assert [row[0] for row in rows] == [f"d{row}" for row in documents[2]]
    assert "Name the column of the documents' vectors" in fail(*sql)
    assert "--documents is for a map" in fail(*sql, "--column", "emb", "--documents")
    assert "--drop is for metrics" in fail(*sql, "--drop", "id")
    message = fail("export", "metric.safetensors", *sql[2:], "--documents")
    assert "--documents is for adapters" in message


def test_a_report_on_an_adapter(document: Any, run: Any, fail: Any, adapter: Any) -> None:
    fitted, Q, X = adapter
    others = Q + 0.3 * np.random.default_rng(0).normal(size=Q.shape)
    pl.read_parquet("q.parquet").with_columns(emb=others).write_parquet("new.parquet")
    command = ["search-report", "new.parquet", "d.parquet", "--qrels", "judged.qrels"]
    command += ["--out", "r.html", "--adapter", "a.safetensors"]
    found = document(*command, "--run-out", "r.trec")["comparison"]
    assert (found["n_queries"], found["n_folds"]) == (40, 0)
    lines = [line.split() for line in Path("r.trec").read_text().splitlines()]
    best = [line[-4] for line in lines if line[-3] == "1"]
    assert best == [f"d{row}" for row in fitted.kneighbors(others, X, 1)[1].ravel()]
    assert "on these searches" in run(*command).stdout
    page = Path("r.html").read_text(encoding="utf-8")
    assert str(fitted.chosen_) in page
    assert "The adapter was not learned from them" in page
    assert "Searches: 40 queries, 200 documents" in page
    np.save("q9.npy", np.ones((1, 9)))
    np.save("d9.npy", np.eye(9))
    Path("few.qrels").write_text("0 0 1 1\n")
    message = fail(
        "search-report", "q9.npy", "d9.npy", "--qrels", "few.qrels", *command[5:], "--results", 3
    )
    assert "for vectors of length 8; those of d9 have 9" in message
    message = fail(*command[:-1], "metric.safetensors")
    assert "metric.safetensors is not an adapter" in message
    assert "is an input" in fail(
        *command[:4],
        "judged.qrels",
        "--adapter",
        "a.safetensors",
        "--out",
        "r.html",
        "--run-out",
        "a.safetensors",
    )


def test_a_budget_leaves_out_folds(run: Any, fail: Any, adapter: Any) -> None:
    command = ["adapt", "q.parquet", "d.parquet", "--qrels", "judged.qrels"]
    text = run(*command, "--budget", "0s", code=None).stdout
    assert text.startswith("Searches that were held out: 8 queries, 200 documents, 1 of 5 folds")
    assert "5 folds" in run(*command, "--budget", "1h", code=None).stdout.splitlines()[0]
    assert "not a length of time" in fail(*command, "--budget", "soon")


def test_other_commands_take_metrics(fail: Any, adapter: Any) -> None:
    for command in ("evaluate", "verify"):
        message = fail(command, "a.safetensors", "iris.csv", *(["pairs.csv"] * (command[0] == "v")))
        assert "is an adapter for searches, not a metric" in message
