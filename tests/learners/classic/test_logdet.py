"""The LogDet problem with any convex loss: gradient, certificate, coordinates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from nearfar.learners.classic.logdet import LogDetProblem, PriorSpace
from nearfar.numerics.edges import Edges
from nearfar.numerics.linear_algebra import axes_of_span


def problem_of(X, rng, prior=None, **parameters):
    """Squared deviations from random lengths: a convex loss."""
    space = PriorSpace.of(X, prior)
    edges = Edges(space.X, rng.integers(0, 5, 20), rng.integers(5, 10, 20))
    target = rng.uniform(0.5, 5.0, len(edges))

    def loss(z):
        return float(((z - target) ** 2).sum()), 2 * (z - target)

    given = {"tol": 1e-12, "max_iter": 500} | parameters
    return LogDetProblem(space, edges, loss, np.eye(space.X.shape[1]), **given)


def test_gradient(rng):
    problem = problem_of(rng.standard_normal((10, 3)), rng)
    L = np.eye(3) + 0.3 * rng.standard_normal((3, 3))
    numeric = approx_fprime(L.ravel(), lambda L: problem.at(L.reshape(3, 3)).value, 1e-7)
    np.testing.assert_allclose(problem.at(L).gradient.ravel(), numeric, rtol=1e-4, atol=1e-4)


def test_the_gap_is_a_bound_and_closes(rng):
    problem = problem_of(rng.standard_normal((10, 3)), rng)
    last = list(problem.solve())[-1]
    assert last.gap <= 1e-12 * last.objective
    best = problem.at(last.payload)
    np.testing.assert_allclose(best.gradient, 0.0, atol=1e-4)
    for _ in range(50):
        near = problem.at(last.payload + 0.02 * rng.standard_normal((3, 3)))
        assert best.value <= near.value
        assert near.value - best.value <= near.gap()


def test_the_start_does_not_matter(rng):
    X = rng.standard_normal((10, 3))
    problem = problem_of(X, rng)
    first = list(problem.solve())[-1]
    problem.start = np.array([[0.0, 3.0, 0.0], [0.1, 0.0, 0.0], [1.0, 1.0, -1.0]])
    second = list(problem.solve())[-1]
    assert second.objective == pytest.approx(first.objective, rel=1e-10)
    expected = first.payload.T @ first.payload
    np.testing.assert_allclose(second.payload.T @ second.payload, expected, atol=1e-5)


SHAPES = {"tall": (12, 4), "wide": (5, 9), "square": (6, 6)}


@pytest.mark.parametrize("rank", [None, 3], ids=["identity", "singular"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
class TestPriorSpace:
    def space(self, shape, rank, rng):
        Z = rng.standard_normal(shape)
        return Z, PriorSpace.of(Z, None if rank is None else rng.standard_normal((rank, shape[1])))

    def test_the_prior_is_the_identity(self, shape, rank, rng):
        Z, space = self.space(shape, rank, rng)
        mapped = Z if space.prior is None else Z @ space.prior.T
        inside = Edges(space.X, np.array([0, 1]), np.array([2, 4])).squared_distances(space.X)
        outside = ((mapped[[0, 1]] - mapped[[2, 4]]) ** 2).sum(axis=1)
        np.testing.assert_allclose(inside, outside)
        prior = np.eye(shape[1]) if space.prior is None else space.prior
        np.testing.assert_allclose(space.map_of(np.eye(space.X.shape[1])), prior, atol=1e-12)

    def test_maps_act_on_the_coordinates(self, shape, rank, rng):
        Z, space = self.space(shape, rank, rng)
        L = rng.standard_normal((space.X.shape[1], space.X.shape[1]))
        inside = (space.X[0] - space.X[3]) @ L.T
        outside = (Z[0] - Z[3]) @ space.map_of(L).T
        assert outside @ outside == pytest.approx(inside @ inside)

    def test_there_and_back(self, shape, rank, rng):
        _, space = self.space(shape, rank, rng)
        L = rng.standard_normal((space.X.shape[1], space.X.shape[1]))
        back = space.inside(space.map_of(L))
        np.testing.assert_allclose(back.T @ back, L.T @ L, atol=1e-9)

    def test_a_map_of_low_rank_is_filled_with_the_prior(self, shape, rank, rng):
        _, space = self.space(shape, rank, rng)
        L = space.inside(np.zeros((1, shape[1])))
        np.testing.assert_allclose(L.T @ L, np.eye(space.X.shape[1]), atol=1e-12)


def test_axes_of_a_span(rng):
    assert axes_of_span(rng.standard_normal((5, 4))).shape == (4, 4)
    X = rng.standard_normal((6, 2)) @ rng.standard_normal((2, 20))
    axes = axes_of_span(X)
    assert axes.shape == (20, 2)
    np.testing.assert_allclose(axes.T @ axes, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(X @ axes @ axes.T, X, atol=1e-10)
    assert axes_of_span(np.zeros((3, 5))).shape == (5, 1)
