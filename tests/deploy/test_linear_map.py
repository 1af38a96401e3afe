"""Linear maps that are read from functions and adapters."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar import Metric, Relevance, RetrievalAdapter
from nearfar.deploy.linear_map import LinearMap, linear_maps

WIDTH = 6


def test_maps_of_functions():
    metric = Metric(np.random.default_rng(0).standard_normal((3, WIDTH)), unit_rows=True)
    found = LinearMap.of_function(metric.transform, WIDTH)
    assert found.unit_rows
    np.testing.assert_allclose(found.L, metric.L)
    with pytest.raises(ValueError, match="not a linear map"):
        LinearMap.of_function(np.tanh, WIDTH)
    with pytest.raises(TypeError, match="a metric or an adapter; got str"):
        linear_maps("metric")


@pytest.mark.parametrize("score", ["dot", "cosine"])
def test_a_learned_adapter(score):
    rng = np.random.default_rng(0)
    topics = rng.standard_normal((20, WIDTH))
    X = np.repeat(topics, 5, axis=0) + rng.standard_normal((100, WIDTH))
    Q = np.repeat(topics, 2, axis=0) + 2 * rng.standard_normal((40, WIDTH)) * [0, 0, 0, 1, 1, 1]
    query, document = np.nonzero(np.arange(40)[:, None] // 2 == np.arange(100) // 5)
    adapter = RetrievalAdapter(score=score, random_state=0).fit(Q, X, Relevance(query, document))
    queries, documents = linear_maps(adapter)
    assert queries.unit_rows == documents.unit_rows == (score == "cosine")
    rows = Q / np.linalg.norm(Q, axis=1, keepdims=True) if score == "cosine" else Q
    np.testing.assert_allclose(rows @ queries.L.T + queries.b, adapter.transform_queries(Q))
