"""Exported adapters map and search as the adapters themselves do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np
import onnxruntime
import pytest
from sklearn.exceptions import NotFittedError

from nearfar import RetrievalAdapter
from search.problems import topic_search

K = 10
KINDS: dict[str, dict[str, Any]] = {
    "query": {},
    "cosine": {"score": "cosine"},
}


@pytest.fixture(params=KINDS)
def fitted(request: pytest.FixtureRequest) -> tuple[RetrievalAdapter, Any, Any]:
    """An adapter that is a linear map, with queries and documents."""
    Q, X, relevance = topic_search()
    options = {"cv": None, "max_iter": 3} | KINDS[request.param]
    adapter = RetrievalAdapter(**options).fit(Q, X, relevance)
    return adapter, Q, X


def test_models_and_modules_map_queries_and_documents(
    fitted: tuple[RetrievalAdapter, Any, Any], tmp_path: Path
) -> None:
    adapter, Q, X = fitted
    maps = {False: adapter.transform_queries, True: adapter.transform_documents}
    for documents, transform in maps.items():
        rows = X if documents else Q
        adapter.to_onnx(tmp_path / "m.onnx", documents=documents, dtype="float64")
        session = onnxruntime.InferenceSession(
            str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"]
        )
        np.testing.assert_allclose(session.run(None, {"X": rows})[0], transform(rows), atol=1e-12)
        adapter.to_numpy(tmp_path / "m.py", documents=documents)
        module: dict[str, Any] = {}
        exec((tmp_path / "m.py").read_text(), module)
        np.testing.assert_allclose(module["transform"](rows), transform(rows), atol=1e-12)
        assert "An adapter: 8 features" in module["__doc__"]
        assert "are scores" in module["transform"].__doc__


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf", "IVF4,Flat"])
def test_an_index_searches_with_queries_as_they_are(
    fitted: tuple[RetrievalAdapter, Any, Any], kind: str, tmp_path: Path
) -> None:
    adapter, Q, X = fitted
    faiss.write_index(adapter.to_faiss(X, kind), str(tmp_path / "index"))
    index = faiss.read_index(str(tmp_path / "index"))
    if kind == "IVF4,Flat":
        faiss.extract_index_ivf(index).nprobe = 4
    found, rows = index.search(Q.astype(np.float32), K)
    scores, expected = adapter.kneighbors(Q, X, K)
    kept = np.mean([len(set(a) & set(b)) / K for a, b in zip(rows, expected, strict=True)])
    assert kept > (0.99 if kind in ("flat", "IVF4,Flat") else 0.6)
    if kind == "flat":
        np.testing.assert_allclose(found, scores, rtol=1e-4, atol=1e-5)


def test_documents_that_are_added_later_are_mapped_as_documents(fitted, tmp_path: Path) -> None:
    adapter, Q, X = fitted
    index = adapter.to_faiss(X[:150])
    index.add(X[150:190])
    index.add_with_ids(X[190:], range(190, 200))
    assert index.ntotal == len(X)
    found, rows = index.search(Q.astype(np.float32), K)
    scores, expected = adapter.kneighbors(Q, X, K)
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_allclose(found, scores, rtol=1e-4, atol=1e-5)
    faiss.write_index(index, str(tmp_path / "index"))
    again = faiss.read_index(str(tmp_path / "index"))
    with pytest.raises(RuntimeError, match="add does not make sense"):
        again.add(X[:3].astype(np.float32))
    with pytest.raises(RuntimeError, match="add does not make sense"):
        again.add_with_ids(X[:3].astype(np.float32), np.arange(3))
    assert again.ntotal == len(X)
    np.testing.assert_array_equal(again.search(Q.astype(np.float32), K)[1], expected)


def test_refusals(tmp_path: Path) -> None:
    Q, X, relevance = topic_search()
    with pytest.raises(NotFittedError):
        RetrievalAdapter().to_onnx(tmp_path / "m.onnx")
    adapter = RetrievalAdapter(cv=None, max_iter=1).fit(Q, X, relevance)
    with pytest.raises(ValueError, match="has documents in it; pass them as X"):
        adapter.to_faiss(None)
    with pytest.raises(ValueError, match="Name the column of the documents' vectors"):
        adapter.to_sql(None)
    both = RetrievalAdapter(side="both", cv=None, max_iter=1).fit(Q, X, relevance)
    with pytest.raises(ValueError, match="whitens both tables is not a linear map"):
        both.to_onnx(tmp_path / "m.onnx")
