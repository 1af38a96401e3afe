from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfar.numerics.optimizers import Point, maximize, maximize_quadratic


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), rank=st.integers(1, 12))
def test_quadratic_over_the_simplex(seed, n, rank):
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((rank, n))
    H, q = F.T @ F, rng.standard_normal(n)
    x = maximize_quadratic(H, q, rng.dirichlet(np.ones(n)))
    assert x.min() >= 0
    assert x.sum() == pytest.approx(1.0)
    gain = q - H @ x
    assert gain.max() - gain @ x <= 1e-8 * (1 + np.abs(q).max())


def log_barrier(weight):
    """sum_i c_i log w_i: at its maximum, w is proportional to c."""

    def f(w):
        inside = np.maximum(w, 1e-300)
        value = float(weight @ np.log(inside))
        return Point(value, weight / inside, lambda rows: np.diag(weight[rows] / inside[rows] ** 2))

    return f


@pytest.mark.parametrize("start", [[0.98, 0.01, 0.01], [1 / 3, 1 / 3, 1 / 3]])
def test_steps_that_are_too_long_are_shortened(start):
    weight = np.array([1.0, 5.0, 1e-3])
    w, point = maximize(log_barrier(weight), np.array(start), tol=1e-10)
    np.testing.assert_allclose(w, weight / weight.sum(), rtol=1e-6)
    assert point.gap(w) <= 1e-10


def test_the_search_ends_where_rounding_hides_progress():
    """No tolerance can be reached: the gap is rounding of gradients of 1e8."""
    goal = np.array([0.2, 0.3, 0.5])

    def f(w):
        difference = 1e8 * (goal - w)
        return Point(-float(difference @ difference) / 2e8, difference + 1e8, curvature)

    def curvature(rows):
        return 1e8 * np.eye(len(rows))

    w, _ = maximize(f, np.array([1.0, 0.0, 0.0]), tol=0.0)
    np.testing.assert_allclose(w, goal, atol=1e-7)


def test_what_is_not_finite_is_refused():
    H = np.array([[1.0, np.nan], [np.nan, 1.0]])
    with pytest.raises(FloatingPointError, match="not finite"):
        maximize_quadratic(H, np.ones(2), np.full(2, 0.5))


def test_a_matrix_that_rounding_made_indefinite():
    H = np.diag([1.0, 1.0, -1e-6])
    x = maximize_quadratic(H, np.array([1.0, 0.0, 0.0]), np.full(3, 1 / 3))
    assert x.min() >= 0
    assert x.sum() == pytest.approx(1.0)
