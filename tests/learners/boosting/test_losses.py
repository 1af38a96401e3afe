from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from nearfar.learners.boosting.losses import (
    bisection_step,
    exponential_loss,
    exponential_slope,
    newton_step,
)


def test_loss_and_weights(rng):
    margins, weight = rng.standard_normal(50), rng.random(50)
    value, u = exponential_loss(np.log(weight) - margins)
    assert value == pytest.approx(logsumexp(-margins, b=weight), rel=1e-14)
    np.testing.assert_allclose(u, weight * np.exp(-margins) / np.exp(value), rtol=1e-12)
    assert u.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("shift", [-1e5, 0.0, 1e5])
def test_loss_does_not_overflow(shift):
    value, u = exponential_loss(np.array([shift, shift - 1e4, -np.inf]))
    assert value == shift
    assert u.tolist() == [1.0, 0.0, 0.0]


def test_slope_and_curvature_are_derivatives(rng):
    base, H = rng.standard_normal(40), rng.standard_normal(40)
    slope = exponential_slope(base, H)
    for w in (0.0, 0.3, 2.0):
        loss = [exponential_loss(base - t * H)[0] for t in (w - 1e-4, w, w + 1e-4)]
        mean, variance = slope(w)
        assert mean == pytest.approx(-(loss[2] - loss[0]) / 2e-4, rel=1e-6)
        assert variance == pytest.approx((loss[2] - 2 * loss[1] + loss[0]) / 1e-8, rel=1e-4)


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 300.0])
@pytest.mark.parametrize("target", [0.0, 1e-7, 1e-2])
def test_newton_agrees_with_bisection(spread, target):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        H = rng.standard_normal(30) * 10.0 ** rng.integers(-6, 7)
        base = spread * rng.standard_normal(30)
        slope = exponential_slope(base, H)
        if slope(0.0)[0] < 0:
            H *= -1
            slope = exponential_slope(base, H)
        goal = target * slope(0.0)[0]
        cap = 50 / slope(0.0)[0]
        newton, capped = newton_step(slope, goal, cap)
        bisection, also_capped = bisection_step(slope, goal, cap)
        assert capped == also_capped
        assert newton == pytest.approx(bisection, rel=1e-10)


def test_newton_is_much_cheaper_than_bisection(rng):
    H, base = rng.standard_normal(1000) + 0.3, rng.standard_normal(1000)
    slope = exponential_slope(base, H)
    calls = []

    def counted(w):
        calls.append(w)
        return slope(w)

    newton_step(counted, 0.0, 50 / slope(0.0)[0])
    n_newton = len(calls)
    bisection_step(counted, 0.0, 50 / slope(0.0)[0])
    assert 4 * n_newton < len(calls) - n_newton


def test_no_root_is_capped():
    slope = exponential_slope(np.zeros(2), np.array([1.0, 2.0]))
    assert newton_step(slope, 0.0, 33.0) == (33.0, True)
    assert bisection_step(slope, 0.0, 33.0) == (33.0, True)
    assert newton_step(slope, 1.5, 33.0)[1] is False


def test_all_margins_equal():
    slope = exponential_slope(np.zeros(3), np.ones(3))
    assert newton_step(slope, 0.5, 10.0) == (10.0, True)
