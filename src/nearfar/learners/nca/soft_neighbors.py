"""Soft neighbours of all points: how likely each is to find its own class, and the gradient.

Under the map L, the point i takes j as its neighbour with a probability ~ exp(-|L x_i - L x_j|^2),
and finds its own class with  p_i = sum over j of its class.  With the sums over near and far,

    a_i = log sum_near exp(-H_ij),   f_i = log sum_far exp(-H_ik)
    log p_i = a_i - log(exp(a_i) + exp(f_i))

and for any function of the p_i with derivatives g_i = d / d log p_i, the gradient by M = L'L is

    sum_ij w_ij (x_i - x_j)(x_i - x_j)',   w_ij = -g_i (1 - p_i) exp(-H_ij - a_i)    near
                                           w_ik =  g_i (1 - p_i) exp(-H_ik - f_i)    far

which is X' (Laplacian of w + w') X. A band of pairs holds whole rows, so that one pass gives value
and gradient, for several maps at once; no n x n array is stored. Points whose class has no second
member are neighbours of others, but are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearfar.learners.map_learner import MapProblem
from nearfar.metrics.metric import Metric
from nearfar.numerics.pair_tiles import (
    Band,
    BandWeights,
    Embedded,
    PairTiles,
    column_sums,
    laplacian_form,
)
from nearfar.runtime.history import History
from nearfar.typing import Floats, Ints, Matrix, Vector

Gain = Callable[[slice, Matrix], tuple[Matrix, Matrix]]
"""Rows in class order, and log p of these rows under each map -> the gain of each row as a column,
and its derivatives by log p (not negative)."""

VANISHED = 1e-5
"""Squared length of a direction, relative to the longest, that counts as none: L-BFGS ends before
directions that the penalty makes vanish are exactly zero."""
# Squared length of a typical direction where maps begin.
_FIRST_SIZE = 1e-2
# By bytes of the type: sums above it lost nothing to underflow.
_SAFE_SUM = {4: 1e-20, 8: 1e-280}


@dataclass(frozen=True)
class Evaluation:
    """A gain over all points, and its gradients.

    Attributes
    ----------
    by_matrix: shape (n_features, n_features). Gradient by each M = L'L; or None where
        `by_map` was cheaper.
    by_map: shape (k, n_features). Gradient by each map.
    """

    value: float
    by_matrix: list[Matrix | None]
    by_map: list[Matrix]


class SoftNeighbors:
    """Points and labels, ready for soft neighbours under any map.

    Parameters
    ----------
    X: shape (n_samples, n_features). Points, float32 or float64.
    y: shape (n_samples,). Class codes.
    axes: shape (n_features, n_axes). Orthonormal axes of the space in which points differ;
        maps are then of coordinates in it.
    anchors: shape (n_samples,). Which points are counted; by default all. The others are
        their neighbours.
    weight: shape (n_samples,). How often points are counted. As neighbours of others they
        all count once.

    Attributes
    ----------
    features: shape (n_samples, n_features). The points in class order.
    X: shape (n_samples, n_features or n_axes). What is mapped: these points, or their
        coordinates.
    counted: shape (n_samples,). Which of them are counted, and have another member of their
        class.
    total: How often all points are counted.
    """

    def __init__(
        self,
        X: Floats,
        y: Ints,
        axes: Matrix | None = None,
        anchors: NDArray[np.bool_] | None = None,
        weight: Vector | None = None,
    ) -> None:
        self.classes = PairTiles(y, anchors)
        self.X = self.features = np.ascontiguousarray(X[self.classes.order])
        if axes is not None:
            self.X = self.features @ axes.astype(X.dtype, copy=False)
        self.counted = self.classes.counted
        self.weight = weight = None if weight is None else weight[self.classes.order]
        self.total = float(self.counted.sum() if weight is None else weight[self.counted].sum())
        self._shifts: dict[int, Matrix] = {}
        check_classes(y)

    def evaluate(self, maps: Sequence[Matrix] | Matrix, gain: Gain) -> Evaluation:
        """Return a gain and its gradients by the maps, in one pass over all pairs.

        Parameters
        ----------
        gain: It is called once for each band of rows, in any order and by several threads.
        """
        forms = [Embedded(self.X @ L.T.astype(self.X.dtype), np.ones(len(L))) for L in maps]
        for number in range(len(forms)):
            self._shifts.setdefault(number, np.zeros((2, len(self.X))))
        # A narrow map's gradient needs w P and w' P, a wide one's only w X.
        own = [
            np.zeros((len(self.X), len(L))) if 2 * len(L) < self.X.shape[1] else None for L in maps
        ]

        def work(band: Band) -> tuple[Floats, ...]:
            soft = [
                _SoftBand.of(form, band, number, self._shifts[number])
                for number, form in enumerate(forms)
            ]
            values, g = gain(band.rows, np.column_stack([s.log_p for s in soft]))
            if self.weight is not None:
                weight = self.weight[band.rows, None]
                values, g = values * weight, g * weight
            value = float(values.sum())
            parts: list[Floats] = [np.array(value)]
            for s, form, rows, column in zip(soft, forms, own, g.T, strict=True):
                w = s.gradient_weights(column)
                if rows is None:
                    parts.append(self.X[band.rows].T @ (w @ self.X))
                else:
                    rows[band.rows] = w @ form.P
                    parts.append(w.T @ form.P[band.rows])
                parts.append(column_sums(w))
            return tuple(parts)

        value, *parts = self.classes.sum(work)
        by_matrix: list[Matrix | None] = []
        by_map = []
        for L, form, rows, S, columns in zip(
            maps, forms, own, parts[::2], parts[1::2], strict=True
        ):
            if rows is None:
                G = laplacian_form(self.X, S, columns)
                by_matrix.append(G)
                by_map.append(2 * L @ G)
            else:
                pulled = (columns[:, None] * form.P - rows - S).astype(self.X.dtype)
                by_matrix.append(None)
                by_map.append(np.asarray(2 * pulled.T @ self.X, dtype=np.float64))
        return Evaluation(float(value), by_matrix, by_map)


@dataclass(frozen=True)
class _SoftBand:
    """Soft neighbours of the rows of a band."""

    weights: BandWeights
    near: Vector
    far: Vector
    log_p: Vector
    wrong: Vector

    @classmethod
    def of(cls, form: Embedded, band: Band, number: int, shifts: Matrix) -> _SoftBand:
        """Compute the weights."""
        rows, safe = band.rows, _SAFE_SUM[form.dtype.itemsize]
        with np.errstate(over="ignore"):
            weights = form.weights(band, *shifts, near_sign=-1.0, number=number)
            near, far = sums = weights.row_sums()
        if not (np.min(sums) > safe and np.max(sums) < 1 / safe):
            shifts[:, rows] = form.log_sums(band, near_sign=-1.0, number=number)
            weights = form.weights(band, *shifts, near_sign=-1.0, number=number)
            near, far = weights.row_sums()
        if not shifts[:, rows].any():
            total = near + far
            wrong = far / total
            small = np.log1p(-np.minimum(wrong, 0.5))
            log_p = np.where(wrong < 0.5, small, np.log(near / total))
            return cls(weights, near, far, log_p, wrong)
        log_near, log_far = shifts[:, rows] + np.log([near, far])
        log_all = np.logaddexp(log_near, log_far)
        return cls(weights, near, far, log_near - log_all, np.exp(log_far - log_all))

    def gradient_weights(self, g: Vector) -> Floats:
        """W of the rows, for derivatives g by log p."""
        u = g * self.wrong
        return self.weights.merged(-u / self.near, u / self.far)


def check_classes(y: Ints) -> None:
    """Raise ValueError unless there are two classes, and one of them has two members."""
    if not has_enough_classes(y):
        raise ValueError(
            "Soft neighbours need at least two classes, and at least one class with two members."
        )


def has_enough_classes(y: Ints) -> bool:
    """Return whether there are two classes, and one of them has two members."""
    sizes = np.unique(y, return_counts=True)[1]
    return len(sizes) > 1 and bool(sizes.max() > 1)


def nonzero_rows(L: Matrix, largest: float, share: float = VANISHED) -> Matrix:
    """Drop directions that the penalty on rank has made vanish.

    Those are the ones whose squared length is at most a share of `largest`, or of the first map's.
    """
    _, size, axes = np.linalg.svd(L, full_matrices=False)
    kept = size**2 > share * max(largest, _FIRST_SIZE)
    return np.asarray(size[kept, None] * axes[kept]) if kept.any() else np.zeros((1, L.shape[1]))


class NeighborhoodProblem(MapProblem):
    """Base of the problems on soft neighbours."""

    def warning_message(self, history: History, metric: Metric) -> str:
        """Warn where nothing was learned, or where the objective has not settled."""
        if metric.is_zero:
            return "Nothing was learned: the penalty on rank leaves no direction."
        return super().warning_message(history, metric)
