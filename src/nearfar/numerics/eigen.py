"""Leading eigenpairs of small dense symmetric matrices, and the space that points span."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from nearfar.runtime.threads import Threads
from nearfar.typing import Floats, Matrix, Vector

_BLOCK_ROWS = 1 << 14


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
    >>> from nearfar.numerics.eigen import row_space
    >>> row_space(np.array([[3.0, 0.0], [-1.0, 0.0]]))
    array([[1., 0.]])
    """
    n, D = X.shape
    gram = np.zeros((min(n, D), min(n, D)))

    def products(part: slice) -> Matrix:
        block = (X[:, part].T if n < D else X[part]).astype(np.float64)
        return block.T @ block

    for part in Threads().map(products, max(n, D), _BLOCK_ROWS):
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
