"""MMC against a generic convex solver, finite differences, and its own identities."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.exceptions import ConvergenceWarning

from nearfar import MMC, Metric, Pairs, RandomPairs
from nearfar.learners.classic.mmc import MMCProblem, SimilarSpace
from problems import random_pairs
from references import mmc as reference


def exact(**parameters):
    """Return a learner on points as they are, to many digits."""
    return MMC(**{"scale": None, "tol": 1e-8} | parameters)


def stated(learner, X, pairs):
    """Return the problem as the reference states it."""
    u = X[pairs.index[:, 0]] - X[pairs.index[:, 1]]
    weight = np.ones(len(u)) if pairs.weight is None else pairs.weight
    z, similar = (u**2).sum(axis=1), pairs.similar
    ridge = learner.shrinkage * np.average(z, weights=weight) / X.shape[1]
    S = reference.scatter(u[similar], weight[similar], ridge, learner.shrinkage)
    prior = np.zeros((X.shape[1], X.shape[1]))
    if learner.prior is not None:
        prior = np.eye(X.shape[1]) if learner.prior == "identity" else learner.prior.matrix
        near = np.einsum("ki,ij,kj->k", u[similar], prior, u[similar])
        prior = prior * learner.prior_weight / np.average(near, weights=weight[similar])
    return u[~similar], weight[~similar], S, prior


PROBLEMS = {
    "paper": ({"seed": 0, "n_features": 3}, {"prior": None, "shrinkage": 0.0}),
    "shrunk": ({"seed": 1, "n_features": 4}, {"prior": None}),
    "weighted": ({"seed": 2, "weighted": True}, {"prior_weight": 1.0}),
    "prior": (
        {"seed": 3, "n_features": 3},
        {"prior": Metric(np.triu(np.ones((3, 3)))), "prior_weight": 0.3},
    ),
}


@pytest.fixture(scope="module", params=PROBLEMS)
def posed(request):
    points, parameters = PROBLEMS[request.param]
    return random_pairs(**points), parameters


@pytest.mark.parametrize("diagonal", [False, True])
def test_an_independent_solver_agrees(posed, diagonal):
    (X, pairs), parameters = posed
    learner = exact(diagonal=diagonal, **parameters).fit(X, pairs)
    u, weight, S, prior = stated(learner, X, pairs)
    M, value = reference.optimum(u, weight, S, prior, diagonal=diagonal)
    found = learner.metric_.matrix
    assert -learner.history_.objective[-1] == pytest.approx(value, rel=1e-6)
    assert reference.objective(found, u, weight) == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(found, M, atol=3e-3 * np.abs(M).max())
    assert np.trace(S @ (found - prior)) == pytest.approx(1.0)
    assert np.linalg.eigvalsh(found).min() > -1e-12
    if diagonal and parameters.get("prior", "identity") is None:
        np.testing.assert_array_equal(found, np.diag(np.diag(found)))


@pytest.mark.parametrize("diagonal", [False, True])
def test_the_gap_is_a_bound(posed, diagonal):
    (X, pairs), parameters = posed
    learner = exact(diagonal=diagonal, **parameters).fit(X, pairs)
    objective, gap = learner.history_.objective, learner.history_.gap
    assert (objective - objective[-1] <= gap + 1e-9).all()
    assert 0 <= learner.gap_ <= 1e-8 * -objective[-1]
    assert (np.diff(objective) <= 1e-12).all()


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("prior", [None, np.eye(4)])
def test_gradient(diagonal, prior, rng):
    X, pairs = random_pairs(4)
    space = SimilarSpace.of(X, pairs, 0.1, diagonal=diagonal)
    problem = MMCProblem(space, pairs.take(~pairs.similar), prior, tol=0.0, max_iter=1)
    L = rng.uniform(0.5, 2.0, problem.start.shape)
    numeric = approx_fprime(L.ravel(), lambda L: problem.at(L.reshape(space.K.shape)).value, 1e-7)
    np.testing.assert_allclose(problem.at(L).gradient.ravel(), numeric, atol=1e-5)


class TestPairs:
    @pytest.mark.parametrize("diagonal", [False, True])
    def test_labels_are_pairs_that_the_strategy_draws(self, diagonal):
        X, _ = random_pairs(5)
        y = np.arange(len(X)) % 3
        y[-1] = 9
        drawn = RandomPairs(80)(X, y, np.random.RandomState(5))
        learner = MMC(
            scale="standard", constraints=RandomPairs(80), random_state=5, diagonal=diagonal
        )
        from_labels = learner.fit(X, y).metric_.matrix
        np.testing.assert_array_equal(learner.fit(X, drawn).metric_.matrix, from_labels)

    def test_a_weight_of_two_is_a_pair_listed_twice(self, rng):
        X, pairs = random_pairs(6)
        weight = rng.integers(1, 4, len(pairs))
        rows = np.repeat(np.arange(len(pairs)), weight)
        twice = exact().fit(X, pairs.take(rows)).metric_.matrix
        weighted = exact().fit(X, Pairs(pairs.index, pairs.similar, weight)).metric_.matrix
        np.testing.assert_allclose(weighted, twice, atol=1e-4)

    def test_dissimilar_pairs_of_equal_points_have_no_influence(self):
        X, pairs = random_pairs(7)
        doubled = np.vstack([X, X[:2]])
        index = np.vstack([pairs.index, [[0, len(X)], [1, len(X) + 1]]])
        more = Pairs(index, np.append(pairs.similar, [False, False]))
        learner = exact(shrinkage=0.0)
        expected = learner.fit(X, pairs).metric_.matrix
        np.testing.assert_allclose(learner.fit(doubled, more).metric_.matrix, expected, atol=1e-4)

    @pytest.mark.parametrize("diagonal", [False, True])
    def test_similar_pairs_of_equal_points(self, diagonal):
        X, pairs = random_pairs(8)
        rows = np.arange(10)
        doubled = np.vstack([X, X[:10]])
        index = np.vstack([pairs.index[~pairs.similar], np.column_stack([rows, rows + len(X)])])
        few = Pairs(index, np.arange(len(index)) >= np.sum(~pairs.similar))
        M = MMC(scale="standard", diagonal=diagonal).fit(doubled, few).metric_.matrix
        assert np.isfinite(M).all()
        assert np.linalg.eigvalsh(M).min() > 0


class TestFeatures:
    def test_more_features_than_points_change_only_their_span(self, rng):
        low, pairs = random_pairs(9, n_features=3)
        axes = np.linalg.qr(rng.standard_normal((40, 40)))[0]
        wide = np.column_stack([low, np.zeros((len(low), 37))])
        learner = exact(prior=None, shrinkage=1e-6)
        expected = learner.fit(low, pairs).metric_.matrix
        M = axes.T @ learner.fit(wide @ axes.T, pairs).metric_.matrix @ axes
        np.testing.assert_allclose(M[:3, :3], expected, atol=1e-4)
        np.testing.assert_allclose(M[3:], 0.0, atol=1e-9)

    @pytest.mark.parametrize("diagonal", [False, True])
    @pytest.mark.parametrize("shrinkage", [0.0, 0.1, 1.0])
    def test_collinear_features_without_spread_of_similar_pairs(self, diagonal, shrinkage):
        X, _ = random_pairs(10)
        y = np.arange(len(X)) % 3
        X = np.column_stack([X, X[:, 0] + X[:, 1], X[:, 0], y])
        learner = MMC(scale="standard", shrinkage=shrinkage, diagonal=diagonal, random_state=0).fit(
            X, y
        )
        assert np.isfinite(learner.metric_.L).all()
        assert learner.score(X, y) == 1.0 or shrinkage > 0

    def test_diagonal_metrics_weigh_features(self, rng):
        X = rng.standard_normal((200, 3))
        y = (X[:, 1] > 0).astype(int)
        M = (
            MMC(scale="standard", diagonal=True, prior=None, random_state=0)
            .fit(X, y)
            .metric_.matrix
        )
        assert np.argmax(np.diag(M)) == 1

    def test_bad_parameters(self):
        X, pairs = random_pairs(11)
        for parameters in ({"diagonal": 1}, {"shrinkage": 1.5}, {"shrinkage": -0.1}):
            (name,) = parameters
            with pytest.raises(ValueError, match=f"{name} must be"):
                MMC(**parameters).fit(X, pairs)


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("prior", [None, "identity"])
def test_a_fit_that_goes_on_ends_at_the_same_optimum(diagonal, prior):
    X, pairs = random_pairs(4)
    whole = exact(diagonal=diagonal, prior=prior).fit(X, pairs)
    parts = exact(diagonal=diagonal, prior=prior, warm_start=True)
    with pytest.warns(ConvergenceWarning):
        parts.set_params(max_iter=2).fit(X, pairs)
    parts.set_params(max_iter=whole.max_iter).fit(X, pairs)
    value = whole.history_.objective[-1]
    assert parts.history_.objective[-1] == pytest.approx(value, rel=1e-6)


def test_dissimilar_pairs_of_equal_points():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    with pytest.warns(ConvergenceWarning, match="points of every dissimilar pair are equal"):
        learner = MMC(prior=None, scale=None).fit(X, Pairs([[0, 1], [0, 2]], [True, False]))
    assert not learner.metric_.matrix.any()
    assert learner.gap_ == 0
