"""Interrupted commands continue where they stopped."""

from __future__ import annotations

import json
import warnings
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from cli.conftest import LABELS
from nearfar import LMNN, NCA, BoostMetric, Metric
from nearfar.learners.base import known_learners
from nearfar.runtime.progress import watching
from nearfar.tables import checkpoint
from nearfar.tables.checkpoint import FitCheckpoint, can_continue

COMPARE = ["compare", "iris.csv", *LABELS, "--folds", 2, "--checkpoint", "kept", "--neighbors", 3]
COMPARE += ["--method", "boost", "--method", "nca"]


@pytest.fixture(autouse=True)
def every_iteration_is_kept(monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_WRITES", 0.0)


class Interruption:
    """Counts iterations of fits but those of plain methods, and interrupts one of them."""

    def __init__(self, fit=None, iteration=0):
        self.fit, self.iteration = fit, iteration
        self.fits = []

    def __call__(self, iterations, fit):
        if fit.name in ("InverseCovariance", "LDA"):
            yield from iterations
            return
        self.fits.append(0)
        source = iter(iterations)
        while True:
            if len(self.fits) == self.fit and self.fits[-1] == self.iteration:
                raise KeyboardInterrupt
            iteration = next(source, None)
            if iteration is None:
                return
            self.fits[-1] += 1
            yield iteration


def interrupted(run, command, fit, iteration):
    seen = Interruption(fit, iteration)
    with watching(seen):
        return run(*command, code=130)


def test_an_interrupted_fit_continues(iris, tmp_path):
    path = tmp_path / "kept"
    stopped = pytest.raises(KeyboardInterrupt, match="The work so far is in ")
    with stopped, FitCheckpoint(path) as kept, watching(Interruption(1, 3)):
        kept.fit(NCA(random_state=0), *iris, lambda metric: metric.named(list("abcd")))
    with pytest.warns(ConvergenceWarning):
        expected = NCA(max_iter=3, random_state=0, validation_fraction=None).fit(*iris).metric_
    stored = Metric.load(path)
    np.testing.assert_allclose(stored.matrix, expected.matrix, rtol=1e-10)
    assert stored.feature_names == tuple("abcd")
    learner = NCA(random_state=0)
    with FitCheckpoint(path) as kept:
        total = kept.fit(learner, *iris)
    assert not path.exists()
    never_stopped = NCA(random_state=0).fit(*iris)
    assert total == never_stopped.n_iter_
    assert likeness(learner.metric_, never_stopped.metric_, iris[0]) > 0.999


def test_the_metric_is_saved_now_and_then(monkeypatch, iris, tmp_path):
    seen, ticks, save = [], iter(range(0, 1000, 2)), Metric.save
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_WRITES", 5.0)
    monkeypatch.setattr(checkpoint, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    monkeypatch.setattr(Metric, "save", lambda self, *a, **k: (seen.append(k), save(self, *a, **k)))
    learner = NCA(max_iter=9, validation_fraction=None, tol=0, random_state=0)
    with FitCheckpoint(tmp_path / "kept") as kept, pytest.warns(ConvergenceWarning):
        kept.fit(learner, *iris)
    assert [json.loads(k["metadata"]["checkpoint"])["iterations"] for k in seen] == [1, 4, 7]


def test_another_fit_is_refused(iris, tmp_path):
    path, (X, y) = tmp_path / "kept", iris
    with (
        pytest.raises(KeyboardInterrupt),
        FitCheckpoint(path) as kept,
        watching(Interruption(1, 2)),
    ):
        kept.fit(NCA(random_state=0), X, y)
    before = path.read_bytes()
    others = [
        (BoostMetric(), X, y),
        (NCA(tol=0.5, random_state=0), X, y),
        (NCA(random_state=0), X[:, 1:], y),
    ]
    for other in others:
        with pytest.raises(ValueError, match="checkpoint of another fit"):
            FitCheckpoint(path).fit(*other)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"text", None])
def test_what_is_not_a_checkpoint_is_refused(iris, tmp_path, content):
    path = tmp_path / "kept"
    if content is None:
        Metric.identity(4).save(path)
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="kept is not a checkpoint"):
        FitCheckpoint(path).fit(NCA(), *iris)
    assert path.read_bytes() == before


