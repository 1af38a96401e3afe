"""PSDBoost against a semidefinite programme, matrix generation as published, and optimality."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

from nearfar import Metric, NearestTriplets, PSDBoost, Triplets
from nearfar.learners.boosting.triplet_operator import TripletOperator
from problems import DEGENERATE, degenerate_points, half_of, posed_triplets
from references import triplets as reference

PROBLEMS = {
    "plain": ({"seed": 0}, {"nu": 0.3, "prior": None}),
    "small nu": ({"seed": 1, "n_features": 4}, {"nu": 0.1, "prior": None}),
    "hard margin": ({"seed": 2, "n_features": 2, "m": 8}, {"nu": 0.01, "prior": None}),
    "weighted": ({"seed": 3, "weighted": True}, {"nu": 0.4, "prior": None}),
    "prior": ({"seed": 4, "n_features": 5}, {"nu": 0.2, "prior": "identity", "prior_weight": 2.0}),
}


@pytest.fixture(scope="module", params=PROBLEMS)
def solved(request):
    problem, settings = PROBLEMS[request.param]
    X, triplets, A, p = posed_triplets(**problem)
    D = X.shape[1]
    P = settings.get("prior_weight", 0.0) / D * np.eye(D)
    learner = PSDBoost(scale=None, tol=1e-8, **settings).fit(X, triplets)
    value, M = reference.best_soft_margin(A, p, settings["nu"], P)
    return learner, A, p, settings["nu"], P, value, M


class TestOptimum:
    def test_is_that_of_the_semidefinite_programme(self, solved):
        learner, *_, value, _ = solved
        assert learner.history_.stopped == "converged"
        assert learner.margin_ == pytest.approx(value, abs=1e-6)
        assert learner.gap_ <= 1e-6

    def test_bounds_hold_in_every_iteration(self, solved):
        learner, *_, value, _ = solved
        lower = -learner.history_.objective
        assert (np.diff(lower) >= -1e-8).all()
        assert (lower <= value + 1e-6).all()
        assert (lower + learner.history_.gap >= value - 1e-6).all()

    def test_margins_are_those_of_the_metric(self, solved):
        learner, A, p, nu, P, *_ = solved
        M = learner.metric_.matrix
        assert np.trace(M - P) == pytest.approx(1.0, abs=1e-9)
        assert np.linalg.eigvalsh(M - P).min() > -1e-9
        margins = np.tensordot(A, M)
        assert learner.margin_ == pytest.approx(reference.soft_margin(margins, p, nu), abs=1e-8)

    def test_at_most_a_share_nu_is_below_the_margin(self, solved):
        learner, A, p, nu, *_ = solved
        margins = np.tensordot(A, learner.metric_.matrix)
        order = np.argsort(margins)
        rho = margins[order][np.searchsorted(np.cumsum(p[order]), nu)]
        assert p[margins < rho - 1e-7].sum() <= nu + 1e-9
        assert p[margins <= rho + 1e-7].sum() >= nu - 1e-9


def test_a_short_fit_is_bounded_by_its_gap():
    X, triplets, A, p = posed_triplets(5, n_features=5)
    value, _ = reference.best_soft_margin(A, p, 0.2, np.zeros((5, 5)))
    with pytest.warns(ConvergenceWarning, match="max_iter=2 was reached; the soft margin"):
        short = PSDBoost(nu=0.2, prior=None, scale=None, max_iter=2, tol=0.0).fit(X, triplets)
    assert short.margin_ < value <= short.margin_ + short.gap_


def test_the_first_iteration_has_the_leading_eigenvector_of_the_paper():
    X, triplets, A, p = posed_triplets(6)
    ((value, eigenvalue),) = reference.generate_matrices(A, p, 0.3, 1)
    with pytest.warns(ConvergenceWarning):
        learner = PSDBoost(nu=0.3, prior=None, scale=None, max_iter=1, tol=0.0).fit(X, triplets)
    first = learner.history_[0]
    assert first.eigenvalue == pytest.approx(eigenvalue, abs=1e-10)
    v = first.payload.directions[0]
    assert v @ np.tensordot(p, A, 1) @ v == pytest.approx(eigenvalue, abs=1e-10)
    assert learner.margin_ >= value - 1e-9


def test_fewer_iterations_than_matrix_generation_as_published():
    X, triplets, A, p = posed_triplets(7, n_features=6, m=150)
    learner = PSDBoost(nu=0.2, prior=None, scale=None, tol=1e-6).fit(X, triplets)
    published = reference.generate_matrices(A, p, 0.2, 2 * learner.n_iter_)
    assert published[-1][0] <= learner.margin_ + 1e-6


@pytest.mark.parametrize("prior", [None, "identity"])
def test_terms(prior):
    X, y = load_wine(return_X_y=True)
    learner = PSDBoost(scale="unit", prior=prior).fit(X, y)
    rebuilt = (learner.directions_.T * learner.weights_) @ learner.directions_
    if prior is not None:
        rebuilt += 0.1 / 13 * np.eye(13) / learner._builder.scale**2
    M = learner.metric_.matrix
    np.testing.assert_allclose(rebuilt, M, atol=1e-10 * np.abs(M).max())
    assert learner.weights_.min() >= 0
    stages = list(learner.staged_metrics())
    assert len(stages) == learner.n_iter_
    np.testing.assert_allclose(stages[-1].matrix, M, atol=1e-12 * np.abs(M).max())


def test_one_direction_at_nu_one():
    X, _, triplets = half_of("iris")
    learner = PSDBoost(nu=1.0, prior=None, scale="unit").fit(X, triplets)
    operator = TripletOperator(X, triplets)
    value, v = operator.leading_eigenpair(np.full(len(triplets), 1 / len(triplets)))
    assert learner.margin_ == pytest.approx(value)
    assert learner.metric_.n_components == 1
    assert abs(learner.directions_[learner.weights_.argmax()] @ v) == pytest.approx(1.0)


def test_a_doubled_weight_is_a_repeated_triplet():
    X, triplets, *_ = posed_triplets(8)
    weight = np.where(np.arange(60) % 7 == 0, 2.0, 1.0)
    repeated = Triplets(np.concatenate([triplets.index, triplets.index[::7]]))
    learner = PSDBoost(scale="standard", tol=1e-9)
    once = learner.fit(X, Triplets(triplets.index, weight)).metric_.matrix
    twice = learner.fit(X, repeated).metric_.matrix
    np.testing.assert_allclose(once, twice, atol=1e-6)


def test_a_triplet_without_weight_does_not_count():
    X, triplets, *_ = posed_triplets(9)
    weight = np.r_[np.zeros(20), np.ones(40)]
    learner = PSDBoost(tol=1e-9, scale=None)
    some = learner.fit(X, triplets.take(np.arange(20, 60))).metric_.matrix
    others_too = learner.fit(X, Triplets(triplets.index, weight)).metric_.matrix
    np.testing.assert_allclose(some, others_too, atol=1e-6)


def test_float32_is_close_to_float64():
    X, y = load_wine(return_X_y=True)
    double = PSDBoost(scale="standard").fit(X, y)
    single = PSDBoost(scale="standard").fit(X.astype(np.float32), y)
    assert single.margin_ == pytest.approx(double.margin_, abs=single.gap_ + double.gap_ + 1e-5)
    assert single.transform(X.astype(np.float32)).dtype == np.float32


def test_units_do_not_matter():
    X, y = load_iris(return_X_y=True)
    learner = PSDBoost(tol=1e-7, scale="unit")
    first = learner.fit(X, y).metric_.distances(X)
    second = learner.fit(1000 * X, y).metric_.distances(1000 * X)
    np.testing.assert_allclose(1000 * second, 1000 * first, rtol=1e-4, atol=1e-4)


def test_no_margin_is_warned_of_without_a_prior(rng):
    X = rng.standard_normal((12, 3))
    index = NearestTriplets()(X, np.arange(12) % 2).index
    both_ways = Triplets(np.concatenate([index, index[:, [0, 2, 1]]]))
    with pytest.warns(ConvergenceWarning, match="not positive"):
        PSDBoost(scale="standard", prior=None).fit(X, both_ways)
    assert np.isfinite(PSDBoost(scale="standard").fit(X, both_ways).metric_.matrix).all()


@pytest.mark.parametrize("kind", DEGENERATE)
@pytest.mark.parametrize(("scale", "dtype"), [("standard", np.float32), ("unit", np.float64)])
@pytest.mark.parametrize("prior", [None, "identity"])
@pytest.mark.filterwarnings("ignore:The soft margin is not positive")
def test_degenerate_points_give_finite_metrics(kind, scale, dtype, prior, rng):
    X = degenerate_points(kind, rng).astype(dtype)
    learner = PSDBoost(scale=scale, prior=prior, tol=1e-2).fit(X, np.arange(30) % 3)
    assert np.isfinite(learner.metric_.matrix).all()
    assert np.isfinite(learner.transform(X)).all()
    assert np.isfinite([learner.margin_, learner.gap_]).all()


def test_a_prior_of_ones_own_counts_in_the_margins():
    X, triplets, A, p = posed_triplets(10, n_features=4)
    own = Metric(np.diag([1.0, 2.0, 3.0, 4.0]))
    learner = PSDBoost(prior=own, prior_weight=0.5, scale=None, tol=1e-8).fit(X, triplets)
    P = 0.5 * own.matrix / np.trace(own.matrix)
    assert learner.margin_ == pytest.approx(reference.best_soft_margin(A, p, 0.3, P)[0], abs=1e-6)
