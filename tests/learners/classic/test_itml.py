"""ITML against cyclic projections, a generic convex solver, and the conditions of its optimum."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from nearfar import ITML, Metric, Pairs, RandomPairs
from nearfar.learners.classic.itml import BoundLoss
from problems import random_pairs
from references import itml as reference


def exact(**parameters):
    """Return a learner on points as they are, to the last digits."""
    return ITML(**{"gamma": 5.0, "scale": None, "tol": 1e-14} | parameters)


def gammas(learner, X, pairs):
    """Return the paper's gamma for each pair."""
    weight = np.ones(len(pairs)) if pairs.weight is None else pairs.weight
    return learner.gamma * X.shape[1] * weight / weight.sum()


def differences(X, pairs):
    return X[pairs.index[:, 0]] - X[pairs.index[:, 1]]


PROBLEMS = {
    "few": ({"seed": 0, "n": 12, "n_features": 2}, {"gamma": 5.0, "bounds": (1.0, 2.0)}),
    "many": ({"seed": 1, "n": 60, "n_features": 3}, {"gamma": 2.0, "bounds": (0.8, 3.0)}),
    "hard": ({"seed": 2, "n": 40, "n_features": 4}, {"gamma": 30.0, "bounds": (0.5, 2.5)}),
    "weighted": (
        {"seed": 3, "n": 40, "n_features": 3, "weighted": True},
        {"gamma": 10.0, "bounds": (1.0, 1.0)},
    ),
    "prior": (
        {"seed": 4, "n": 30, "n_features": 3},
        {"gamma": 5.0, "bounds": (1.0, 3.0), "prior": Metric(np.triu(np.ones((3, 3))))},
    ),
}


@pytest.fixture(scope="module", params=PROBLEMS)
def posed(request):
    points, parameters = PROBLEMS[request.param]
    X, pairs = random_pairs(**points)
    learner = exact(**parameters)
    prior = np.eye(X.shape[1]) if learner.prior == "identity" else learner.prior.matrix
    squares = tuple(np.square(learner.bounds))
    given = differences(X, pairs), pairs.similar, squares, gammas(learner, X, pairs), prior
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Rounding errors stopped", ConvergenceWarning)
        learner.fit(X, pairs)
    return learner, given


def test_cyclic_projections_end_at_the_same_metric(posed):
    learner, given = posed
    expected, _ = reference.cyclic_projections(*given)
    found = learner.metric_.matrix
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())


def test_the_problem_with_slack_variables_has_the_same_optimum(posed):
    learner, given = posed
    M, value = reference.slack_optimum(*given)
    assert learner.history_.objective[-1] == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(learner.metric_.matrix, M, atol=1e-3 * np.abs(M).max())


def test_optimality_conditions(posed):
    learner, (u, similar, (near, far), gamma, prior) = posed
    M = learner.metric_.matrix
    np.testing.assert_array_equal(M, M.T)
    assert np.linalg.eigvalsh(M).min() > 0
    z = np.einsum("ki,ij,kj->k", u, M, u)
    multipliers = np.where(similar, gamma * (1 / near - 1 / z), gamma * (1 / far - 1 / z))
    violated = np.where(similar, z > near, z < far)
    assert violated.any()
    assert (np.where(similar, multipliers, -multipliers)[violated] > 0).all()
    pull = np.einsum("k,ki,kj->ij", multipliers[violated], u[violated], u[violated])
    inverse = np.linalg.inv(M)
    np.testing.assert_allclose(
        inverse, np.linalg.inv(prior) + pull, atol=1e-6 * np.abs(inverse).max()
    )


def test_the_gap_is_a_bound(posed):
    learner, _ = posed
    optimum = learner.history_.objective[-1]
    above = learner.history_.objective - optimum
    assert (above <= learner.history_.gap + 1e-9 * optimum).all()
    assert np.isfinite(learner.history_.gap[-1])
    assert learner.gap_ == learner.history_.gap[-1]


def test_derivatives_of_the_loss(rng):
    n = 30
    weights = np.where(rng.random((2, n)) < 0.5, 0.0, rng.random((2, n)))
    loss = BoundLoss(np.array([1.0, 2.0]), *weights)
    z = rng.uniform(0.2, 4.0, n)
    numeric = approx_fprime(z, lambda z: loss(z)[0], 1e-7)
    np.testing.assert_allclose(loss(z)[1], numeric, atol=1e-5)