def test_an_interrupted_comparison_continues(run, document, folder):
    result = interrupted(run, COMPARE, 4, 1)
    assert "in kept; run the same command again to continue." in result.stderr
    assert (folder / "kept").exists()
    seen = Interruption()
    with watching(seen):
        found = document(*COMPARE)
    assert len(seen.fits) == 1
    assert not (folder / "kept").exists()
    expected = document(*COMPARE)
    for one, other in zip(found["methods"], expected["methods"], strict=True):
        assert one | {"fit_seconds": 0} == other | {"fit_seconds": 0}


AT_ONCE = {"DRMetric", "FrobMetric", "MLKR", "MMC", "MetricBoost"}
"""Learners that are where they end after one iteration, or that take another way."""


def difference(one, other, X):
    """Largest difference of distances between rows, in units of their mean."""
    one, other = (metric.distances(X) for metric in (one, other))
    return np.abs(one / one.mean() - other / other.mean()).max()


def likeness(one, other, X):
    """Correlation of the distances between rows."""
    return np.corrcoef(one.distances(X).ravel(), other.distances(X).ravel())[0, 1]


def continued(learner, X, y, path, iterations):
    """Interrupt a fit, and continue; return the learner, and the number of iterations."""
    seen = Interruption(1, iterations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.raises(KeyboardInterrupt), FitCheckpoint(path) as kept, watching(seen):
            kept.fit(clone(learner), X, y)
        with FitCheckpoint(path) as kept:
            total = kept.fit(learner := clone(learner), X, y)
    return learner, total


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [n for n, c in known_learners().items() if can_continue(c())])
def test_every_learner_starts_from_its_checkpoint(name, iris, tmp_path):
    X, y = iris
    if name == "MLKR":
        y = X[:, 0] + 0.5 * y
    learner = known_learners()[name](max_iter=6)
    fixed = {"random_state": 0, "validation_fraction": None}
    learner.set_params(**{key: fixed[key] for key in fixed.keys() & learner.get_params()})
    expected = clone(learner).fit(X, y)
    done = min(5, expected.n_iter_ - 1)
    found, total = continued(learner, X, y, tmp_path / "kept", done)
    assert total == done + found.n_iter_
    if name != "MixtureNCA":  # of several starts, only the current one continues
        assert total <= 6
    if name not in AT_ONCE:
        alone = clone(learner).set_params(max_iter=1).fit(X, y)
        near, far = (difference(each.metric_, expected.metric_, X) for each in (found, alone))
        assert near < far / 2


def test_a_fit_that_continues_is_validated(iris, tmp_path):
    expected = LMNN().fit(*iris)
    assert 0 < expected.prior_share_ < 1
    found, total = continued(LMNN(), *iris, tmp_path / "kept", 2)
    assert found.prior_share_ == expected.prior_share_
    assert total == expected.n_iter_
    assert found.history_.stopped == expected.history_.stopped == "validation"
    assert likeness(found.metric_, expected.metric_, iris[0]) > 0.999


@pytest.mark.parametrize("kind", ["npy", "parquet", "dask"])
def test_rows_that_are_not_in_memory_continue(kind, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(600) % 3
    X = rng.standard_normal((600, 5)) + y[:, None]
    source = tmp_path / f"X.{kind}"
    if kind == "npy":
        np.save(source, X)
    elif kind == "parquet":
        pl.DataFrame(X).write_parquet(source)
    else:
        source = pytest.importorskip("dask.array").from_array(X, chunks=(200, 5))
    learner = BoostMetric(max_iter=12, random_state=0)
    expected = clone(learner).fit(source, y)
    found, total = continued(learner, source, y, tmp_path / "kept", 2)
    assert total == 2 + found.n_iter_ <= 12
    assert likeness(found.metric_, expected.metric_, X) > 0.99
    kept = FitCheckpoint(tmp_path / "kept")
    with pytest.raises(KeyboardInterrupt), kept, watching(Interruption(1, 2)):
        kept.fit(clone(learner), source, y)
    other = tmp_path / "other.npy"
    np.save(other, X + 1)
    with pytest.raises(ValueError, match="checkpoint of another fit"):
        kept.fit(clone(learner), other, y)
