"""Which rows are unlike all others, whatever a metric makes of them.

A learned metric ignores what does not separate its classes, but a row of a new class may differ in
just that. So this looks at all columns: with D their variances and W their covariance inside
classes (shrunk, Y. Chen et al.: Shrinkage algorithms for MMSE covariance estimation, 2010),

    d(x, y)^2 = (x - y)' (D^-1 + W^-1) (x - y)
    s(x)      = d / sqrt(d')    d:  mean distance from x to its nearest rows
                                d': the same of these rows, as rows are denser in some places

The training rows are in folds. Each is scored by the rows outside of its fold, F(i), and so is a
new row x_0:

    p = #{training rows x_i, and the new row itself: s_F(i)(x_i) >= s_F(i)(x_0)} / (n + 1)

If rows belong to groups, folds are of whole groups, n is the number of groups, and a row counts for
its share of its group: the new row is one of a new group.

This is cross-conformal prediction (V. Vovk: Cross-conformal predictors, 2015). The p-value of a
single fold is exact: if the new row is like the training rows, P(p <= a) <= a. That of all
folds is about as exact (`benchmarks/strangers.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.covariance import oas

from nearfar.metrics.gallery import Distance, Gallery
from nearfar.typing import Floats, Ints, Vector

_FOLDS = 5
# Nearest rows: fewer are noise, more reach into other classes. LOF's usual 20 found fewer strangers
# than 3 on most tables of benchmarks/strangers.py.
_NEIGHBORS = 3
# More training rows make p-values finer, but cost more.
_MOST_ROWS = 5000
# More columns are not decorrelated, which takes the cube of their number.
_MOST_COLUMNS = 1000
# Equal distances differ by less than this after rounding, relatively.
_ROUNDING = 1e-6
# Variance, in units of a column's, below which there is only rounding.
_SMALLEST_VARIANCE = 1e-12


class Fold(NamedTuple):
    """Rows outside of a fold, how far they are from their nearest rows, and scores of the fold.

    `above` is the weight of the scores from each on.
    """

    gallery: Gallery
    near: Vector
    scores: Vector
    above: Vector


class Strangeness:
    """Compare new rows with training rows.

    Parameters
    ----------
    X: shape (n_samples, n_features). Training rows; copies count once.
    codes, groups: shape (n_samples,). Their classes, and what they belong to.
    """

    def __init__(self, X: ArrayLike, codes: Ints | None = None, groups: Ints | None = None) -> None:
        points = np.asarray(X)
        some = np.random.default_rng(0).permutation(len(points))[:_MOST_ROWS]
        rows, first = np.unique(points[some].astype(np.float64), axis=0, return_index=True)
        order = np.argsort(first)
        rows, chosen = rows[order], some[first[order]]
        classes = np.zeros(len(rows), dtype=np.intp) if codes is None else codes[chosen]
        group = np.arange(len(rows))
        if groups is not None:
            group = np.unique(np.asarray(groups)[chosen], return_inverse=True)[1]
        fold, weight = group % _FOLDS, 1 / np.bincount(group)[group]
        self.n_units = 0.0
        self.folds: list[Fold] = []
        for number in np.unique(fold):
            known = rows[fold != number]
            if len(known) > _NEIGHBORS:
                gallery = Gallery(_all_columns(known, classes[fold != number]), known)
                near = gallery.search().nearest(_NEIGHBORS)[0].mean(axis=1)
                scores = _scores(gallery, near, rows[fold == number])
                order = np.argsort(scores)
                above = np.append(np.cumsum(weight[fold == number][order][::-1])[::-1], 0.0)
                self.n_units += above[0]
                self.folds.append(Fold(gallery, near, scores[order], above))

    def p_values(self, queries: ArrayLike) -> Vector:
        """Return small numbers for rows that are unlike the training rows."""
        points = np.asarray(queries, dtype=np.float64)
        stranger = np.ones(len(points))
        for gallery, near, scores, above in self.folds:
            own = _scores(gallery, near, points) * (1 - _ROUNDING)
            stranger += above[np.searchsorted(scores, own)]
        return np.asarray(stranger * self.smallest)

    @property
    def smallest(self) -> float:
        """The smallest p-value."""
        return 1 / (1 + self.n_units)


def _scores(gallery: Gallery, near: Vector, rows: Floats) -> Vector:
    distances, indices = gallery.search(rows).nearest(_NEIGHBORS)
    around = near[indices].mean(axis=1)
    return np.asarray(distances.mean(axis=1) / np.sqrt(np.maximum(around, np.finfo(float).tiny)))


def _all_columns(X: Floats, classes: Ints) -> Distance:
    """Return a distance that sees every direction."""
    spread = X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    if X.shape[1] > _MOST_COLUMNS:
        return Distance(lambda rows: rows / spread)
    names, code = np.unique(classes, return_inverse=True)
    if 2 * len(names) > len(X):  # too few rows of each class
        code = np.zeros(len(X), dtype=np.intp)
    scaled = X / spread
    means = np.stack([np.bincount(code, weights=column) for column in scaled.T], axis=1)
    within = scaled - (means / np.bincount(code)[:, None])[code]
    values, vectors = np.linalg.eigh(oas(within, assume_centered=True)[0])
    whitened = vectors / np.sqrt(np.maximum(values, _SMALLEST_VARIANCE))
    both = np.hstack([np.eye(len(spread)), whitened])
    return Distance(lambda rows: rows / spread @ both)
