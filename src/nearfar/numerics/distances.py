"""Squared distances of listed pairs of rows, without an array of all differences."""

from __future__ import annotations

import numpy as np

from nearfar.typing import Floats, Ints, Vector

_BLOCK_ELEMENTS = 1 << 16


def squared_distances(X: Floats, i: Ints, j: Ints) -> Vector:
    """Squared distances of the row pairs (i, j) of X, from differences formed block by block.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.distances import squared_distances
    >>> squared_distances(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([0]), np.array([1]))
    array([25.])
    """
    out = np.empty(len(i))
    block = max(1, _BLOCK_ELEMENTS // max(1, X.shape[1]))
    for start in range(0, len(i), block):
        rows = slice(start, start + block)
        difference = np.subtract(X[i[rows]], X[j[rows]], dtype=np.float64)
        np.einsum("ij,ij->i", difference, difference, out=out[rows])
    return out
