from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from nearfar.numerics import products
from nearfar.numerics.products import cross_product, product
from nearfar.runtime.threads import limited_threads


@pytest.fixture(params=[1, 1 << 10, 1 << 29])
def block(request, monkeypatch):
    monkeypatch.setattr(products, "_BLOCK_OPERATIONS", request.param)


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


def test_rows_of_any_layout(rng):
    A, B = rng.standard_normal((7, 30)).T, rng.standard_normal((20, 14)).T[::2]
    np.testing.assert_allclose(product(A, B), A @ B)
    np.testing.assert_allclose(cross_product(A, A[:, ::2]), A.T @ A[:, ::2])


@pytest.mark.parametrize(
    ("shape", "columns", "n_blocks"),
    [
        ((1000, 100), (100,), 1),  # 2e7 operations
        ((20_000, 100), (100,), 1),  # 4e8
        ((100_000, 100), (100,), 4),  # 2e9
        ((100_000, 100), (), 1),  # 2e7, but as slow as with 16 columns: 3.2e8
        ((1_000_000, 100), (), 6),
        ((3, 0), (5,), 1),
    ],
)
def test_large_products_are_divided(shape, columns, n_blocks):
    A = np.broadcast_to(np.float32(0), shape)
    assert -(-shape[0] // products._rows_of_a_block(A, columns)) == n_blocks


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
