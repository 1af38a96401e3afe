from __future__ import annotations

import numpy as np
import pytest

from nearfar.numerics.eigen import leading, leading_block, row_space, signed


def test_leading_by_absolute_value():
    A = np.diag([1.0, -3.0, 2.0])
    assert leading(A)[0] == pytest.approx(2.0)
    value, v = leading(A, absolute=True)
    assert value == pytest.approx(-3.0)
    np.testing.assert_allclose(v, [0, 1, 0], atol=1e-12)


def test_a_block_has_the_largest_first(rng):
    F = rng.standard_normal((6, 4))
    values, vectors = leading_block(F.T @ F, 3)
    np.testing.assert_allclose(values, np.linalg.svd(F)[1][:3] ** 2)
    np.testing.assert_allclose(vectors @ F.T @ F, values[:, None] * vectors, atol=1e-9)
    assert len(leading_block(F.T @ F, 9)[0]) == 4


def test_the_largest_entry_is_positive(rng):
    for v in rng.standard_normal((20, 5)):
        found = signed(v)
        assert found[np.abs(v).argmax()] > 0
        np.testing.assert_array_equal(np.abs(found), np.abs(v))
        np.testing.assert_array_equal(signed(-v), found)


def test_row_space(rng):
    X = rng.standard_normal((20, 3)) @ rng.standard_normal((3, 7))
    for points in (X, X[:5], X.astype(np.float32)):
        basis = row_space(points)
        assert basis.shape == (3, 7)
        np.testing.assert_allclose(basis @ basis.T, np.eye(3), atol=1e-6)
        np.testing.assert_allclose(points @ basis.T @ basis, points, atol=1e-4)
    assert row_space(rng.standard_normal((20, 3))) is None
    assert row_space(np.zeros((4, 2))) is None
