"""Fixtures that many tests share."""

from __future__ import annotations

import os
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:
    # Before NumPy is loaded: BLAS threads of several workers only compete for the cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# The time in files: the same data and seed give the same bytes.
os.environ.setdefault("SOURCE_DATE_EPOCH", "1767225600")

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from problems import half_of, set_bands

# The same examples in every run: a failure is then a change of the code.
settings.register_profile("nearfar", derandomize=True)
settings.load_profile("nearfar")


def pytest_collection_modifyitems(config, items):
    """Leave out slow tests and services, unless they are wanted, and what Windows lacks."""
    absent = [] if os.environ.get("NEARFAR_SLOW") else ["slow"]
    absent += [] if os.environ.get("NEARFAR_SERVICES") else ["services"]
    absent += ["posix"] if os.name == "nt" else []
    left_out = [item for item in items if any(map(item.get_closest_marker, absent))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


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


@pytest.fixture(params=["iris", "wine"])
def labelled_problem(request):
    return half_of(request.param)


@pytest.fixture(params=[1, 7, 256])
def band_rows(request, monkeypatch):
    set_bands(monkeypatch, request.param)
    return request.param


@pytest.fixture
def two_blas_threads():
    with threadpool_limits(2, user_api="blas"):
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def plain_figures(monkeypatch):
    """Leave the pictures of reports empty: to draw them takes most of the time of a report."""
    figure = pytest.importorskip("matplotlib.figure")

    def savefig(self, file, **options):
        file.write('<svg viewBox="0 0 100 100"></svg>')

    monkeypatch.setattr(figure.Figure, "savefig", savefig)
