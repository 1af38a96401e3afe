"""Thresholds against the reference's loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfar.learners.boosting.triplet_operator import _roots, best_threshold, gaussian_threshold
from references import metricboost as reference


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 25), grid=st.booleans(), signed=st.booleans())
def test_the_best_threshold_is_that_of_a_loop(seed, n, grid, signed):
    rng = np.random.default_rng(seed)
    near, far = rng.gamma(1.0, size=(2, n)).round(1 if grid else 9)
    u = rng.dirichlet(np.ones(n))
    wrong, right = np.where(far < near, u, 0.0), np.where(near < far, u, 0.0)
    found = best_threshold(
        np.concatenate([near, far]),
        np.concatenate([-wrong, wrong]),
        np.concatenate([right, -right]),
        signed=signed,
    )
    expected = reference._exact_threshold(near, far, u, not signed)
    assert found == pytest.approx(np.inf if np.isnan(expected) else expected, rel=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_the_gaussian_threshold_is_that_of_the_reference(seed):
    rng = np.random.default_rng(seed)
    near, far = rng.gamma(1.0, 10.0 ** rng.uniform(-2, 2), 30), rng.gamma(2.0, 1.0, 40)
    found = gaussian_threshold(near.mean(), near.std(), far.mean(), far.std())
    assert found == pytest.approx(reference.gaussian_threshold(near, far), rel=1e-10)


def test_lengths_of_zero_have_no_threshold():
    assert best_threshold(np.zeros(2), np.zeros(2), np.array([1.0, -1.0])) == np.inf


def test_roots_of_polynomials():
    assert _roots(1.0, -2.0, 1.0) == [1.0, 1.0]
    assert sorted(_roots(2.0, -2.0, -12.0)) == [-2.0, 3.0]
    assert _roots(0.0, 2.0, -3.0) == [1.5]
    assert _roots(1.0, 0.0, 0.0) == [0.0]
    assert _roots(1.0, 0.0, 1.0) == _roots(0.0, 0.0, 1.0) == []


def test_lengths_without_spread():
    assert gaussian_threshold(2.0, 0.0, 6.0, 1.0) == 4.0
    assert gaussian_threshold(2.0, 1.0, 6.0, 0.0) == 6.0
    assert gaussian_threshold(2.0, 1.0, 2.0, 3.0) == 2.0
