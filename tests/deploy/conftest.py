"""Metrics to deploy, with rows and queries."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from nearfar import ForestMetric, Metric
from nearfar.metrics.feature_maps import PieceMap

if importlib.util.find_spec("sentence_transformers") is None:
    collect_ignore = ["test_sentence_transformers.py"]

WIDTH = 12


def linear(components, *, unit_rows=False):
    L = np.random.default_rng(components).standard_normal((components, WIDTH))
    return Metric(L, unit_rows=unit_rows)


METRICS = {
    "square": linear(WIDTH),
    "low rank": linear(4),
    "of unit rows": linear(6, unit_rows=True),
}


@pytest.fixture(scope="session")
def bent_metrics():
    """Metrics with trees, pieces, or both beside a linear map."""
    X = 3 + np.random.default_rng(2).standard_normal((150, WIDTH))
    y = (X[:, 0] - 3) * (X[:, 1] - 3) > 0
    pieces = PieceMap.fit(X, 4)
    L = np.random.default_rng(3).standard_normal((5, pieces.n_components))
    forest = ForestMetric(n_trees=20).fit(X, y).metric_
    of_pieces = Metric(L, feature_map=pieces)
    return {
        "forest": forest,
        "forest of unit rows": ForestMetric(n_trees=10, scale="cosine").fit(X, y).metric_,
        "pieces": of_pieces,
        "pieces of unit rows": Metric(L, feature_map=pieces, unit_rows=True),
        "all": Metric.sum([METRICS["low rank"], forest, of_pieces]),
    }


@pytest.fixture(params=["forest", "forest of unit rows", "pieces", "pieces of unit rows", "all"])
def bent(request, bent_metrics):
    return bent_metrics[request.param]


@pytest.fixture(params=METRICS)
def metric(request):
    return METRICS[request.param]


@pytest.fixture(scope="session")
def rows():
    """Rows away from the origin, one of them zero."""
    X = 3 + np.random.default_rng(0).standard_normal((2000, WIDTH))
    X[7] = 0
    return X


@pytest.fixture(scope="session")
def queries():
    return 3 + np.random.default_rng(1).standard_normal((40, WIDTH))
