from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import fractional_matrix_power, inv, sqrtm

from nearfar import GMML, Metric
from problems import points_with_a_single, random_pairs
from references.closed_forms import all_pairs, pair_means, shrink


def geodesic(A, B, t):
    """A #_t B as printed."""
    root = sqrtm(A)
    back = inv(root)
    return root @ fractional_matrix_power(back @ B @ back, t) @ root


def assert_same_matrix(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("t", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("shrinkage", [0.0, 0.1])
def test_formula(t, shrinkage):
    X, y, _ = points_with_a_single(0)
    S, D = (shrink(A, shrinkage) for A in pair_means(X, *all_pairs(y)))
    found = GMML(t=t, shrinkage=shrinkage, scale=None).fit(X, y).metric_.matrix
    assert_same_matrix(found, geodesic(inv(S), D, t))


@pytest.mark.parametrize("weighted", [False, True])
def test_riccati_equation(weighted):
    X, pairs = random_pairs(2, weighted=weighted)
    S, D = pair_means(X, pairs.index, pairs.similar, pairs.weight)
    A = GMML(shrinkage=0.0, scale=None).fit(X, pairs).metric_.matrix
    assert_same_matrix(A @ S @ A, D)


def test_the_objective_is_minimal(rng):
    X, pairs = random_pairs(2)
    S, D = pair_means(X, pairs.index, pairs.similar)

    def objective(A):
        return np.sum(A * S) + np.sum(inv(A) * D)

    A = GMML(shrinkage=0.0, scale=None).fit(X, pairs).metric_.matrix
    for _ in range(20):
        turn = np.eye(4) + 0.1 * rng.standard_normal((4, 4))
        assert objective(A) < objective(turn @ A @ turn.T)


def test_distances_are_in_units_of_the_variance():
    X, y, _ = points_with_a_single(0)
    free = GMML(scale="unit", shrinkage=0.0).fit(X, y).metric_.matrix
    as_given = GMML(scale=None, shrinkage=0.0).fit(X, y).metric_.matrix
    assert_same_matrix(free * X.var(axis=0).mean(), as_given)


@pytest.mark.parametrize("weight", [0.5, 10.0])
@pytest.mark.parametrize("t", [0.5, 0.2])
def test_prior(weight, t):
    X, y, _ = points_with_a_single(0)
    X /= np.sqrt(X.var(axis=0).mean())
    S, D = pair_means(X, *all_pairs(y))
    own = Metric([[1.0, 0.5, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    A0 = own.matrix * np.sqrt(np.sum(inv(own.matrix) * D) / np.sum(own.matrix * S))
    expected = geodesic(inv(S + weight * inv(A0)), D + weight * A0, t)
    for prior in (own, Metric(10 * own.L)):
        learner = GMML(t=t, prior=prior, prior_weight=weight, shrinkage=0.0, scale=None)
        assert_same_matrix(learner.fit(X, y).metric_.matrix, expected)


def test_the_identity_as_prior():
    X, y, _ = points_with_a_single(0)
    given = {"prior_weight": 3.0, "scale": None}
    identity = GMML(prior="identity", **given).fit(X, y).metric_.matrix
    assert_same_matrix(GMML(prior=Metric.identity(3), **given).fit(X, y).metric_.matrix, identity)
    nothing = GMML(prior="identity", prior_weight=0.0, scale=None).fit(X, y).metric_.matrix
    assert_same_matrix(nothing, GMML(scale=None).fit(X, y).metric_.matrix)


def test_a_prior_of_low_rank():
    X, y, _ = points_with_a_single(0)
    prior = Metric([[1.0, 0.0, 0.0]])
    learner = GMML(prior=prior, prior_weight=100.0).fit(X, y)
    assert np.isfinite(learner.components_).all()
    M = learner.metric_.matrix
    assert M[0, 0] > 100 * M[1, 1]
