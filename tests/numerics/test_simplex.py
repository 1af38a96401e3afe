from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfar.numerics.simplex import maximize_quadratic


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
