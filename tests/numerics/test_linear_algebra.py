from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from nearfar.numerics import linear_algebra
from nearfar.numerics.linear_algebra import (
    by_spread,
    cross_product,
    determined,
    leading,
    leading_block,
    product,
    row_space,
    signed,
)
from nearfar.runtime.threads import limited_threads


@pytest.fixture(params=[1, 1 << 10, 1 << 29])
def block(request, monkeypatch):
    monkeypatch.setattr(linear_algebra, "_BLOCK_OPERATIONS", request.param)


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [(), (1,), (4,), (40,)])
@pytest.mark.parametrize("n", [0, 1, 37])
def test_products_are_those_of_numpy(rng, n, columns, dtype):
    A = rng.standard_normal((n, 5)).astype(dtype)
    B = rng.standard_normal((5, *columns)).astype(dtype)
    Y = rng.standard_normal((n, *columns)).astype(dtype)
    tolerance = {"rtol": 1e-4 if dtype == np.float32 else 1e-12, "atol": 1e-5}
    assert product(A, B).dtype == dtype
    np.testing.assert_allclose(product(A, B), A @ B, **tolerance)
    assert cross_product(A, Y).dtype == np.float64
    np.testing.assert_allclose(cross_product(A, Y), A.T @ Y, **tolerance)


@pytest.mark.usefixtures("block")
def test_the_number_of_threads_changes_nothing(rng):
    A, B = rng.standard_normal((200, 30)), rng.standard_normal((30, 20))
    with limited_threads(1):
        one = product(A, B), cross_product(A, A)
    with limited_threads(3):
        three = product(A, B), cross_product(A, A)
    for first, second in zip(one, three, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.usefixtures("two_blas_threads", "block")
def test_blas_has_one_thread(rng):
    seen = []

    class Watched(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, **options):
            seen.extend(i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas")
            return getattr(ufunc, method)(*map(np.asarray, inputs), **options)

    A = rng.standard_normal((50, 4)).view(Watched)
    np.testing.assert_allclose(product(A, np.ones(4)), np.asarray(A).sum(axis=1))
    assert set(seen) == {1}
    seen.clear()
    np.testing.assert_allclose(cross_product(A, np.ones(50)), np.asarray(A).sum(axis=0))
    assert set(seen) == {1}


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


def test_of_equal_entries_the_first_decides():
    for rounding in (-1e-9, 0.0, 1e-9):
        np.testing.assert_array_equal(np.sign(signed(np.array([-1.0, 1.0 + rounding]))), [1, -1])
    assert signed(np.zeros((0, 3))).shape == (0, 3)
    np.testing.assert_array_equal(signed(np.zeros((1, 3))), np.zeros((1, 3)))


def test_rows_of_equal_eigenvalues_are_determined(rng):
    axes = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    values = np.array([3.0, 2.0, 2.0, 2.0, 1.0, 1.0])
    for signs in (1, -1):
        rows = axes.copy()
        for tied in (slice(1, 4), slice(4, 6)):
            size = len(rows[tied])
            rows[tied] = np.linalg.qr(rng.standard_normal((size, size)))[0] @ rows[tied]
        found = determined(values * (1 + 1e-14 * rng.standard_normal(6)), signs * rows)
        np.testing.assert_allclose((found.T * values) @ found, (axes.T * values) @ axes, atol=1e-12)
        np.testing.assert_allclose(found, determined(values, axes), atol=1e-11)


def test_rows_by_spread(rng):
    covariance = np.cov(rng.standard_normal((4, 9)))
    L = rng.standard_normal((3, 4))
    values, turned = by_spread(L, covariance)
    np.testing.assert_allclose(turned.T @ turned, L.T @ L)
    np.testing.assert_allclose(turned @ covariance @ turned.T, np.diag(values), atol=1e-12)
    assert (np.diff(values) < 0).all()
    np.testing.assert_allclose(by_spread(L)[0], np.linalg.svd(L)[1] ** 2)
    assert by_spread(L[:0], covariance)[1].shape == (0, 4)


def test_row_space(rng):
    X = rng.standard_normal((20, 3)) @ rng.standard_normal((3, 7))
    for points in (X, X[:5], X.astype(np.float32)):
        basis = row_space(points)
        assert basis.shape == (3, 7)
        np.testing.assert_allclose(basis @ basis.T, np.eye(3), atol=1e-6)
        np.testing.assert_allclose(points @ basis.T @ basis, points, atol=1e-4)
    assert row_space(rng.standard_normal((20, 3))) is None
    assert row_space(np.zeros((4, 2))) is None
