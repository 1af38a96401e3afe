"""Dense linear algebra: products on all cores, leading eigenpairs, the space that points span.

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


def product(A: Floats, B: Floats) -> Floats:
    """Return A B, for a matrix A and a matrix or vector B.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.linear_algebra import product
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
    >>> from nearfar.numerics.linear_algebra import cross_product
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
    return values[::-1], np.array([signed(v) for v in vectors.T[::-1]])


def signed(v: Vector) -> Vector:
    """Return v or -v, whichever has a positive largest entry."""
    return v * np.copysign(1.0, v[np.abs(v).argmax()])


def row_space(X: Floats) -> Matrix | None:
    """Orthonormal basis of the span of the rows of X, or None if they span everything or nothing.

    Directions along which the rows extend less than about 1e-6 of their largest extent are left
    out.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.linear_algebra import row_space
    >>> row_space(np.array([[3.0, 0.0], [-1.0, 0.0]]))
    array([[1., 0.]])
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
    return np.array([signed(v) for v in basis])


def axes_of_span(X: Matrix) -> Matrix:
    """Return orthonormal axes of the space that rows span, the longest extent first.

    Parameters
    ----------
    X : array of shape (n_points, n_coordinates)

    Returns
    -------
    array of shape (n_coordinates, n_axes)
        Rows of zeros still have one axis.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.linear_algebra import axes_of_span
    >>> np.abs(axes_of_span(np.array([[3.0, 4.0, 0.0], [6.0, 8.0, 0.0]]))).ravel()
    array([0.6, 0.8, 0. ])
    """
    _, size, axes = np.linalg.svd(X, full_matrices=False)
    n_axes = np.count_nonzero(size > max(X.shape) * np.finfo(float).eps * size[0])
    return np.ascontiguousarray(axes[: max(1, n_axes)].T)


def lies_in_span(X: Matrix, axes: Matrix) -> bool:
    """Return whether rows lie in the space of orthonormal axes, up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.linear_algebra import lies_in_span
    >>> axes = np.array([[0.6], [0.8]])
    >>> lies_in_span(np.array([[3.0, 4.0]]), axes), lies_in_span(np.array([[3.0, 5.0]]), axes)
    (True, False)
    """
    outside = X - (X @ axes) @ axes.T
    return bool(np.linalg.norm(outside) <= _ROUNDING * np.linalg.norm(X))
