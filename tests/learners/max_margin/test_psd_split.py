from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfar.learners.max_margin.box_dual import PsdSplit


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 6), shift=st.floats(-3, 3))
def test_curvature_is_the_derivative_of_the_projection(seed, n, shift):
    rng = np.random.default_rng(seed)
    Q = rng.standard_normal((n, n))
    Q = Q + Q.T + shift * np.eye(n)
    G = rng.standard_normal((2, n, n))
    G = G + G.transpose(0, 2, 1)
    h = 1e-5
    rise = PsdSplit.of(Q + h * G[1]).positive - PsdSplit.of(Q - h * G[1]).positive
    H = PsdSplit.of(Q).curvature(G)
    scale = np.abs(np.linalg.eigvalsh(Q)).min()
    if scale > 1e-2:
        assert H[0, 1] == pytest.approx((G[0] * rise).sum() / (2 * h), rel=1e-3, abs=1e-4)
    np.testing.assert_allclose(H, H.T, atol=1e-10)
    assert np.linalg.eigvalsh(H).min() > -1e-9


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_rounding_makes_no_positive_part(size):
    B = np.random.default_rng(0).standard_normal((30, 12))
    Q = -size * B @ B.T
    split = PsdSplit.of(Q)
    assert split.values.max() > 0
    assert split.is_negative
    assert not PsdSplit.of(Q + 1e-9 * size * np.eye(30)).is_negative
    assert not PsdSplit.of(-Q).is_negative
    assert PsdSplit.of(0 * Q).is_negative
