"""Each row's targets, rows of its class, and its impostors, rows of other classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, check_consistent_length

from nearfar.numerics.nearest_rows import ClassOrder, NearestRows, tie_tolerance
from nearfar.typing import Floats, Ints


def class_neighbors(
    X: Floats,
    y: NDArray[np.integer],
    n_targets: int,
    n_impostors: int,
    *,
    farthest_targets: bool = False,
) -> tuple[Ints, Ints]:
    """Find each row's targets and impostors, exactly.

    Parameters
    ----------
    X: shape (n_samples, n_features). Points; float32 or float64.
    y: shape (n_samples,). Class codes.
    n_targets, n_impostors: How many of each to find.
    farthest_targets: Take the farthest rows of the same class instead of the nearest.

    Returns
    -------
    targets : array of shape (n_samples, n_targets)
        Row numbers, best first; -1 where the class has too few members.
    impostors : array of shape (n_samples, n_impostors)
        Row numbers, best first; -1 where the other classes have too few members.

    Notes
    -----
    Ties: nearest (farthest) first, then lower row number first. Distances that agree to the
    rounding error of the data count as tied, so that a change of units changes nothing.
    """
    X = check_array(X, dtype=[np.float64, np.float32])
    check_consistent_length(X, y)
    # In class order, a class is a run of rows.
    classes = ClassOrder(np.unique(y, return_inverse=True)[1])
    order, X = classes.order, X[classes.order]
    runs = np.column_stack([classes.edges[:-1], classes.edges[1:]])[classes.codes]
    rows = NearestRows(X, order, tolerance=tie_tolerance(X.dtype))
    alike = rows
    if farthest_targets:
        alike = NearestRows(X, order, tolerance=rows.tolerance, farthest=True)
    targets = np.empty((len(X), n_targets), dtype=np.intp)
    impostors = np.empty((len(X), n_impostors), dtype=np.intp)
    targets[order] = alike.nearest(X, n_targets, np.arange(len(X)), inside=runs)[1]
    impostors[order] = rows.nearest(X, n_impostors, outside=runs)[1]
    return targets, impostors
