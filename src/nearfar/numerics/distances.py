"""Squared distances of listed pairs of rows, without an array of all differences."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from nearfar.typing import Floats, Ints, Vector

_BLOCK_ELEMENTS = 1 << 16


def squared_distances(
    X: Floats, i: Ints, j: Ints, *, Y: Floats | None = None, dtype: DTypeLike = np.float64
) -> Vector:
    """Squared distances of row pairs (i, j), from differences formed block by block.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    i, j : array of int of shape (n_pairs,)
    Y : array of shape (n_others, n_features), optional
        What j counts the rows of; by default X.
    dtype : type, default=np.float64
        Type of the differences and of their squares; that of X is faster if it is float32.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.distances import squared_distances
    >>> squared_distances(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([0]), np.array([1]))
    array([25.])
    """
    other = X if Y is None else Y
    out = np.empty(len(i))
    block = max(1, _BLOCK_ELEMENTS // max(1, X.shape[1]))
    for start in range(0, len(i), block):
        rows = slice(start, start + block)
        difference = X.take(i[rows], axis=0).astype(dtype, copy=False)
        difference -= other.take(j[rows], axis=0)
        out[rows] = np.einsum("ij,ij->i", difference, difference)
    return out
