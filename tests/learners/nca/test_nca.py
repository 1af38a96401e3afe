"""NCA and its family against loops, finite differences, scikit-learn and constructed problems."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors, NeighborhoodComponentsAnalysis

from nearfar import NCA, Metric, MixtureNCA, SparseNCA
from nearfar.learners.nca.soft_neighbors import SoftNeighbors
from nearfar.numerics.linear_algebra import axes_of_span
from problems import log_probabilities


@pytest.mark.parametrize("loader", [load_iris, load_wine])
def test_as_good_as_scikit_learn_from_the_same_start(loader):
    X, y = loader(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    start = np.eye(X.shape[1]) / X.shape[1] ** 0.25
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs = NeighborhoodComponentsAnalysis(init=start, max_iter=200, tol=1e-6).fit(X, y)
        ours = NCA(init=Metric(start), scale=None, tol=1e-6).fit(X, y)
    reached = np.exp(log_probabilities(SoftNeighbors(X, y), theirs.components_)).mean()
    assert -ours.history_.objective[-1] >= 0.99 * reached


def test_objectives_fall():
    X, y = load_wine(return_X_y=True)
    for learner in (
        NCA(scale="standard"),
        NCA(scale="standard", objective="likelihood"),
        SparseNCA(scale="standard"),
        MixtureNCA(scale="standard", n_metrics=3, random_state=0),
    ):
        objective = learner.fit(X, y).history_.objective
        assert len(objective) > 4
        assert (np.diff(objective) <= 1e-12).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_raw_features_and_types(dtype):
    X, y = load_wine(return_X_y=True)
    X = X.astype(dtype)
    for learner in (
        NCA(scale="unit"),
        SparseNCA(scale="standard"),
        MixtureNCA(scale="standard", n_metrics=2, random_state=0),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            learner.fit(X, y)
        assert learner.transform(X).dtype == dtype
        assert np.isfinite(learner.transform(X)).all()
        assert learner.history_.objective[-1] < learner.history_.objective[0]


class TestSparse:
    def test_the_penalty_lowers_the_rank(self):
        X, y = load_wine(return_X_y=True)
        ranks = [
            SparseNCA(scale="standard", sparsity=s, tol=1e-8).fit(X, y).metric_.n_components
            for s in (0.0, 1e-4, 1e-2, 0.1)
        ]
        assert ranks[0] == 13
        assert ranks == sorted(ranks, reverse=True)
        assert ranks[-1] == 2

    def test_a_penalty_that_is_too_large_leaves_nothing(self):
        X, y = load_wine(return_X_y=True)
        with pytest.warns(ConvergenceWarning, match="Nothing was learned"):
            learner = SparseNCA(scale="standard", sparsity=100.0).fit(X, y)
        assert learner.metric_.n_components == 1
        assert not learner.components_.any()

    def test_a_metric_to_begin_with_is_the_start(self):
        X, y = load_wine(return_X_y=True)
        init = Metric(np.diag(1 / X.std(axis=0)))
        for scale in ("standard", "unit", None):
            learner = SparseNCA(init=init, scale=scale, sparsity=0.0, max_iter=1, tol=0.0)
            with pytest.warns(ConvergenceWarning):
                learner.fit(X, y)
            p = log_probabilities(SoftNeighbors(X, y), init.L).mean()
            assert learner.history_.objective[0] < -p

    def test_stationary_in_m(self):
        X, y = load_wine(return_X_y=True)
        Z = (X - X.mean(axis=0)) / X.std(axis=0)
        learner = SparseNCA(sparsity=0.01, scale=None, tol=1e-12).fit(Z, y)
        points = SoftNeighbors(Z, y)
        L = learner.components_
        square = np.vstack([L, np.zeros((13 - len(L), 13))])
        found = points.evaluate([square], lambda _, log_p: (log_p.sum(), np.ones(log_p.shape)))
        G = found.by_matrix[0] / len(Z)
        excess = 0.01 * np.eye(13) - G
        assert np.linalg.eigvalsh(excess).min() > -1e-4
        np.testing.assert_allclose(excess @ L.T, 0.0, atol=1e-4)

    def test_no_penalty_is_the_likelihood(self):
        X, y = load_iris(return_X_y=True)
        free = SparseNCA(scale="standard", sparsity=0.0, tol=1e-6).fit(X, y)
        plain = NCA(scale="standard", objective="likelihood", tol=1e-6).fit(X, y)
        assert free.history_.objective[-1] == pytest.approx(plain.history_.objective[-1], rel=1e-6)


class TestBatches:
    def test_progress_is_made(self):
        X, y = load_wine(return_X_y=True)
        learner = NCA(scale="standard", batch_size=60, max_iter=20, random_state=0).fit(X, y)
        whole = SoftNeighbors((X - X.mean(axis=0)) / X.std(axis=0), y)
        start = np.exp(log_probabilities(whole, np.eye(13) / 13**0.25)).mean()
        scaled = learner.components_ * X.std(axis=0)
        assert np.exp(log_probabilities(whole, scaled)).mean() > start + 0.02

    def test_batches_that_are_too_small(self):
        X = np.arange(24.0).reshape(12, 2)
        with pytest.raises(ValueError, match="batch_size"):
            NCA(scale="standard", batch_size=2, random_state=0).fit(X, np.arange(12) // 2)


def overlapping(n, apart):
    """Classes that differ in three of eight features."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, n)
    X = rng.standard_normal((n, 8))
    X[:, :3] += apart * rng.standard_normal((5, 3))[y]
    return X, y


