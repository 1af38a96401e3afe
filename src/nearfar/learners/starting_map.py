"""Where learners of a map begin: what `init` names, as a map of scaled points."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfar.learners.problem import FitInput, factor_on_scaled_points
from nearfar.metrics.metric import Metric
from nearfar.rows import Points, Rows, column_ranges, gram
from nearfar.typing import Floats, Ints, Matrix

_SHRINKAGE = 0.1
"""Shrinkage of the covariance within classes, for discriminant axes."""
_MOST_ROWS = 20_000
"""Rows that are read for discriminant axes, if rows are not in memory."""


def given_map(metric: Metric, data: FitInput, n_components: int | None) -> Matrix:
    """Return the map of a metric to begin with, for scaled points.

    One that a user gave may have more rows than `n_components`, to be reduced, but not fewer: no
    choice of the others is better than another. A metric to continue from may have fewer.
    """
    L = factor_on_scaled_points(metric, data.scaler, "metric to begin with")
    if data.warm is None and n_components is not None and len(L) < n_components:
        raise ValueError(
            f"The metric to begin with has {len(L)} components, fewer than "
            f"n_components={n_components}."
        )
    return L


def prefers_lda(n_components: int | None, data: FitInput) -> bool:
    """Return whether ``init="auto"`` is "lda": if there are more classes than components."""
    if n_components is None or _n_classes(data) < 2:
        return False
    return n_components < len(np.unique(data.supervision.codes))


def named_map(init: str, X: Points, data: FitInput, n_components: int | None) -> Matrix:
    """Return the map that a word stands for.

    Parameters
    ----------
    init : {"auto", "identity", "pca", "lda", "random"}
    X : array or Rows of shape (n_samples, n_features)
        The points that the map is for.
    data : FitInput
        Class labels, and what to draw at random from.
    n_components : int or None
        Rows of the map; None for as many as there are features that vary.

    Returns
    -------
    array of shape (n_components, n_features)
        For "identity" and "pca", principal axes, or the identity if none is left out. For "lda",
        the axes of linear discriminant analysis, followed by axes that do not discriminate, by
        their spread.
    """
    varying = np.flatnonzero(column_ranges(X) > 0)
    if len(varying) == 0:
        varying = np.arange(X.shape[1])
    axes = np.eye(X.shape[1])[varying]
    k = len(axes) if n_components is None else min(n_components, len(axes))
    if init == "lda" or (init == "auto" and prefers_lda(n_components, data)):
        return _discriminant_axes(X, data, varying)[:k] @ axes
    if init == "random":
        return np.asarray(data.random_state.standard_normal((k, len(axes))) @ axes)
    return principal_axes(axes, X)[:k] if k < len(axes) else axes


def principal_axes(L: Matrix, X: Points) -> Matrix:
    """Rotate the rows of a map so that mapped points are uncorrelated, the most spread first."""
    axes = np.linalg.eigh(L @ (gram(X) / len(X)) @ L.T)[1]
    return np.asarray(axes[:, ::-1].T @ L)


def _n_classes(data: FitInput) -> int:
    """Return the number of classes with two members; 0 without labels."""
    known = data.supervision
    return int(np.count_nonzero(np.bincount(known.codes) > 1)) if known.kind == "labels" else 0


def _discriminant_axes(X: Points, data: FitInput, varying: Ints) -> Matrix:
    """Return square discriminant axes of the features that vary, the best ones first."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    n_classes = _n_classes(data)
    if n_classes < 2:
        raise ValueError('init="lda" needs labels of at least two classes with two members.')
    codes = data.supervision.codes
    rows: Any = np.flatnonzero(np.bincount(codes)[codes] > 1)
    if isinstance(X, Rows) and len(rows) > _MOST_ROWS:
        rows = np.sort(data.random_state.choice(rows, _MOST_ROWS, replace=False))
    points: Floats = X[rows][:, varying].astype(np.float64)
    if all(np.ptp(points[codes[rows] == code], axis=0).max() == 0 for code in np.unique(codes)):
        return principal_axes(np.eye(len(varying)), points)
    analysis = LinearDiscriminantAnalysis(solver="eigen", shrinkage=_SHRINKAGE)
    axes: Matrix = analysis.fit(points, codes[rows]).scalings_.T
    n_best = min(n_classes - 1, len(axes))
    rest = np.linalg.svd(axes[n_best:], full_matrices=False)
    # Axes of unit variance within classes: the shorter, the more spread.
    return np.vstack([axes[:n_best], (rest[1][:, None] * rest[2])[::-1]])
