"""An interrupted comparison goes on; a file that is not its checkpoint is refused."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors import safe_open
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris, make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from comparison.helpers import FakeClock, Fixed, Gradual, Timed
from nearfar import Metric, compare
from nearfar.comparison import runner
from nearfar.comparison.comparison_checkpoint import ComparisonCheckpoint

X, Y = load_iris(return_X_y=True)
N_FITS = 3 * 11


class Interruption:
    """A progress callback that interrupts a comparison before a certain fit, and counts fits."""

    def __init__(self, at=None):
        self.at = at
        self.fits = []

    def __call__(self, done, total, name):
        if len(self.fits) == self.at:
            raise KeyboardInterrupt
        self.fits.append(name)


def run(path, *, at=None, clock=None, seconds=(1.0, 2.0), data=X, **options):
    """Compare two learners whose fits take so many seconds; return the result and the fits."""
    clock = FakeClock() if clock is None else clock
    learners = {f"timed {i}": Timed(clock, s) for i, s in enumerate(seconds)}
    progress = Interruption(at)
    options = {"cv": 3, "clock": clock} | options
    try:
        found = compare(data, Y, learners, checkpoint=path, progress=progress, **options)
    except KeyboardInterrupt:
        found = None
    return found, progress.fits


@pytest.fixture
def path(tmp_path):
    return tmp_path / "comparison.safetensors"


def n_kept(path):
    with safe_open(path, framework="numpy") as file:
        return len(list(file.keys())) // 3


@pytest.mark.slow
@pytest.mark.parametrize("budget", [None, 20.0, 6.0])
@pytest.mark.parametrize("at", [0, 5, 17])
def test_an_interrupted_comparison_goes_on(path, at, budget):
    whole, fits = run(None, budget=budget)
    assert run(path, at=at, budget=budget) == (None, fits[:at])
    found, rest = run(path, budget=budget)
    assert rest == fits[at:]
    assert str(found) == str(whole)
    for name, result in whole.items():
        np.testing.assert_array_equal(found[name].seconds, result.seconds)
        for measure, losses in result.losses.items():
            np.testing.assert_array_equal(found[name].losses[measure], losses)


@pytest.mark.slow
@pytest.mark.parametrize(
    "at", [3, pytest.param(8, marks=pytest.mark.slow), pytest.param(12, marks=pytest.mark.slow), 20]
)
def test_an_interrupted_comparison_of_samples_goes_on(path, at):
    """One learner is stopped early, another does not finish: see the stages in `Splits`."""
    points, labels = make_blobs(1500, 4, centers=5, cluster_std=4.0, random_state=0)

    def run_once(path, at=None):
        clock, progress = FakeClock(), Interruption(at)
        learners = {f"{s} s": Gradual(clock, s) for s in (1.0, 3.0, 30.0)}
        options = {"budget": 60, "clock": clock, "checkpoint": path, "progress": progress}
        try:
            return compare(points, labels, learners, **options), progress.fits
        except KeyboardInterrupt:
            return None, progress.fits

    whole, fits = run_once(None)
    assert set(whole.partly_tried) == {"3.0 s", "30.0 s"}
    assert run_once(path, at) == (None, fits[:at])
    found, rest = run_once(path)
    assert rest == fits[at:]
    assert str(found) == str(whole)
    for name, result in whole.items():
        assert found[name].cells == result.cells
        np.testing.assert_array_equal(found[name].wrong, result.wrong)


def test_fits_that_were_stopped_early_are_repeated_if_there_is_time(path):
    clock = FakeClock()
    learners = {"slow": Gradual(clock, 20.0)}
    options = {"cv": 3, "clock": clock, "checkpoint": path}
    assert compare(X, Y, learners, budget=5, **options)["slow"].stopped_early
    found = compare(X, Y, learners, **options)
    assert found["slow"].complete
    np.testing.assert_allclose(found["slow"].seconds, 20.0 * 100 / 300)


def test_interrupted_more_than_once(path):
    whole, fits = run(None)
    seen = []
    for at in (4, 7, 9, None):
        found, some = run(path, at=at)
        seen += some
    assert seen == fits
    assert len(fits) == N_FITS
    assert str(found) == str(whole)


def test_a_finished_comparison_is_kept(path):
    whole, _ = run(path)
    assert n_kept(path) == N_FITS
    found, fits = run(path)
    assert fits == []
    assert str(found) == str(whole)


def test_writes_are_rare(path, monkeypatch):
    written = []
    monkeypatch.setattr(
        ComparisonCheckpoint,
        "_write",
        lambda self, write=ComparisonCheckpoint._write: (written.append(1), write(self)),
    )
    run(path, seconds=(0.0, 0.0))
    # Once to find out whether the file can be written, and once at the end.
    assert len(written) == 2
    assert n_kept(path) == N_FITS
    path.unlink()
    written.clear()
    run(path, seconds=(5.0, 5.0))
    # After each fit of a learner, and at the end for the classifiers, which come last.
    assert len(written) == 1 + 6 + 1


def test_writes_that_take_long_are_rarer(path, monkeypatch):
    clock = FakeClock()
    written = []

    def write(self, write=ComparisonCheckpoint._write):
        begin, self.clock = self.clock, iter([clock.now, clock.now + 1.0]).__next__
        write(self)
        self.clock = begin
        written.append(1)

    monkeypatch.setattr(ComparisonCheckpoint, "_write", write)
    run(path, seconds=(5.0, 5.0), clock=clock)
    # A write of a second is followed by a pause of 20 seconds, four fits.
    assert len(written) == 1 + 1 + 1


class Lambda(BaseEstimator):
    def __init__(self, function=None):
        self.function = function

    def fit(self, X, y):
        self.metric_ = Metric.identity(X.shape[1])
        return self


def kept_results(path, learner):
    """Names of the methods that are run again with another learner."""
    progress = Interruption()
    compare(X, Y, {"it": learner}, cv=3, checkpoint=path, progress=progress)
    return {label.partition(", fold")[0] for label in progress.fits}


def test_results_are_kept_for_the_same_parameters_only(path):
    metric = Metric(np.eye(4)[:2])
    assert len(kept_results(path, Fixed(metric))) == 10
    assert kept_results(path, Fixed(Metric(np.eye(4)[:2]))) == set()
    assert kept_results(path, Fixed(Metric(np.eye(4)[1:3]))) == {"it"}
    pipeline = make_pipeline(FunctionTransformer(), Fixed(metric))
    assert kept_results(path, pipeline) == {"it"}
    # A function that can't be pickled is no obstacle.
    assert kept_results(path, Lambda(lambda: None)) == {"it"}


OTHER = {
    "data": {"data": X + 1},
    "folds": {"cv": 4},
    "neighbours": {"n_neighbors": 5},
    "seed": {"random_state": 1},
    "version": {},
}


@pytest.mark.parametrize("case", OTHER)
def test_a_checkpoint_of_another_comparison_is_refused(path, case, monkeypatch):
    run(path, at=3)
    before = path.read_bytes()
    if case == "version":
        monkeypatch.setattr(runner, "version", lambda name: "0.0.0")
    with pytest.raises(ValueError, match="checkpoint of another comparison"):
        run(path, **OTHER[case])
    assert path.read_bytes() == before


def damaged(path):
    """Contents of files that are no checkpoints."""
    run(path)
    whole = path.read_bytes()
    Metric.identity(4).save(path)
    yield path.read_bytes()
    yield whole[:-8]
    yield whole[:40]
    yield whole.replace(b'"version":"2"', b'"version":"9"')
    yield whole.replace(b"0.error", b"0.right")
    yield b"text"
    yield b""


def test_a_file_that_is_not_a_checkpoint_is_refused(path):
    for content in list(damaged(path)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not the checkpoint of a comparison"):
            run(path)
        assert path.read_bytes() == content


def test_bad_paths(tmp_path, path):
    with pytest.raises(ValueError, match="is not the checkpoint"):
        run(tmp_path)
    progress = Interruption()
    with pytest.raises(FileNotFoundError, match="no folder"):
        compare(X, Y, [], checkpoint=tmp_path / "none" / "file", progress=progress)
    assert progress.fits == []
    with pytest.raises(ValueError, match="integer random_state"):
        run(path, random_state=None)
    assert not path.exists()
