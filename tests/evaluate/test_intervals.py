from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import t as student

from nearfar.evaluate.intervals import group_variance, mean_interval


@pytest.mark.parametrize("share", [0.02, 0.3])
def test_intervals_contain_the_mean_of_most_samples(rng, share):
    samples = (rng.random((500, 200)) < share).astype(float)
    found = np.array([mean_interval(s.mean(), s.var() / 200, 200) for s in samples])
    covered = ((found[:, 0] <= share) & (share <= found[:, 1])).mean()
    assert 0.84 < covered < 0.97


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
    assert 0.85 < np.mean(covered["groups"]) < 0.96
    assert np.mean(covered["rows"]) < 0.75


def test_limits():
    low, high = mean_interval(0.0, 0.0, 20)
    assert low == 0
    assert 0.05 < high < 0.2
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
