"""Fits on real worker processes of a Dask cluster."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import nearfar
from nearfar import (
    NCA,
    RCA,
    BoostMetric,
    MaxMarginMetric,
    RandomPairs,
    RandomTriplets,
    open_rows,
)
from nearfar.rows import rows as base
from nearfar.runtime.threads import DaskExecutor, chosen_executor

N, D = 3000, 6

# Dask's own shutdown leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.slow,  # starts processes that import everything
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(base, "_PIECE_BYTES", 8000)


@contextmanager
def cluster(n_workers):
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as local,
        Client(local, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def two_workers():
    with cluster(2) as client:
        yield client


@pytest.fixture
def problem(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, N)
    X = rng.standard_normal((4, D))[y] + np.linspace(0.3, 3.0, D) * rng.standard_normal((N, D))
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    return tmp_path / "X.npy", y


def learn(path, y):
    """Return metrics that were learned from rows on disk."""
    triplets = RandomTriplets(4000)(None, y, np.random.RandomState(0))
    pairs = RandomPairs(2000)(None, y, np.random.RandomState(0))
    return [
        BoostMetric(max_iter=5).fit(path, triplets).metric_.matrix,
        MaxMarginMetric(max_iter=5).fit(path, pairs).metric_.matrix,
        RCA().fit(path, y).metric_.matrix,
    ]


def test_any_number_of_workers_learns_what_threads_do(problem, two_workers):
    expected = learn(*problem)
    with nearfar.executor(two_workers):
        two = learn(*problem)
    with cluster(1) as client, nearfar.executor(client):
        one = learn(*problem)
    for M, A, B in zip(expected, one, two, strict=True):
        np.testing.assert_array_equal(A, B)
        np.testing.assert_allclose(A, M, rtol=1e-9, atol=1e-12)


@pytest.mark.posix
@pytest.mark.parametrize("deaths", [(12,), (12, 16)], ids=["once", "twice"])
def test_a_worker_that_dies_costs_time_and_not_the_fit(problem, deaths):
    path, y = problem
    triplets = RandomTriplets(4000)(None, y, np.random.RandomState(0))
    learner = BoostMetric(max_iter=5)
    expected = learner.fit(path, triplets).metric_.matrix

    class KillingExecutor(DaskExecutor):
        calls = 0

        def map(self, function, tasks, *, memory=0):
            found = super().map(function, tasks, memory=memory)
            self.calls += 1
            if self.calls in deaths:
                yield next(found)
                os.kill(victims[deaths.index(self.calls)], signal.SIGKILL)
            yield from found

    with cluster(2) as client:
        victims = sorted(client.run(os.getpid).values())[: len(deaths)]
        with nearfar.executor(KillingExecutor(client)) as killing:
            found = learner.fit(path, triplets).metric_.matrix
        assert killing.calls > deaths[-1]
        client.wait_for_workers(2)
        assert not set(victims) & set(client.run(os.getpid).values())
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_work_runs_on_the_workers(problem, two_workers):
    rows = open_rows(problem[0])
    with nearfar.executor(two_workers):
        processes = rows.reduce(_process, combine=_union)
    assert processes == set(two_workers.run(os.getpid).values())
    assert rows.reduce(_process, combine=_union) == {os.getpid()}


def _process(block):
    return {os.getpid()}


def _union(left, right):
    return left | right


def test_a_dask_array_runs_on_its_client(problem, two_workers):
    path, y = problem
    expected = RCA().fit(np.load(path), y).metric_.matrix
    X = da.from_array(np.load(path, mmap_mode="r"), chunks=(700, 4))
    assert type(open_rows(X).executor) is not DaskExecutor
    with two_workers.as_current():
        rows = open_rows(X)
        assert rows.executor is rows.executor
        assert rows.executor.client is two_workers
        found = RCA().fit(X, y).metric_.matrix
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_persisted_arrays_are_refused(two_workers):
    with two_workers.as_current():
        X = da.ones((100, 2), chunks=50).persist()
        with pytest.raises(ValueError, match=r"before persist\(\)"):
            open_rows(X)


def test_arrays_in_memory_are_not_sent(problem, two_workers):
    path, y = problem
    with nearfar.executor(two_workers), pytest.raises(ValueError, match=r"np\.save"):
        RCA().fit(np.load(path), y)
    assert chosen_executor() is None


def test_errors_of_workers_are_raised(problem, two_workers):
    path, _ = problem
    rows = open_rows(path)
    path.unlink()
    with nearfar.executor(two_workers), pytest.raises(FileNotFoundError):
        rows.project(np.ones(D))


def test_batches_are_learned_from_in_this_process(problem, two_workers):
    path, y = problem
    learner = NCA(batch_size=500, max_iter=1, random_state=0, validation_fraction=None)
    expected = learner.fit(path, y).metric_.matrix
    with nearfar.executor(two_workers):
        found = learner.fit(path, y).metric_.matrix
    np.testing.assert_allclose(found, expected, rtol=1e-6)
