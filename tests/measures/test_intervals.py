from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom, binomtest
from scipy.stats import t as student

from nearfar.evidence.intervals import (
    CONFIDENCE,
    fit_variance,
    group_variance,
    mean_interval,
    ratio_interval,
)


@pytest.mark.parametrize("share", [0.02, 0.3])
def test_intervals_contain_the_mean_of_most_samples(rng, share):
    samples = (rng.random((500, 200)) < share).astype(float)
    found = np.array([mean_interval(s.mean(), s.var() / 200, 200) for s in samples])
    covered = (found[:, 0] <= share) & (share <= found[:, 1])
    # What is exact for a share of 200 rows, which is one of 201 numbers.
    numbers = np.arange(201) / 200
    limits = np.array([mean_interval(k, k * (1 - k) / 200, 200) for k in numbers])
    inside = (limits[:, 0] <= share) & (share <= limits[:, 1])
    exact = binom.pmf(np.arange(201), 200, share)[inside].sum()
    assert binomtest(int(covered.sum()), 500, exact).pvalue > 1e-4
    assert exact >= CONFIDENCE - 0.03


def test_intervals_by_group_contain_the_mean_of_most_samples(rng):
    """Eight groups whose members are alike: without groups, intervals are far too narrow."""
    groups = np.repeat(np.arange(8), 25)
    covered = {"groups": [], "rows": []}
    for _ in range(500):
        share = rng.beta(3, 7, size=8)
        values = (rng.random(200) < share[groups]).astype(float)
        mean = values.mean()
        variance, n = group_variance(values - mean, groups)
        assert n == 8
        for name, interval in {
            "groups": mean_interval(mean, variance, n, grouped=True),
            "rows": mean_interval(mean, values.var() / 200, 200),
        }.items():
            covered[name].append(interval[0] <= 0.3 <= interval[1])
    held = {name: sum(each) for name, each in covered.items()}
    assert binomtest(held["groups"], 500, CONFIDENCE).pvalue > 1e-4
    assert binomtest(held["rows"], 500, CONFIDENCE).pvalue < 1e-4


def test_limits():
    low, high = mean_interval(0.0, 0.0, 20)
    assert low == 0
    z = ndtri(0.95)
    assert high == pytest.approx(z**2 / (20 + z**2))
    narrow, wide = mean_interval(0.5, 0.001, 100), mean_interval(0.5, 0.004, 100)
    assert wide[0] < narrow[0] < 0.5 < narrow[1] < wide[1]
    assert mean_interval(0.3, 0.0, 1, grouped=True) == mean_interval(0.3, 0.0, 0) == (0.0, 1.0)


@pytest.mark.parametrize("n", [*range(1, 120), 1000])
def test_the_mean_is_inside(n):
    for mean in (0.0, 1 / 3, 1.0):
        low, high = mean_interval(mean, 0.0, n)
        assert 0 <= low <= mean <= high <= 1


def test_one_row_tells_something_and_one_group_nothing():
    z = ndtri(0.95)
    assert mean_interval(0.0, 0.0, 1) == (0.0, pytest.approx(z**2 / (1 + z**2)))
    assert mean_interval(0.0, 0.0, 1, grouped=True) == (0.0, 1.0)


def test_with_many_groups_it_is_that_of_student():
    low, high = mean_interval(0.5, 1e-8, 12, grouped=True)
    assert (high - low) / 2 == pytest.approx(1e-4 * student.ppf(0.95, 11), rel=1e-4)


def test_the_variance_of_a_mean_over_groups_of_one_is_that_of_rows(rng):
    values = rng.random(50)
    variance, n = group_variance(values - values.mean(), np.arange(50))
    assert (variance, n) == (pytest.approx(values.var(ddof=1) / 50), 50)


def test_the_variance_of_fits_is_that_of_one_more_fit(rng):
    """Means of six fits with standard deviation 0.3; a single one tells nothing about others."""
    fits = np.repeat(np.arange(6), 40)
    luck = 0.3 * rng.normal(size=(2000, 6))
    values = luck[:, fits] + rng.normal(size=(2000, 240))
    found = [fit_variance(each, fits) for each in values]
    assert np.mean(found) == pytest.approx(0.09 * 7 / 6, rel=0.1)
    assert fit_variance(values[0], None) == fit_variance(values[0], 0 * fits) == 0


@pytest.mark.parametrize("unseen", [60, 120])
def test_intervals_of_ratios_hold(rng, unseen):
    """The ratio of a mean square of some rows to the variance of all of them."""
    held = 0
    for _ in range(400):
        y = rng.normal(size=120)
        rows = rng.permutation(120)[:unseen]
        squares = (0.3 * y[rows] + 0.4 * rng.normal(size=unseen)) ** 2
        low, high = ratio_interval(squares, (y - y.mean()) ** 2, rows=rows)
        held += low <= 0.25 <= high
    # 90 % of 400, within four standard errors.
    assert 336 <= held <= 384


def test_ratios_by_group_are_as_wide_as_those_of_one_row_each(rng):
    values, unit = rng.uniform(1, 2, 50), np.ones(50)
    copies = np.repeat(np.arange(50), 3)
    alone = ratio_interval(values, unit)
    joined = ratio_interval(np.repeat(values, 3), np.ones(150), groups=copies)
    assert joined == pytest.approx(alone)
    assert ratio_interval(values[:1], unit[:1]) == (0.0, np.inf)
    assert ratio_interval(np.zeros(50), unit) == (0.0, 0.0)
