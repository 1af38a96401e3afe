"""Products of matrices on all cores, in blocks that do not depend on the number of threads.

A product that takes some ten milliseconds or more is divided into blocks of rows. Smaller ones are
one call of BLAS, which has one thread (`runtime.threads`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfar.runtime.threads import Threads, single_threaded_libraries
from nearfar.typing import Floats, Matrix

_BLOCK_OPERATIONS = 1 << 29
"""Multiplications and additions of a block."""
_FEWEST_COLUMNS = 16
"""A product with fewer columns takes as long as one with so many: it waits for memory."""


def product(A: Floats, B: Floats) -> Floats:
    """Return A B, for a matrix A and a matrix or vector B.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.products import product
    >>> product(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 1.0]))
    array([3., 7.])
    """
    size = _rows_of_a_block(A, B.shape[1:])
    if len(A) <= size:
        with single_threaded_libraries():
            return np.asarray(A @ B)
    out = np.empty((len(A), *B.shape[1:]), dtype=np.result_type(A, B))

    def fill(rows: slice) -> None:
        np.matmul(A[rows], B, out=out[rows])

    for _ in Threads().map(fill, len(A), size):
        pass
    return out


def cross_product(A: Floats, B: Floats) -> Matrix:
    """Return A' B in float64, for a matrix A and a matrix or vector B with as many rows.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.products import cross_product
    >>> cross_product(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 1.0]))
    array([4., 6.])
    """
    size = _rows_of_a_block(A, B.shape[1:])
    if len(A) <= size:
        with single_threaded_libraries():
            return np.asarray(A.T @ B, dtype=np.float64)
    out = np.zeros((A.shape[1], *B.shape[1:]))
    for part in Threads().map(lambda rows: A[rows].T @ B[rows], len(A), size):
        out += part
    return out


def _rows_of_a_block(A: Floats, columns: tuple[Any, ...]) -> int:
    """Return how many rows of A make a block of a product with so many columns."""
    width = max((_FEWEST_COLUMNS, *columns))
    return max(1, _BLOCK_OPERATIONS // max(1, 2 * A.shape[1] * width))