def neighbours(Z):
    return NearestNeighbors(n_neighbors=6).fit(Z).kneighbors(Z, return_distance=False)[:, 1:]


@pytest.mark.parametrize("objective", ["expected", "likelihood"])
def test_single_precision_is_enough(objective):
    X, y = overlapping(1500, 3.0)
    single = NCA(scale="standard", objective=objective).fit(X, y)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    log_p = log_probabilities(SoftNeighbors(Z, y), single.components_ * X.std(axis=0))
    double = np.exp(log_p).mean() if objective == "expected" else log_p.mean()
    assert -single.history_.objective[-1] == pytest.approx(double, rel=1e-5)


@pytest.mark.parametrize(
    "learner",
    [NCA(scale="standard"), SparseNCA(scale="standard"), MixtureNCA(scale="standard", n_metrics=2)],
)
def test_one_class_is_refused(learner):
    X = load_iris().data
    with pytest.raises(ValueError, match="two classes"):
        learner.fit(X, np.zeros(150))


class TestFewPointsOfManyFeatures:
    @pytest.fixture
    def wide(self, rng):
        X, y = rng.standard_normal((30, 60)), np.arange(30) % 3
        X[:, 0] += y
        X[:, 5] = 2.0
        return X, y

    def test_a_penalty_leaves_nothing_beyond_the_span(self, wide):
        X, y = wide
        learner = SparseNCA(scale="unit", random_state=0).fit(X, y)
        span = axes_of_span(X)
        np.testing.assert_allclose(
            learner.components_ @ span @ span.T, learner.components_, atol=1e-9
        )


@pytest.mark.parametrize("sparsity", [1e-3, 1e-2, 0.1])
def test_a_loose_tolerance_finds_the_same_low_rank(sparsity):
    X, y = load_wine(return_X_y=True)
    exact = SparseNCA(scale="standard", sparsity=sparsity, tol=1e-8).fit(X, y)
    loose = SparseNCA(scale="standard", sparsity=sparsity).fit(X, y)
    assert loose.n_iter_ < exact.n_iter_ / 1.5
    assert abs(loose.metric_.n_components - exact.metric_.n_components) <= 1
    assert loose.history_.objective[-1] <= loose.history_.objective[-2]
    assert loose.history_.objective[-1] == pytest.approx(exact.history_.objective[-1], rel=0.03)
