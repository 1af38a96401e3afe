from __future__ import annotations

import sys

import faiss
import numpy as np
import pytest

from nearfar import GatedMetric, Metric
from nearfar.neighbors import kneighbors

K = 10


def recall(index, metric, rows, queries):
    found = index.search(queries.astype(np.float32), K)[1]
    expected = kneighbors(metric, rows, queries, n_neighbors=K)[1]
    return np.mean([len(set(a) & set(b)) / K for a, b in zip(found, expected, strict=True)])


@pytest.mark.parametrize("n_queries", [1, 40], ids=["differences", "inner products"])
def test_flat_distances_are_the_metrics(metric, rows, queries, n_queries):
    index = metric.to_faiss(rows)
    found, indices = index.search(queries[:n_queries].astype(np.float32), len(rows))
    expected = metric.distances(queries[:n_queries], rows)
    largest = (metric.transform(rows) ** 2).sum(axis=1).max()
    for line in range(n_queries):
        squared = expected[line, indices[line]] ** 2
        np.testing.assert_allclose(found[line], squared, rtol=1e-5, atol=1e-6 * largest)


def test_rows_may_be_added_later(metric, rows, queries):
    index = metric.to_faiss()
    index.add(rows.astype(np.float32))
    assert recall(index, metric, rows, queries) > 0.995


@pytest.mark.parametrize("kind", ["hnsw", "ivf", "IVF20,SQ8"])
def test_recall(metric, rows, queries, kind):
    index = metric.to_faiss(rows, index=kind)
    if kind == "IVF20,SQ8":
        faiss.extract_index_ivf(index).nprobe = 10
    assert index.ntotal == len(rows)
    assert recall(index, metric, rows, queries) > 0.9


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf"])
def test_an_index_survives_a_file(tmp_path, metric, rows, queries, kind):
    index = metric.to_faiss(rows, index=kind)
    faiss.write_index(index, str(tmp_path / "index"))
    again = faiss.read_index(str(tmp_path / "index"))
    sought = queries.astype(np.float32)
    for a, b in zip(index.search(sought, K), again.search(sought, K), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf"])
def test_an_index_of_a_metric_that_bends_maps_rows(tmp_path, bent, rows, queries, kind):
    index = bent.to_faiss(rows, index=kind)
    assert recall(index, bent, rows, queries) > (0.95 if kind == "flat" else 0.7)
    found, indices = index.search(queries, K)
    expected = np.take_along_axis(bent.distances(queries, rows), indices, 1) ** 2
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
    faiss.write_index(index, str(tmp_path / "index"))
    again = faiss.read_index(str(tmp_path / "index"))
    mapped = bent.transform(queries).astype(np.float32)
    np.testing.assert_array_equal(again.search(mapped, K)[1], indices)


def test_centring_keeps_digits(rows, queries):
    metric = Metric.identity(rows.shape[1])
    far = 1000.0
    expected = metric.distances(queries, rows) ** 2
    found, indices = metric.to_faiss(rows + far).search((queries + far).astype(np.float32), K)
    np.testing.assert_allclose(found, np.take_along_axis(expected, indices, 1), rtol=1e-3)


def test_errors(monkeypatch, rows):
    metric = Metric.identity(rows.shape[1])
    with pytest.raises(ValueError, match="'ivf' is trained on rows; pass them as X"):
        metric.to_faiss(index="ivf")
    with pytest.raises(ValueError, match=r"'flat', 'hnsw', 'ivf' or .* got 'tree'"):
        metric.to_faiss(rows, index="tree")
    with pytest.raises(ValueError, match="12 features"):
        metric.to_faiss(rows[:, :5])
    with pytest.raises(ValueError, match="several maps cannot be exported"):
        GatedMetric([metric, metric], np.zeros((2, 12)), [0, 0]).to_faiss()
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"nearfar\[faiss\]"):
        metric.to_faiss(rows)
