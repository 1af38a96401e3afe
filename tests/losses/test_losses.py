from __future__ import annotations

import numpy as np
import pytest
from own_loss import SmoothHinge
from scipy.special import logsumexp

from nearfar import BoostMetric
from nearfar.losses import Exponential, Hinge, Logistic, Loss, SoftMargin, SquaredHinge, named_loss
from nearfar.losses.loss import bisection_step, newton_step

SMOOTH = [Exponential(), Logistic(), SquaredHinge(), SquaredHinge(margin=0.0)]


def exponential_loss(log_weighted):
    return Exponential().evaluate(-log_weighted, 0.0)


def exponential_slope(log_weighted, H):
    return Exponential().along(-log_weighted, H, 0.0)


def halved(slope, target, cap):
    """BoostMetric's Algorithm 1, line by line."""
    if slope(cap)[0] > target:
        return cap, True
    low, high = 0.0, cap
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if slope(middle)[0] > target:
            low = middle
        else:
            high = middle
    return (low + high) / 2, False


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
        for bisection, also_capped in (
            halved(slope, goal, cap),
            bisection_step(slope, goal, cap),
        ):
            assert capped == also_capped
            assert newton == pytest.approx(bisection, rel=1e-10)


def test_no_root_is_capped():
    slope = exponential_slope(np.zeros(2), np.array([1.0, 2.0]))
    assert newton_step(slope, 0.0, 33.0) == (33.0, True)
    assert bisection_step(slope, 0.0, 33.0) == (33.0, True)
    assert newton_step(slope, 1.5, 33.0)[1] is False


@pytest.mark.parametrize("loss", [*SMOOTH, Hinge()], ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
class TestDerivatives:
    """Weights are minus the gradient, slope and curvature its derivatives along a line."""

    def given(self, loss, weighted):
        rng = np.random.default_rng(0)
        weight = rng.uniform(0.1, 3.0, 40) if weighted else None
        return 2 * rng.standard_normal(40), rng.standard_normal(40), loss.prepared(weight, 40)

    def test_weights_are_minus_the_gradient(self, loss, weighted):
        margins, _, weight = self.given(loss, weighted)
        value, u = loss.evaluate(margins, weight)
        for r in range(40):
            step = np.zeros(40)
            step[r] = 1e-5
            up, down = (loss.evaluate(margins + sign * step, weight)[0] for sign in (1, -1))
            assert u[r] == pytest.approx(-(up - down) / 2e-5, rel=1e-5, abs=1e-9)
        assert np.isfinite(value)

    def test_slope_along_a_line(self, loss, weighted):
        margins, H, weight = self.given(loss, weighted)
        slope = loss.along(margins, H, weight)
        for w in (0.0, 0.4, 1.7):
            value = [loss.evaluate(margins + t * H, weight)[0] for t in (w - 1e-5, w + 1e-5)]
            assert slope(w)[0] == pytest.approx(-(value[1] - value[0]) / 2e-5, rel=1e-6)
            rates = [slope(w - 1e-6)[0], slope(w + 1e-6)[0]]
            if loss in SMOOTH:
                curvature = -(rates[1] - rates[0]) / 2e-6
                assert slope(w)[1] == pytest.approx(curvature, rel=1e-4, abs=1e-8)

    def test_pieces_add_up(self, loss, weighted, monkeypatch):
        margins, H, weight = self.given(loss, weighted)
        whole = loss.along(margins, H, weight)(0.3)
        monkeypatch.setattr("nearfar.losses.loss.PIECE", 7)
        np.testing.assert_allclose(loss.along(margins, H, weight)(0.3), whole, rtol=1e-12)


@pytest.mark.parametrize("margin", [0.0, 1.0])
def test_kinks_have_no_curvature(margin):
    assert SquaredHinge(margin=margin).curvature(np.array([margin])) == 0
    assert Hinge(margin=margin).slope(np.array([margin])) == 0


@pytest.mark.parametrize("loss", [*SMOOTH, Hinge()], ids=repr)
def test_a_weight_counts_as_repetition(loss, rng):
    margins = rng.standard_normal(6)
    weight = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0])
    repeated = np.repeat(margins, weight.astype(int))
    one = loss.evaluate(margins, loss.prepared(weight, 6))
    many = loss.evaluate(repeated, loss.prepared(None, 9))
    assert one[0] == pytest.approx(many[0], rel=1e-12)
    starts = np.concatenate([[0], np.cumsum(weight.astype(int))[:-1]])
    np.testing.assert_allclose(one[1], np.add.reduceat(many[1], starts), rtol=1e-12)


