"""Dense linear algebra: products on all cores, eigenpairs, the space that points span.

A product that takes some ten milliseconds or more is divided into blocks of rows, which do not
depend on the number of threads. Smaller ones are one call of BLAS, which has one thread
(`runtime.threads`).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from nearfar.runtime.threads import Threads, single_threaded_libraries
from nearfar.typing import Floats, Matrix, Vector

# Multiplications and additions of a block.
_BLOCK_OPERATIONS = 1 << 29
# A product with fewer columns takes as long as one with so many: it waits for memory.
_FEWEST_COLUMNS = 16
# Rows in a block of a Gram matrix.
_GRAM_ROWS = 1 << 14
# Share of their length by which rows may leave a span: far above rounding in float64.
_ROUNDING = 1e-10
# Relative difference up to which eigenvalues are equal: axes of others are exact to about 1e-8.
_EQUAL_VALUES = 1e-8
# The same for entries of a vector; those of a fit with few exact digits should be told apart.
_EQUAL_ENTRIES = 1e-6


def product(A: Floats, B: Floats) -> Floats:
    """Return A B, for a matrix A and a matrix or vector B."""
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
    """Return A' B in float64, for a matrix A and a matrix or vector B with as many rows."""
    size = _rows_of_a_block(A, B.shape[1:])
    if len(A) <= size:
        with single_threaded_libraries():
            return np.asarray(A.T @ B, dtype=np.float64)
    out = np.zeros((A.shape[1], *B.shape[1:]))
    for part in Threads().map(lambda rows: A[rows].T @ B[rows], len(A), size):
        out += part
    return out


def _rows_of_a_block(A: Floats, columns: tuple[int, ...]) -> int:
    """Return how many rows of A make a block of a product with so many columns."""
    width = max((_FEWEST_COLUMNS, *columns))
    return max(1, _BLOCK_OPERATIONS // max(1, 2 * A.shape[1] * width))


def leading(A: Matrix, *, absolute: bool = False) -> tuple[float, Vector]:
    """Eigenpair of the largest eigenvalue, or of the largest in absolute value.

    The eigenvector's largest entry is positive, so that equal input gives an equal result.
    """
    last = len(A) - 1
    values, vectors = eigh(A, subset_by_index=[last, last])
    if absolute and last > 0:
        low_values, low_vectors = eigh(A, subset_by_index=[0, 0])
        if -low_values[0] > values[0]:
            values, vectors = low_values, low_vectors
    return float(values[0]), signed(vectors[:, 0])


def leading_block(A: Matrix, size: int) -> tuple[Vector, Matrix]:
    """Largest eigenvalues, falling, and their eigenvectors as rows."""
    n = len(A)
    values, vectors = eigh(A, subset_by_index=[max(0, n - size), n - 1])
    return values[::-1], signed(vectors.T[::-1])


def signed(rows: Matrix) -> Matrix:
    """Return a vector, or each row, with the sign that makes its largest entry positive.

    Of entries that differ by rounding the first counts as the largest.
    """
    size = np.abs(rows)
    large = size >= (1 - _EQUAL_ENTRIES) * size.max(axis=-1, keepdims=True)
    return rows * np.copysign(1.0, np.take_along_axis(rows, large.argmax(-1)[..., None], -1))


def determined(values: Vector, rows: Matrix) -> Matrix:
    """Return what does not depend on how an eigenproblem was solved.

    Signs are those of `signed`. If eigenvalues are equal, any rotation of their rows solves the
    problem as well; this one makes ``rows @ diag(0, -1, -2**0.5, -3**0.5, ...) @ rows.T`` diagonal
    and falling: rows of earlier columns come first, and axes of coordinates remain.

    Parameters
    ----------
    values: shape (n,). Eigenvalues, rising or falling.
    rows: shape (n, D). Eigenvectors, or a map that is made of them.
    """
    rows = np.array(rows)
    apart = np.abs(np.diff(values)) > _EQUAL_VALUES * np.abs(values).max(initial=0.0)
    place = -np.sqrt(np.arange(rows.shape[1]))
    for equal in np.split(np.arange(len(rows)), np.flatnonzero(apart) + 1):
        if len(equal) > 1:
            tied = rows[equal]
            rows[equal] = eigh((tied * place) @ tied.T)[1].T[::-1] @ tied
    return signed(rows)


def by_spread(L: Matrix, covariance: Matrix | None = None) -> tuple[Vector, Matrix]:
    """Rotate the rows of a map so that mapped points are uncorrelated, the most spread first.

    Parameters
    ----------
    covariance: shape (n_features, n_features). That of the points; the identity by default,
        so that rows become orthogonal.
    """
    values, axes = np.linalg.eigh(L @ (L.T if covariance is None else covariance @ L.T))
    return values[::-1], determined(values[::-1], axes.T[::-1] @ L)


def row_space(X: Floats) -> Matrix | None:
    """Orthonormal basis of the span of the rows of X, or None if they span everything or nothing.

    Directions along which the rows extend less than about 1e-6 of their largest extent are left
    out.
    """
    n, D = X.shape
    gram = np.zeros((min(n, D), min(n, D)))

    def products(part: slice) -> Matrix:
        block = (X[:, part].T if n < D else X[part]).astype(np.float64)
        return block.T @ block

    for part in Threads().map(products, max(n, D), _GRAM_ROWS):
        gram += part
    values, vectors = eigh(gram)
    least = max(max(n, D) * np.finfo(np.float64).eps, (4 * float(np.finfo(X.dtype).eps)) ** 2)
    kept = values > least * values[-1]
    if kept.sum() in (0, D):
        return None
    basis = vectors[:, kept][:, ::-1].T
    if n < D:
        basis = basis @ X / np.sqrt(values[kept][::-1, None])
        basis = np.linalg.qr(basis.T.astype(np.float64))[0].T
    return signed(basis)


def axes_of_span(X: Matrix) -> Matrix:
    """Return orthonormal axes of the space that rows span, the longest extent first.

    Returns
    -------
    array of shape (n_coordinates, n_axes)
        Rows of zeros still have one axis.
    """
    _, size, axes = np.linalg.svd(X, full_matrices=False)
    n_axes = max(1, int(np.count_nonzero(size > max(X.shape) * np.finfo(float).eps * size[0])))
    return np.ascontiguousarray(determined(size[:n_axes], axes[:n_axes]).T)


def lies_in_span(X: Matrix, axes: Matrix) -> bool:
    """Return whether rows lie in the space of orthonormal axes, up to rounding."""
    outside = X - (X @ axes) @ axes.T
    return bool(np.linalg.norm(outside) <= _ROUNDING * np.linalg.norm(X))
