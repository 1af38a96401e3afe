"""LSML against a plain descent, a generic convex solver, and its own identities."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.exceptions import ConvergenceWarning

from nearfar import LSML, Metric, NearestTriplets, Pairs, RandomTriplets, Triplets
from nearfar.learners.classic.lsml import ResidualLoss
from problems import points_with_a_single
from references import lsml as reference


def random_triplets(seed, n=40, n_features=3, N=20, weighted=False):
    """Random points, and triplets of which most disagree with Euclidean distance."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, n_features))
    index = np.array([rng.choice(N, 3, replace=False) for _ in range(n)])
    first = np.abs(X[index[:, 0]] - X[index[:, 1]])[:, 0]
    second = np.abs(X[index[:, 0]] - X[index[:, 2]])[:, 0]
    index[first > second, 1:] = index[first > second, 2:0:-1]
    return X, Triplets(index, rng.uniform(0.1, 2.0, n) if weighted else None)


def exact(**parameters):
    """Return a learner on points as they are, to the last digits."""
    return LSML(**{"scale": None, "tol": 1e-14} | parameters)


def fitted(learner, X, y):
    """Fit, whether or not rounding errors end it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Rounding errors stopped", ConvergenceWarning)
        return learner.fit(X, y)


def stated(learner, X, triplets):
    """Return the problem as the reference states it."""
    anchor, near, far = (X[rows] for rows in triplets.index.T)
    prior = np.eye(X.shape[1]) if learner.prior == "identity" else learner.prior.matrix
    w = np.ones(len(triplets)) if triplets.weight is None else triplets.weight
    squares = [np.einsum("ki,ij,kj->k", u, prior, u) for u in (anchor - near, anchor - far)]
    unit = np.average(sum(squares), weights=w) / 2
    weight = w / w.sum() / unit * X.shape[1] / learner.prior_weight
    return anchor - near, anchor - far, weight, prior


PROBLEMS = {
    "few": ({"seed": 0, "n": 20, "n_features": 2}, {"prior_weight": 0.01}),
    "many": ({"seed": 1, "n": 40, "n_features": 3}, {"prior_weight": 0.1}),
    "weighted": ({"seed": 2, "n": 30, "weighted": True}, {"prior_weight": 0.03}),
    "prior": ({"seed": 3, "n": 30}, {"prior": Metric(np.triu(np.ones((3, 3))))}),
}


@pytest.fixture(scope="module", params=PROBLEMS)
def posed(request):
    points, parameters = PROBLEMS[request.param]
    X, triplets = random_triplets(**points)
    learner = fitted(exact(**parameters), X, triplets)
    return learner, stated(learner, X, triplets)


def test_a_plain_descent_ends_at_the_same_metric(posed):
    learner, given = posed
    M = reference.descend(*given)
    value = reference.objective(M, *given)
    assert learner.history_.objective[-1] == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(learner.metric_.matrix, M, atol=1e-6 * np.abs(M).max())


def test_an_independent_solver_agrees(posed):
    learner, given = posed
    M, value = reference.optimum(*given)
    assert learner.history_.objective[-1] == pytest.approx(value, rel=1e-5)
    ours = learner.metric_.matrix
    excess = reference.objective(M, *given) - reference.objective(ours, *given)
    ratio = M @ np.linalg.inv(ours)
    # The objective is a convex function plus - log det M, and is least at `ours`.
    assert np.trace(ratio) - np.linalg.slogdet(ratio)[1] - len(M) <= excess + 1e-8


def test_the_objective_is_stationary(posed):
    learner, given = posed
    M = learner.metric_.matrix
    assert learner.history_.objective[-1] == pytest.approx(reference.objective(M, *given))
    L = learner.components_
    local = L @ reference.gradient(M, *given) @ L.T
    np.testing.assert_allclose(local, 0.0, atol=1e-6)


def test_the_gap_is_a_bound(posed):
    learner, _ = posed
    optimum = learner.history_.objective[-1]
    above = learner.history_.objective - optimum
    assert (above <= learner.history_.gap + 1e-9 * optimum).all()


def test_derivatives_of_the_loss(rng):
    near, far = rng.integers(0, 8, 30), rng.integers(8, 16, 30)
    distinct = np.ones(16, dtype=bool)
    loss = ResidualLoss(near, far, rng.random(30), distinct)
    z = rng.uniform(0.2, 4.0, 16)
    numeric = approx_fprime(z, lambda z: loss(z)[0], 1e-7)
    np.testing.assert_allclose(loss(z)[1], numeric, atol=1e-5)


def test_triplets_that_hold_leave_the_prior():
    X, triplets = random_triplets(4)
    anchor, first, second = triplets.index.T
    swap = np.linalg.norm(X[anchor] - X[first], axis=1) > np.linalg.norm(
        X[anchor] - X[second], axis=1
    )
    index = triplets.index.copy()
    index[swap, 1:] = index[swap, 2:0:-1]
    learner = exact().fit(X, Triplets(index))
    np.testing.assert_allclose(learner.metric_.matrix, np.eye(3), atol=1e-12)
    assert learner.gap_ == learner.history_.objective[-1] == 0.0


class TestTriplets:
    @pytest.mark.parametrize("strategy", [RandomTriplets(80), NearestTriplets(2, 2)], ids=str)
    def test_labels_are_triplets_that_the_strategy_makes(self, strategy):
        X, y, _ = points_with_a_single(5)
        learner = LSML(constraints=strategy, random_state=5, scale=None)
        drawn = strategy(X - X.mean(axis=0), y, np.random.RandomState(5))
        from_labels = learner.fit(X, y).metric_.matrix
        np.testing.assert_allclose(learner.fit(X, drawn).metric_.matrix, from_labels, rtol=1e-9)

    def test_by_default_ten_random_triplets_for_each_row(self):
        X, y, _ = points_with_a_single(6)
        default = LSML(scale="standard", random_state=0).fit(X, y).metric_.matrix
        explicit = LSML(scale="standard", constraints=RandomTriplets(2000), random_state=0).fit(
            X, y
        )
        np.testing.assert_array_equal(explicit.metric_.matrix, default)

    def test_pairs_are_the_triplets_they_imply(self):
        X, _ = random_triplets(7)
        pairs = Pairs([[0, 1], [0, 2], [3, 4], [4, 5]], [True, False, True, False])
        found = exact(tol=1e-8).fit(X, pairs).metric_.matrix
        expected = exact(tol=1e-8).fit(X, pairs.triplets()).metric_.matrix
        np.testing.assert_array_equal(found, expected)

    def test_a_weight_of_two_is_a_triplet_listed_twice(self, rng):
        X, triplets = random_triplets(8)
        weight = rng.integers(1, 4, len(triplets))
        rows = np.repeat(np.arange(len(triplets)), weight)
        learner = exact(tol=1e-10)
        twice = learner.fit(X, triplets.take(rows)).metric_.matrix
        weighted = learner.fit(X, Triplets(triplets.index, weight)).metric_.matrix
        np.testing.assert_allclose(weighted, twice, atol=1e-6)

    def test_equal_points_do_no_harm(self):
        X, triplets = random_triplets(9)
        X[triplets.index[:3, 2]] = X[triplets.index[:3, 0]]
        M = exact(tol=1e-6).fit(X, triplets).metric_.matrix
        assert np.isfinite(M).all()
        assert np.linalg.eigvalsh(M).min() > 0


class TestFeatures:
    def test_units_of_the_prior_are_units_of_the_metric(self):
        X, triplets = random_triplets(10)
        first = exact(tol=1e-10).fit(X, triplets).metric_.matrix
        scaled = exact(tol=1e-10, prior=Metric(10 * np.eye(3))).fit(X, triplets).metric_.matrix
        np.testing.assert_allclose(scaled / 100, first, atol=1e-6)

    def test_more_features_than_points_change_only_their_span(self, rng):
        low, triplets = random_triplets(11)
        axes = np.linalg.qr(rng.standard_normal((40, 40)))[0]
        wide = np.column_stack([low, np.zeros((len(low), 37))])
        learner = exact(tol=1e-10)
        expected = learner.fit(low, triplets).metric_.matrix
        M = axes.T @ learner.fit(wide @ axes.T, triplets).metric_.matrix @ axes
        np.testing.assert_allclose(M[:3, :3], expected, atol=1e-6)
        np.testing.assert_allclose(M[3:, 3:], np.eye(37), atol=1e-9)
        np.testing.assert_allclose(M[:3, 3:], 0.0, atol=1e-9)

    def test_collinear_features(self):
        X, triplets = random_triplets(12)
        X = np.column_stack([X, X[:, 0] + X[:, 1], X[:, 0]])
        M = LSML(scale="standard").fit(X, triplets).metric_.matrix
        assert np.isfinite(M).all()
        assert np.linalg.eigvalsh(M).min() > 0

    def test_the_prior_is_needed(self):
        X, triplets = random_triplets(13)
        for parameters in ({"prior": None}, {"prior_weight": 0.0}):
            (name,) = parameters
            with pytest.raises(ValueError, match=f"{name} must be"):
                LSML(**parameters).fit(X, triplets)
