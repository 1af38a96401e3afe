"""`Scaler`: the units that learners work in, so that results do not depend on the units of X."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.preprocessing import StandardScaler

from nearfar.metrics.metric import Metric
from nearfar.metrics.points import unit_length
from nearfar.rows import Moments, Points, Rows
from nearfar.typing import Floats, Matrix, Vector

if TYPE_CHECKING:
    from nearfar.learners.row_span import RowSpan

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

    def same_as(self, other: Scaler) -> bool:
        """Return whether another scaler has the same units."""
        return self.unit_rows == other.unit_rows and np.array_equal(self.scale, other.scale)

    @property
    def euclidean(self) -> Metric:
        """Euclidean distance in the learner's units, as a metric on X."""
        return Metric(np.diag(1.0 / self.scale), unit_rows=self.unit_rows)


def _sum_of_directions(block: Floats) -> Vector:
    return np.asarray(unit_length(block).sum(axis=0, dtype=np.float64))


def power_of_two(size: float) -> float:
    """Return the power of two next to `size`; dividing by it is exact."""
    return 2.0 ** min(1020, max(-1020, math.frexp(size)[1])) if size > 0 else 1.0
