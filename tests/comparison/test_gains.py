from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
from scipy.stats import norm

from nearfar.evidence import gain as gains
from nearfar.evidence.gain import expected_gains, observe_rows, smallest_gain
from nearfar.measures.registry import measure_of

GOALS = ["classification", "ranking"]


def row_gains(differences, loss, goal, **options):
    observed = [observe_rows(each, noise(goal)) for each in differences]
    return expected_gains(observed, loss, measure_of(goal).spreads, **options)


def noise(goal):
    return measure_of(goal).noise * measure_of(goal).gain_noise


def rows(better, worse, n):
    """Differences of a method that is right on some rows and wrong on others."""
    return np.repeat([1.0, -1.0, 0.0], [better, worse, n - better - worse])


def by_integration(difference, loss, goal, prior_mean=gains.PRIOR_MEAN):
    """The posterior of one method's gain, on a fine grid of gains."""
    n = len(difference)
    g, v = difference.mean(), noise(goal) * difference.var() / n + 1 / n**2
    theta = np.linspace(-1.5, 1.5, 300_001)
    density = np.zeros_like(theta)
    spreads = measure_of(goal).spreads
    p_none = gains._PROBABILITY_OF_NO_SPREAD
    for tau, p in [(gains._NO_SPREAD, p_none)] + [
        (t, (1 - p_none) / len(spreads)) for t in spreads
    ]:
        prior = norm.pdf(theta, prior_mean * tau * loss, tau * loss)
        density += p * prior * norm.pdf(g, theta, np.sqrt(v))
    density /= density.sum()
    below = np.cumsum(density)
    low, high = theta[np.searchsorted(below, [0.05, 0.95])]
    return theta @ density, low, high, density[theta > smallest_gain(loss)].sum()


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize(("better", "worse", "n"), [(6, 0, 178), (40, 20, 300), (5, 4, 60)])
def test_one_method_has_the_posterior_of_the_model(goal, better, worse, n):
    difference = rows(better, worse, n)
    found = row_gains([difference], 0.25, goal)[0]
    expected = by_integration(difference, 0.25, goal)
    actual = found.gain, found.low, found.high, found.probability
    np.testing.assert_allclose(actual, expected, atol=2e-4)
    neutral = row_gains([difference], 0.25, goal, prior_mean=0.0)[0]
    expected = by_integration(difference, 0.25, goal, prior_mean=0.0)
    assert neutral.probability == pytest.approx(expected[-1], abs=2e-4)


@pytest.mark.parametrize("goal", GOALS)
def test_ten_times_the_rows_are_surer(goal):
    few, many = (row_gains([rows(6 * k, 2 * k, 100 * k)], 0.2, goal)[0] for k in (1, 10))
    assert many.probability > few.probability
    assert many.high - many.low < few.high - few.low
    assert (6 - 2) / 100 > many.gain > few.gain


def test_with_many_rows_the_prior_does_not_matter():
    difference = rows(30_000, 20_000, 200_000)
    found = row_gains([difference], 0.3, "classification")[0]
    reach = norm.ppf(0.95) * difference.std() * np.sqrt(noise("classification") / len(difference))
    actual = found.gain, found.low, found.high
    np.testing.assert_allclose(actual, 0.05 + reach * np.array([0, -1, 1]), atol=0.01 * reach)
    assert found.probability > 1 - 1e-6


def test_a_gain_without_practical_difference_is_not_real():
    found = row_gains([rows(1010, 510, 500_000)], 0.3, "classification")[0]
    assert found.low > 0
    assert found.probability < 1e-6
    assert smallest_gain(0.3) == 0.005
    assert smallest_gain(0.01) == pytest.approx(0.0005)


def test_the_best_of_many_equal_methods_is_believed_less():
    best, others = rows(12, 4, 100), [rows(6, 5, 100)] * 9
    alone = row_gains([best], 0.3, "classification")[0]
    among = row_gains([best, *others], 0.3, "classification")[0]
    assert among.probability < alone.probability
    assert among.gain < alone.gain


def test_methods_that_are_worse_change_nothing():
    best = rows(12, 4, 100)
    alone = row_gains([best], 0.3, "classification")[0]
    beside = row_gains([best, rows(5, 50, 100), rows(0, 9, 100)], 0.3, "classification")
    assert astuple(beside[0]) == pytest.approx(astuple(alone), rel=1e-8)
    assert beside[1].probability < 0.01


@pytest.mark.parametrize("goal", GOALS)
def test_few_rows_and_none(goal):
    nothing, one = row_gains([np.full(3, np.nan), np.array([np.nan, 1.0])], 0.0, goal)
    for found in (nothing, one):
        assert found.low < found.gain < found.high
        assert 0 < found.probability < 1
    assert row_gains([], 0.2, goal) == []


def test_rows_that_were_not_tested_do_not_count():
    difference = rows(6, 2, 100)
    missing = np.concatenate([difference, np.full(50, np.nan)])
    assert row_gains([difference], 0.2, "ranking") == row_gains([missing], 0.2, "ranking")


def test_stated_probabilities_hold_for_the_best_of_many():
    """Gains from the model, methods that often agree; a third of the problems have no gain."""
    rng = np.random.default_rng(0)
    n, n_methods, loss = 200, 8, 0.3
    stated, real = [], []
    for problem in range(450):
        spread = 0.0 if problem % 3 == 0 else rng.choice(measure_of("classification").spreads)
        theta = np.clip(spread * loss * (0.5 + rng.normal(size=n_methods)), -0.25, 0.25)
        luck = rng.uniform(size=(n_methods, n))
        luck = np.where(rng.uniform(size=luck.shape) < 0.7, rng.uniform(size=n), luck)
        side = np.where(luck < 0.5 + theta[:, None] / 0.6, 1.0, -1.0)
        difference = np.where(rng.uniform(size=n) < 0.3, side, 0.0)
        found = row_gains(list(difference), loss, "classification")
        best = max(range(n_methods), key=lambda m: found[m].gain)
        stated.append(found[best].probability)
        real.append(theta[best] > smallest_gain(loss))
    stated, real = np.array(stated), np.array(real)
    sure = stated > 0.75
    assert sure.sum() > 100
    assert real[sure].mean() == pytest.approx(stated[sure].mean(), abs=0.05)
    assert (stated[::3] > 0.95).mean() < 0.02
