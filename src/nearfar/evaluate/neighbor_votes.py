"""The vote of nearest neighbours: which class wins, and how ties are broken."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearfar.typing import Ints


def majority(labels: Ints) -> Ints:
    """Return the most frequent label of each row; of several, the smallest.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.evaluate.neighbor_votes import majority
    >>> majority(np.array([[2, 0, 2], [2, 1, 0]]))
    array([2, 0])
    """
    ordered = np.sort(labels, axis=1)
    place = np.broadcast_to(np.arange(ordered.shape[1]), ordered.shape)
    first = np.diff(ordered, axis=1, prepend=-1) != 0
    run = place - np.maximum.accumulate(np.where(first, place, 0), axis=1)
    return np.take_along_axis(ordered, run.argmax(axis=1)[:, None], axis=1)[:, 0]


def class_shares(codes: Ints, n_classes: int) -> NDArray[np.float64]:
    """Return the share of each class among the neighbours of each row.

    Parameters
    ----------
    codes : array of int of shape (n_rows, n_neighbors)
        Classes of the neighbours.
    n_classes : int

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.evaluate.neighbor_votes import class_shares
    >>> class_shares(np.array([[0, 2]]), 3)
    array([[0.5, 0. , 0.5]])
    """
    n_rows, n_neighbors = codes.shape
    places = np.arange(n_rows)[:, None] * n_classes + codes
    counts = np.bincount(places.ravel(), minlength=n_rows * n_classes)
    return counts.reshape(n_rows, n_classes) / n_neighbors
