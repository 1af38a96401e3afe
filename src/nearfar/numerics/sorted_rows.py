"""Rows in order: classes as runs of rows, and the best candidates of each row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearfar.typing import Ints, Vector

UNIT_ROUNDOFF = 2.0**-24
"""Of float32."""


class ClassOrder:
    """Rows sorted by class.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Class codes.

    Attributes
    ----------
    order : array of shape (n_samples,)
        Row numbers, class by class.
    edges : array of shape (n_classes + 1,)
        Where classes begin and end in that order.
    codes : array of shape (n_samples,)
        Class of each row in that order, from 0.
    sizes : array of shape (n_classes,)

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.sorted_rows import ClassOrder
    >>> classes = ClassOrder(np.array([1, 0, 1]))
    >>> classes.order, classes.edges
    (array([1, 0, 2]), array([0, 1, 3]))
    """

    def __init__(self, y: NDArray[np.integer]) -> None:
        self.n = len(y)
        self.order: Ints = np.argsort(y, kind="stable")
        changes = np.flatnonzero(np.diff(y[self.order])) + 1
        self.edges = np.concatenate([[0], changes, [self.n]]).astype(np.intp)
        self.sizes: Ints = np.diff(self.edges)
        self.codes: Ints = np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def size_of_each(self) -> Ints:
        """Size of the class of each row, in class order."""
        return self.sizes[self.codes]


def sparse_nonzero(mask: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """`mask.nonzero()`, eight entries at a time: most of a tile has no candidate.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.sorted_rows import sparse_nonzero
    >>> sparse_nonzero(np.array([[False, True, False]]))
    (array([0]), array([1]))
    """
    if mask.shape[1] % 8:
        mask = np.pad(mask, ((0, 0), (0, -mask.shape[1] % 8)))
    word = np.flatnonzero(mask.view(np.uint64))
    hit, byte = mask.reshape(-1, 8)[word].nonzero()
    i, j = np.divmod(word[hit] * 8 + byte, mask.shape[1])
    return i, j


def place_in_run(group: Ints) -> Ints:
    """Position of each element within its run of equal values.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.sorted_rows import place_in_run
    >>> place_in_run(np.array([3, 3, 5]))
    array([0, 1, 0])
    """
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    return np.arange(len(group)) - np.repeat(starts, np.diff(starts, append=len(group)))


def best_of_each(
    i: Ints, numbers: Ints, distance: Vector, k: int, tolerance: float
) -> tuple[Ints, Ints]:
    """Pick the best k candidates of each row: smallest distance first, then lower number first.

    Parameters
    ----------
    i : array of int of shape (n_candidates,)
        The row that each is a candidate of.
    numbers : array of int of shape (n_candidates,)
        Their row numbers.
    distance : array of shape (n_candidates,)
    k : int
    tolerance : float
        Relative difference below which distances are tied.

    Returns
    -------
    kept : array of int
        Positions of the best, row by row.
    rank : array of int
        Their ranks, from 0.
    """
    order = np.lexsort((distance, i))
    row, length = i[order], distance[order]
    apart = np.diff(length, prepend=-np.inf) > tolerance * np.abs(length)
    group = np.cumsum(apart | (np.diff(row, prepend=-1) != 0))
    order = order[np.lexsort((numbers[order], group))]
    rank = place_in_run(i[order])
    best = rank < k
    return order[best], rank[best]


def tie_tolerance(dtype: np.dtype[np.floating]) -> float:
    """Relative difference below which two squared distances of this type of data are tied."""
    return 1e-5 if np.finfo(dtype).bits < 64 else 1e-10
