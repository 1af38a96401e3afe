"""Metrics to deploy, with rows and queries."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from nearfar import Metric

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