@pytest.mark.parametrize("loss", SMOOTH[:3], ids=repr)
def test_satisfied_constraints_are_far_below(loss):
    margins = np.full(5, 21.0)
    assert loss.evaluate(margins, loss.prepared(None, 5))[0] < loss.satisfied(5.0)
    assert loss.evaluate(np.zeros(5), loss.prepared(None, 5))[0] >= loss.satisfied(5.0)


@pytest.mark.parametrize("loss", [*SMOOTH, Hinge(), SmoothHinge(), SmoothHinge(0.19, 0.01)])
def test_right_losses_pass_the_check(loss):
    loss.check()


class Rising(SmoothHinge):
    def value(self, m):
        return super().value(-m)


class WrongSign(SmoothHinge):
    def slope(self, m):
        return -super().slope(m)


class NoNumber(SmoothHinge):
    def value(self, m):
        return np.full_like(m, np.nan)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (Rising(), r"Rising.value must never rise, but does at"),
        (WrongSign(), r"WrongSign.slope must be minus the derivative .* it is -1, .* falls at 1\."),
        (NoNumber(), r"NoNumber.slope must be minus the derivative"),
    ],
)
def test_wrong_losses_are_refused(loss, message):
    with pytest.raises(ValueError, match=message):
        BoostMetric(loss=loss).fit(np.eye(6), [0, 0, 0, 1, 1, 1])


def test_a_loss_with_a_name_can_be_requested(monkeypatch):
    monkeypatch.setattr(Loss, "named", dict(Loss.named))

    class Other(Logistic):
        name = "other"

    assert isinstance(named_loss("other"), Other)


def test_the_soft_margin_is_a_loss(rng):
    soft = SoftMargin(np.full(30, 1 / 30), cap=0.1, sharpness=3.0)
    margins, H = rng.standard_normal(30), rng.standard_normal(30)
    slope = soft.along(margins, H)
    for w in (0.0, 0.5):
        value = [soft.evaluate(margins + t * H)[0] for t in (w - 1e-5, w + 1e-5)]
        assert slope(w)[0] == pytest.approx(-(value[1] - value[0]) / 2e-5, rel=1e-6)
        curvature = -(slope(w + 1e-5)[0] - slope(w - 1e-5)[0]) / 2e-5
        assert slope(w)[1] == pytest.approx(curvature, rel=1e-4)


@pytest.mark.parametrize("cap", [0.034, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("sharpness", [0.1, 3.0, 50.0])
def test_weights_of_the_soft_margin_are_optimal(cap, sharpness, rng):
    start = rng.dirichlet(np.ones(30))
    margins = rng.standard_normal(30)
    value, d = SoftMargin(start, cap, sharpness).evaluate(margins)
    assert d.sum() == pytest.approx(1.0, abs=1e-12)
    assert d.max() <= cap
    attained = d @ margins + (d @ np.log(d / start)) / sharpness
    assert -value == pytest.approx(attained, rel=1e-10)
    log_tau = np.log(d / start) + sharpness * margins
    free = d < cap * (1 - 1e-12)
    np.testing.assert_allclose(log_tau[free], log_tau[free][0], rtol=1e-10, atol=1e-10)
    assert (log_tau[~free] <= log_tau[free][0] + 1e-10).all()


@pytest.mark.parametrize("n", [3, 4, 49])
def test_a_soft_margin_without_choice_is_the_mean(n, rng):
    soft = SoftMargin(rng.dirichlet(np.ones(n)), 1 / n, 2.0)
    margins, H = rng.standard_normal(n), rng.standard_normal(n)
    value, d = soft.evaluate(margins)
    np.testing.assert_allclose(d, 1 / n, rtol=1e-14)
    entropy = np.mean(np.log(1 / n / soft.start)) / 2.0
    assert -value == pytest.approx(margins.mean() + entropy, rel=1e-12)
    assert soft.along(margins, H)(0.3) == (pytest.approx(H.mean()), 0.0)
