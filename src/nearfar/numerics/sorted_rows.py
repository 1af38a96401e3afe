"""Rows in order: classes, and other equal values, as runs of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearfar.typing import Ints


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
