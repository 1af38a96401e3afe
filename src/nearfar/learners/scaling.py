"""`Scaler`: the units that learners work in, so that results do not depend on the units of X.

`RowSpan` takes fewer rows than features, as coordinates of the space that the rows span.

A learner that only looks at distances and products of scaled rows does not change if these are
rotated. If n rows have more than n features, all of their differences lie in a space of less than n
dimensions. A fit therefore runs on coordinates in that space, at the price of n features, and its
result is lifted to all features.

Two coordinates more are 0 in every row. One stands for each direction in which rows do not differ,
the other one for each feature that is constant: what a learner makes of them, be it a prior, a
start or nothing, it would make of all such directions. With c and d the weights that it gives them,
the lifted metric is, for a difference z of scaled points and the axes Q,

    |L Q'z|^2 + c |z' - Q Q'z|^2 + d |z''|^2        z' features that vary, z'' those that do not
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from nearfar.metrics.metric import Metric
from nearfar.metrics.points import unit_length
from nearfar.metrics.variants import WideMetric
from nearfar.numerics.linear_algebra import axes_of_span, lies_in_span, signed
from nearfar.rows import Moments, Points, Rows
from nearfar.typing import Floats, Matrix, Vector

# Rows whose copy in float64 is made at a time; with 100 features it has 13 MB.
_BLOCK_ROWS = 1 << 14


@dataclass(frozen=True)
class Scaler:
    """Centre and scale of each feature.

    Attributes
    ----------
    unit_rows: Whether rows are divided by their length first.
    span: Where "features" are coordinates in the span of rows: what leads to the features
        of X.
    """

    center: Vector
    scale: Vector
    unit_rows: bool = False
    span: RowSpan | None = None

    @classmethod
    def fit(cls, X: Points, scale: str | None, row_weight: Vector | None = None) -> Scaler:
        """Find the statistics of X.

        Parameters
        ----------
        scale: "standard" divides each feature by its standard deviation, and a constant one by
            1. "unit" divides all by the same power of two, near the largest entry. "cosine"
            divides each row by its length. None leaves rows as they are, except for the mean.
        row_weight: shape (n_samples,). How often each row counts in means and standard
            deviations; for rows in memory.
        """
        if isinstance(X, Rows):
            if scale == "cosine":
                total = X.reduce(_sum_of_directions)
                return cls(total / len(X), np.ones(X.shape[1]), unit_rows=True)
            moments = Moments.of(X)
            if scale == "standard":
                return cls(moments.mean, moments.spread)
            size = power_of_two(max(float(moments.largest.max()), -float(moments.smallest.min())))
            return cls(moments.mean, np.full(X.shape[1], 1.0 if scale is None else size))
        size = 1.0 if scale == "cosine" else power_of_two(max(float(X.max()), -float(X.min())))
        n_rows = len(X) if row_weight is None else float(row_weight.sum())
        scaler, total = StandardScaler(), np.zeros(X.shape[1])
        for top in range(0, len(X), _BLOCK_ROWS):
            rows = X[top : top + _BLOCK_ROWS]
            weight = None if row_weight is None else row_weight[top : top + _BLOCK_ROWS]
            if scale == "standard":
                scaler.partial_fit(np.asarray(rows, dtype=np.float64) / size, sample_weight=weight)
                continue
            rows = unit_length(rows) if scale == "cosine" else rows / size
            rows = rows if weight is None else rows * weight[:, None]
            total += rows.sum(axis=0, dtype=np.float64)
        if scale == "standard":
            return cls(scaler.mean_ * size, scaler.scale_ * size)
        if scale == "cosine":
            return cls(total / n_rows, np.ones(X.shape[1]), unit_rows=True)
        return cls(total / n_rows * size, np.full(X.shape[1], 1.0 if scale is None else size))

    def transform(self, X: Floats) -> Floats:
        """Return X in the learner's units."""
        Z = (unit_length(X) if self.unit_rows else X) - self.center.astype(X.dtype)
        Z /= self.scale.astype(X.dtype)
        return Z

    def transform_block(self, block: Floats) -> Floats:
        """Do the same, in place: blocks of rows are read anew each time."""
        Z = unit_length(block) if self.unit_rows else block
        Z -= self.center.astype(block.dtype)
        Z /= self.scale.astype(block.dtype)
        return Z

    def map_of_scaled(self, V: Matrix, unit: float = 1.0) -> Matrix:
        """Return rows of a map of X as rows of a map of scaled points, divided by `unit`'s root."""
        rows = V if self.span is None else self.span.coordinates_of(V)
        return rows * (self.scale * np.sqrt(unit))

    @property
    def mean(self) -> Vector:
        """The centre of the rows of X."""
        return self.center if self.span is None else self.span.point(self.center)

    @property
    def euclidean(self) -> Metric:
        """Euclidean distance in the learner's units, as a metric on X."""
        return Metric(np.diag(1.0 / self.scale), unit_rows=self.unit_rows)


def _sum_of_directions(block: Floats) -> Vector:
    return np.asarray(unit_length(block).sum(axis=0, dtype=np.float64))


