"""Blocks of directions: optimality of the weights, and losses that fall."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfar.learners.boosting.all_triplets_operator import AllTripletsOperator
from nearfar.learners.boosting.base import _RIDGE, _newton_weights, boost_in_blocks
from nearfar.learners.boosting.metricboost import RealResponse
from problems import labelled


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 10),
    rank=st.integers(1, 12),
    negative=st.booleans(),
)
def test_weights_are_optimal(seed, n, rank, negative):
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((rank, n))
    curvature = factor.T @ factor / rank
    # Slopes in the range of the curvature, so that there is a maximum.
    slopes = curvature @ (rng.standard_normal(n) if negative else rng.random(n))
    w = _newton_weights(slopes, curvature)
    size = np.abs(slopes).max()
    assert (w >= 0).all()
    rise = slopes - curvature @ w
    assert rise.max() <= 1e-6 * size
    np.testing.assert_allclose(w * rise, 0.0, atol=1e-6 * size * max(1.0, w.max()))


def test_the_weight_of_one_direction_is_newtons_step():
    assert _newton_weights(np.array([3.0]), np.array([[2.0]])) == pytest.approx([1.5])


def test_directions_without_curvature_get_finite_weights():
    w = _newton_weights(np.array([1.0, 1.0]), np.diag([4.0, 0.0]))
    np.testing.assert_allclose(w, [0.25, 1 / (4.0 * _RIDGE)], rtol=1e-6)


def rule(tol=0.0):
    return RealResponse(psd=True, tol=tol, satisfied=-100.0, first=1.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("block_size", [1, 3, 6])
def test_the_loss_falls_in_every_iteration(block_size, dtype):
    X, y, _ = labelled(n=80, n_features=6, dtype=dtype)
    operator = AllTripletsOperator(X, y)
    L = np.zeros((0, 6))
    loss = operator.evaluate(L)[0]
    iterations = list(boost_in_blocks(operator, rule(1e-6), L, block_size=block_size, max_iter=8))
    assert len(iterations) > 2
    for iteration in iterations:
        assert iteration.objective < loss
        loss = iteration.objective
        V, w = iteration.payload.directions, iteration.payload.weights
        assert len(V) == len(w) <= block_size
        np.testing.assert_allclose(V @ V.T, np.eye(len(w)), atol=1e-6)
        assert (w >= 0).all()
        assert iteration.step == pytest.approx(w.sum())
        L = np.vstack([L, np.sqrt(w)[:, None] * V])
        again = operator.loss_and_weights(operator.state(L))[0]
        assert loss == pytest.approx(again, rel=1e-10 if dtype == np.float64 else 1e-5)


class Overshooting:
    """An operator whose curvature is far too small, so that steps must be cut."""

    def __init__(self, operator, factor):
        self.operator, self.factor, self.calls = operator, factor, 0

    def evaluate(self, L, about=None):
        self.calls += 1
        return self.operator.evaluate(L, about)

    def curvature(self, u, V, values):
        return self.operator.curvature(u, V, values) / self.factor


def test_steps_that_are_too_long_are_cut():
    X, y, _ = labelled(n=80, n_features=6)
    operator = Overshooting(AllTripletsOperator(X, y), 200.0)
    iterations = list(boost_in_blocks(operator, rule(), np.zeros((0, 6)), block_size=3, max_iter=3))
    assert operator.calls > 1 + len(iterations)
    objective = [operator.evaluate(np.zeros((0, 6)))[0], *(i.objective for i in iterations)]
    assert (np.diff(objective) < 0).all()
    hopeless = Overshooting(AllTripletsOperator(X, y), 1e30)
    assert list(boost_in_blocks(hopeless, rule(), np.zeros((0, 6)), block_size=3, max_iter=3)) == []
