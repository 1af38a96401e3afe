"""Fits that something disturbs: an error, and the learner is as before; or the same metric."""

from __future__ import annotations

import multiprocessing
import os
import tempfile

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from nearfar import NCA, RCA, BoostMetric, MaxMarginMetric, Metric, RandomPairs, RandomTriplets
from nearfar.losses import Exponential
from nearfar.rows import rows as base
from nearfar.runtime.progress import watching

N, D = 1500, 6
LATE = 1450


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Blocks of 83 rows, so that there are 19 of them."""
    monkeypatch.setattr(base, "_PIECE_BYTES", 4000)


def labelled_rows():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, N)
    return rng.standard_normal((4, D))[y] + rng.standard_normal((N, D)), y


def supervised(kind, y):
    strategies = {"triplets": RandomTriplets(3000), "pairs": RandomPairs(2000)}
    return strategies[kind](None, y, np.random.RandomState(0)) if kind in strategies else y


def saved(X, folder):
    np.save(folder / "X.npy", X)
    return folder / "X.npy"


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    ("learner", "kind"),
    [
        (RCA(), "labels"),
        (BoostMetric(max_iter=5), "triplets"),
        (MaxMarginMetric(max_iter=5), "pairs"),
        (NCA(batch_size=100, max_iter=2), "labels"),
    ],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.filterwarnings("ignore:max_iter")
def test_one_bad_number_in_a_late_block(learner, kind, value, tmp_path):
    X, y = labelled_rows()
    known = supervised(kind, y)
    before = learner.fit(saved(X, tmp_path), known).metric_
    X[LATE, 2] = value
    with pytest.raises(ValueError, match=rf"NaN or infinite values, first in row {LATE} \("):
        learner.fit(saved(X, tmp_path), known)
    assert learner.metric_ is before


@pytest.mark.parametrize(
    ("learner", "kind"),
    [(BoostMetric(max_iter=12), "triplets"), (MaxMarginMetric(tol=1e-9), "pairs")],
    ids=["BoostMetric", "MaxMarginMetric"],
)
def test_a_file_that_changes_during_a_fit(learner, kind, tmp_path):
    X, y = labelled_rows()
    path = saved(X, tmp_path)

    def change(iterations, fit):
        for number, iteration in enumerate(iterations):
            if number == 1:
                os.utime(saved(X[::-1], tmp_path), ns=(0, 0))
            yield iteration

    with watching(change), pytest.raises(ValueError, match=r"X\.npy has changed since"):
        learner.fit(path, supervised(kind, y))
    with pytest.raises(NotFittedError):
        learner.transform(X)


def test_a_full_disk_while_edges_are_stored(tmp_path):
    """The limit of the size of a file stands for the disk; the error names the folder."""
    resource = pytest.importorskip("resource")
    X, y = labelled_rows()
    path, triplets = saved(X, tmp_path), supervised("triplets", y)
    learner = BoostMetric(max_iter=2, scale="unit", validation_fraction=None)
    before = learner.fit(X, triplets).metric_
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most))
        with pytest.raises(OSError, match="set TMPDIR to use another folder"):
            learner.fit(path, triplets)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    assert learner.metric_ is before
    assert learner.fit(path, triplets).metric_ is not before


class Failing(Exponential):
    """A loss that raises when it is evaluated for the nth time."""

    def __init__(self, at):
        self.at = self.left = at

    def evaluate(self, margins, weight):
        self.left -= 1
        if self.left < 0:
            raise ArithmeticError("no more")
        return super().evaluate(margins, weight)


@pytest.mark.parametrize("at", [0, 3])
def test_a_loss_that_raises_leaves_the_learner_as_it_was(at):
    X, y = labelled_rows()
    learner = BoostMetric(max_iter=5, scale="unit", validation_fraction=None)
    before = learner.fit(X, supervised("triplets", y)).metric_
    with pytest.raises(ArithmeticError, match="no more"):
        learner.set_params(loss=Failing(at)).fit(X, supervised("triplets", y))
    assert learner.metric_ is before


def test_a_watcher_that_raises_leaves_the_learner_as_it_was():
    X, y = labelled_rows()

    def fail(iterations, fit):
        yield next(iter(iterations))
        raise RuntimeError("the display is gone")

    learner = RCA().fit(X, y)
    before = learner.metric_
    with watching(fail), pytest.raises(RuntimeError, match="the display is gone"):
        learner.fit(X[:500], y[:500])
    assert learner.metric_ is before
    assert learner.fit(X[:500], y[:500]).metric_ is not before


def learned(path, out):
    """Fit in a process of its own; edges are kept in a temporary file."""
    y = labelled_rows()[1]
    BoostMetric(max_iter=5).fit(path, supervised("triplets", y)).metric_.save(out)


@pytest.mark.slow
def test_spawned_processes_share_a_folder_of_temporary_files(tmp_path, monkeypatch):
    path = saved(labelled_rows()[0], tmp_path)
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setenv("TMPDIR", str(shared))
    monkeypatch.setattr(tempfile, "tempdir", None)
    learned(path, tmp_path / "alone")
    spawn = multiprocessing.get_context("spawn")
    outs = [tmp_path / "first", tmp_path / "second"]
    processes = [spawn.Process(target=learned, args=(path, out)) for out in outs]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    expected = Metric.load(tmp_path / "alone").matrix
    for out in outs:
        np.testing.assert_allclose(Metric.load(out).matrix, expected, rtol=1e-9)
    assert not list(shared.iterdir())
