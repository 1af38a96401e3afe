"""Small problems that many tests share."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from nearfar import NearestTriplets


def pytest_sessionfinish(session, exitstatus):
    """Where everything needed is there, a skipped test is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("NEARFAR_NO_SKIPS") and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def data_folder() -> Path:
    folder = os.environ.get("NEARFAR_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("NEARFAR_DATA does not name the folder of the papers' data")
    return Path(folder)


def problem(name: str):
    """Scaled points, labels and nearest triplets of half of a small set."""
    X, y = {"iris": load_iris, "wine": load_wine}[name](return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[::2], y[::2]
    return X, y, NearestTriplets(2, 2)(X, y)


@pytest.fixture(params=["iris", "wine"])
def labelled_problem(request):
    return problem(request.param)


@pytest.fixture
def rng():
    return np.random.default_rng(0)