def pairs_by_distance(X, pairs):
    """Call the nearer half of the pairs similar, and return the distance that parts them."""
    d = np.linalg.norm(differences(X, pairs), axis=1)
    return Pairs(pairs.index, d < np.median(d)), float(np.median(d))


def test_the_prior_stays_where_it_keeps_the_bounds():
    X, pairs = random_pairs(5)
    split, d = pairs_by_distance(X, pairs)
    learner = exact(bounds=(d, d)).fit(X, split)
    np.testing.assert_allclose(learner.metric_.matrix, np.eye(4), atol=1e-12)
    assert learner.gap_ == learner.history_.objective[-1] == 0.0
    assert learner.history_.stopped == "converged"


class TestPairs:
    def test_labels_are_pairs_that_the_strategy_draws(self):
        X, _ = random_pairs(6)
        y = np.arange(len(X)) % 3
        y[-1] = 9
        drawn = RandomPairs(80)(X, y, np.random.RandomState(5))
        learner = ITML(scale="standard", constraints=RandomPairs(80), random_state=5)
        from_labels = learner.fit(X, y).metric_.matrix
        np.testing.assert_array_equal(learner.fit(X, drawn).metric_.matrix, from_labels)

    @pytest.mark.parametrize("bounds", [None, (1.0, 2.0)])
    def test_a_weight_of_two_is_a_pair_listed_twice(self, bounds, rng):
        X, pairs = random_pairs(7)
        weight = rng.integers(1, 4, len(pairs))
        rows = np.repeat(np.arange(len(pairs)), weight)
        learner = exact(bounds=bounds, tol=1e-10)
        twice = learner.fit(X, pairs.take(rows)).metric_.matrix
        weighted = learner.fit(X, Pairs(pairs.index, pairs.similar, weight)).metric_.matrix
        np.testing.assert_allclose(weighted, twice, atol=1e-6)

    def test_the_number_of_pairs_is_no_strength(self):
        X, pairs = random_pairs(8)
        learner = exact(tol=1e-10)
        once = learner.fit(X, pairs).metric_.matrix
        four_times = learner.fit(X, pairs.take(np.tile(np.arange(len(pairs)), 4))).metric_.matrix
        np.testing.assert_allclose(four_times, once, atol=1e-6)

    def test_a_pair_of_both_kinds(self):
        X, pairs = random_pairs(9)
        index = np.vstack([pairs.index, pairs.index[:5, ::-1]])
        both = Pairs(index, np.append(pairs.similar, ~pairs.similar[:5]))
        learner = exact(bounds=(1.0, 2.0)).fit(X, both)
        expected, _ = reference.cyclic_projections(
            differences(X, both), both.similar, (1.0, 4.0), gammas(learner, X, both), np.eye(4)
        )
        np.testing.assert_allclose(learner.metric_.matrix, expected, atol=1e-8)

    def test_equal_points_have_no_influence(self):
        X, pairs = random_pairs(10)
        doubled = np.vstack([X, X[:4]])
        equal = np.column_stack([np.arange(4), len(X) + np.arange(4)])
        more = Pairs(
            np.vstack([pairs.index, equal]),
            np.append(pairs.similar, [True, False, True, False]),
            np.append(np.ones(len(pairs)), np.full(4, 1e-9)),
        )
        learner = exact(tol=1e-10)
        expected = learner.fit(X, pairs).metric_.matrix
        np.testing.assert_allclose(learner.fit(doubled, more).metric_.matrix, expected, atol=1e-6)


class TestBounds:
    def test_percentiles_of_distances_under_the_prior(self):
        X, pairs = random_pairs(11, n=101)
        d = np.sort(np.linalg.norm(differences(X, pairs), axis=1))
        near, far = exact(percentiles=(0.0, 100.0)).fit(X, pairs).bounds_
        assert (near, far) == pytest.approx((d[0], d[-1]))
        near, far = exact(percentiles=(50.0, 50.0)).fit(X, pairs).bounds_
        assert near == far == pytest.approx(d[50])
        doubled = exact(percentiles=(50.0, 50.0), prior=Metric(2 * np.eye(4))).fit(X, pairs)
        assert doubled.bounds_[0] == pytest.approx(2 * d[50])

    def test_given_bounds_are_distances(self):
        X, pairs = random_pairs(12)
        learner = exact(percentiles=(20.0, 70.0), tol=1e-10).fit(X, pairs)
        again = exact(bounds=learner.bounds_, tol=1e-10).fit(X, pairs)
        assert again.bounds_ == pytest.approx(learner.bounds_)
        np.testing.assert_allclose(again.metric_.matrix, learner.metric_.matrix, atol=1e-6)

    @pytest.mark.parametrize(
        "parameters",
        [
            {"gamma": 0.0},
            {"bounds": (2.0, 1.0)},
            {"bounds": (0.0, 1.0)},
            {"bounds": 1.0},
            {"bounds": (1.0, 2.0, 3.0)},
            {"percentiles": (5.0, 101.0)},
            {"percentiles": None},
            {"prior": None},
        ],
        ids=str,
    )
    def test_bad_parameters(self, parameters):
        (name,) = parameters
        X, pairs = random_pairs(13)
        with pytest.raises(ValueError, match=f"{name} must be"):
            ITML(**parameters).fit(X, pairs)