def power_of_two(size: float) -> float:
    """Return the power of two next to `size`; dividing by it is exact."""
    return 2.0 ** min(1020, max(-1020, math.frexp(size)[1])) if size > 0 else 1.0


# Weight, relative to the largest, that is rounding error.
_NOTHING = 1e-12


@dataclass(frozen=True, eq=False)
class RowSpan:
    """The space that scaled rows span.

    Attributes
    ----------
    scaler: Units of the features.
    axes: shape (n_features, rank). Orthonormal axes of the differences between scaled rows.
    varying: shape (n_features,). Which features vary.
    """

    scaler: Scaler
    axes: Matrix
    varying: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        X: Floats,
        scale: str | None,
        given: Iterable[Metric] = (),
        row_weight: Vector | None = None,
    ) -> RowSpan | None:
        """Find the span of rows, and of the directions in which given metrics are special.

        Parameters
        ----------
        given: Metrics that a fit starts from or adds to.
        row_weight: shape (n_samples,). For the scale.

        Returns
        -------
        RowSpan or None
            None if that is not a smaller space.
        """
        scaler = Scaler.fit(X, scale, row_weight)
        Z = scaler.transform(X).astype(np.float64, copy=False)
        varying = np.asarray(np.ptp(Z, axis=0) > 0)
        Z -= Z.mean(axis=0)
        rows = [Z]
        for metric in given:
            special = _special_directions(metric, scaler, varying)
            if special is None:
                return None
            rows.append(special * (np.linalg.norm(Z) / (np.linalg.norm(special) or 1.0)))
        points = np.vstack(rows)
        axes = axes_of_span(points)
        return cls(scaler, axes, varying) if axes.shape[1] < len(axes) else None

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.axes)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return self.axes.shape[1]

    @property
    def n_varying(self) -> int:
        """Number of features that vary."""
        return max(1, int(np.count_nonzero(self.varying)))

    def coordinates(self, X: Floats) -> Floats:
        """Return the coordinates of rows: one for each axis, and two that are 0."""
        coordinates = np.zeros((len(X), self.rank + 2), dtype=X.dtype)
        coordinates[:, : self.rank] = self.scaler.transform(X) @ self.axes.astype(
            X.dtype, copy=False
        )
        return coordinates

    def features_of(self, V: Matrix) -> Matrix:
        """Return rows of a map of coordinates as rows of a map of features."""
        return V[:, : self.rank] @ self.axes.T / self.scaler.scale

    def coordinates_of(self, V: Matrix) -> Matrix:
        """Return rows of a map of features as rows of a map of coordinates."""
        inside = (V * self.scaler.scale) @ self.axes
        return np.hstack([inside, np.zeros((len(V), 2))])

    def point(self, coordinates: Vector) -> Vector:
        """Return the features of a point in the span."""
        return self.scaler.center + self.scaler.scale * (self.axes @ coordinates[: self.rank])

    def lift(self, metric: Metric, *, outside: bool = True) -> Metric:
        """Return a metric of coordinates as one of features.

        Parameters
        ----------
        outside: Whether directions outside of the span may have a weight.
        """
        L, r, scale = metric.L, self.rank, self.scaler.scale
        c, d = np.linalg.norm(L[:, r:], axis=0)
        votes = None if metric.votes is None else metric.votes.mapped(self.features_of)
        shared: Any = {"votes": votes, "unit_rows": self.scaler.unit_rows}
        if not outside or max(c, d) <= _NOTHING * np.linalg.norm(L):
            return Metric(signed(L[:, :r] @ self.axes.T) / scale, **shared)
        values, vectors = np.linalg.eigh(L[:, :r].T @ L[:, :r])
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        root[np.diag_indices(r)] -= c
        weights = np.where(self.varying, c, d) / scale
        return WideMetric(weights, self.axes, root @ self.axes.T / scale, **shared)

    def inside(self, metric: Metric) -> Matrix:
        """Return the map of a metric of features as one of coordinates."""
        if not isinstance(metric, WideMetric):
            return self.coordinates_of(metric.L)
        ends = metric.mapped((self.axes * self.scaler.scale[:, None]).T)
        L = np.zeros((self.rank + 2, self.rank + 2))
        L[: self.rank, : self.rank] = np.linalg.qr(ends.T, mode="r")
        for place, features in ((-2, self.varying), (-1, ~self.varying)):
            if features.any():
                L[place, place] = (metric.weights * self.scaler.scale)[features].mean()
        return L


def _special_directions(
    metric: Metric, scaler: Scaler, varying: NDArray[np.bool_]
) -> Matrix | None:
    """Return rows beyond whose span a metric treats scaled features alike, or None."""
    if len(metric.parts) > 1 or metric.feature_map is not None:
        return None
    if metric.n_features != len(scaler.scale):
        return None
    if not isinstance(metric, WideMetric):
        return metric.L * scaler.scale if len(metric.L) < metric.n_features else None
    weights = metric.weights * scaler.scale
    for features in (varying, ~varying):
        if features.any() and np.ptp(weights[features]) > _NOTHING * np.abs(weights).max():
            return None
    right = metric.B * scaler.scale
    return metric.U.T if lies_in_span(right, metric.U) else np.vstack([metric.U.T, right])
