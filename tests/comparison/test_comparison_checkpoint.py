"""An interrupted comparison goes on; a file that is not its checkpoint is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import safe_open
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris, make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from comparison.helpers import FakeClock, Fixed, Timed
from nearfar import Metric, compare
from nearfar.comparison import checkpoint as comparison_checkpoint
from nearfar.comparison import runner
from nearfar.comparison.checkpoint import ComparisonCheckpoint

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
    options = {"cv": 3, "clock": clock, "n_neighbors": 3} | options
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


@pytest.mark.parametrize("at", [0, 5, 17])
def test_an_interrupted_comparison_goes_on(path, at):
    whole, fits = run(None)
    assert run(path, at=at) == (None, fits[:at])
    found, rest = run(path)
    assert rest == fits[at:]
    assert found.to_dict()["methods"][0]["error"] == whole.to_dict()["methods"][0]["error"]
    for name, result in whole.items():
        for measure, losses in result.losses.items():
            np.testing.assert_array_equal(found[name].losses[measure], losses)


def test_an_interrupted_comparison_goes_on_with_the_same_sample(path):
    points, labels = make_blobs(900, 4, centers=5, cluster_std=4.0, random_state=0)

    def run_once(at=None):
        clock, progress = FakeClock(), Interruption(at)
        options = {"budget": 60, "clock": clock, "checkpoint": path, "progress": progress}
        try:
            return compare(points, labels, {"slow": Timed(clock, 1.5)}, **options)
        except KeyboardInterrupt:
            return None

    # The first fits are those of a few rows, which tell how many there is time for.
    assert run_once(at=15) is None
    with safe_open(path, framework="numpy") as file:
        n_rows = json.loads(file.metadata()["results"])[0]
    assert len(run_once().sample) == n_rows < 900


def test_interrupted_more_than_once(path):
    whole, fits = run(None)
    seen = []
    for at in (4, 7, 9, None):
        found, some = run(path, at=at)
        seen += some
    assert seen == fits
    assert len(fits) == N_FITS
    assert found.verdicts == whole.verdicts


def test_a_finished_comparison_is_kept(path):
    whole, _ = run(path)
    assert n_kept(path) == N_FITS
    found, fits = run(path)
    assert fits == []
    assert str(found) == str(whole)


def test_writes_are_rare(path, monkeypatch):
    written = []
    monkeypatch.setattr(comparison_checkpoint, "_SECONDS_BETWEEN_WRITES", 1e9)
    monkeypatch.setattr(
        ComparisonCheckpoint,
        "_write",
        lambda self, write=ComparisonCheckpoint._write: (written.append(1), write(self)),
    )
    run(path)
    # Once to find out whether the file can be written, and once at the end.
    assert len(written) == 2
    assert n_kept(path) == N_FITS


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
    yield whole.replace(b'"version":"3"', b'"version":"9"')
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