class TestFeatures:
    def test_units_of_the_prior_are_units_of_the_metric(self):
        X, pairs = random_pairs(14)
        first = exact(tol=1e-10).fit(X, pairs).metric_.matrix
        scaled = exact(tol=1e-10, prior=Metric(10 * np.eye(4))).fit(X, pairs).metric_.matrix
        np.testing.assert_allclose(scaled / 100, first, atol=1e-6)

    def test_a_singular_prior_is_learned_on_where_it_is_not_zero(self):
        X, pairs = random_pairs(15)
        prior = Metric(np.eye(4)[:2])
        found = exact(prior=prior, tol=1e-10).fit(X, pairs).metric_.matrix
        expected = exact(tol=1e-10).fit(X[:, :2], pairs).metric_.matrix
        np.testing.assert_allclose(found[:2, :2], expected, atol=1e-6)
        np.testing.assert_array_equal(found[2:], 0.0)

    def test_more_features_than_points_change_only_their_span(self, rng):
        low, pairs = random_pairs(16, n_features=3)
        axes = np.linalg.qr(rng.standard_normal((40, 40)))[0]
        learner = exact(bounds=(1.0, 2.0), tol=1e-10)
        learner.gamma = 40 * 2.0
        wide = np.column_stack([low, np.zeros((len(low), 37))])
        expected = learner.fit(wide, pairs).metric_.matrix
        found = learner.fit(wide @ axes.T, pairs).metric_.matrix
        np.testing.assert_allclose(found, axes @ expected @ axes.T, atol=1e-6)
        np.testing.assert_allclose(expected[3:, 3:], np.eye(37), atol=1e-12)

    def test_collinear_features(self):
        X, pairs = random_pairs(17)
        X = np.column_stack([X, X[:, 0] + X[:, 1], X[:, 0]])
        M = ITML(scale="standard").fit(X, pairs).metric_.matrix
        assert np.isfinite(M).all()
        assert np.linalg.eigvalsh(M).min() > 0

    def test_scaling_is_internal(self):
        X, pairs = random_pairs(18)
        X = X * [1.0, 10.0, 100.0, 1e3] + 5.0
        scaler = StandardScaler().fit(X)
        inside = exact(tol=1e-10).fit(scaler.transform(X), pairs).metric_.matrix
        M = exact(scale="standard", tol=1e-10).fit(X, pairs).metric_.matrix
        np.testing.assert_allclose(M * np.outer(scaler.scale_, scaler.scale_), inside, atol=1e-6)


@pytest.mark.parametrize("similar", [True, False])
def test_pairs_of_one_kind(similar):
    """One of the two bounds is enough: the optimum is that of the reference."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 3))
    index = np.array([rng.choice(20, 2, replace=False) for _ in range(40)])
    pairs = Pairs(index, np.full(40, similar))
    learner = exact(bounds=(0.8, 3.0)).fit(X, pairs)
    M = learner.metric_.matrix
    z = learner.metric_.pair_distances(X, index) ** 2
    share = gammas(learner, X, pairs)
    near, far = 0.8**2, 3.0**2
    slopes = (
        np.where(z > near, 1 / near - 1 / z, 0.0)
        if similar
        else np.where(z < far, 1 / far - 1 / z, 0.0)
    )
    U = differences(X, pairs)
    inverse = np.eye(3) + (U.T * (share * slopes)) @ U
    assert np.abs(slopes).max() > 0
    np.testing.assert_allclose(np.linalg.inv(M), inverse, rtol=1e-5, atol=1e-6)
    ITML().fit(X, pairs)
