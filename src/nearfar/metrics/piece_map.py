"""`PieceMap`: each column in pieces, so that a linear map of them bends with the column.

With knots -inf = t_0 < t_1 < ... < t_q = inf, a column x becomes its ramps

    r_p(x) = clip(x, t_(p-1), t_p) - t_(p-1),    p = 2, ..., q,    r_1(x) = min(x, t_1) - t_1

which add up to x but for a constant. A linear map of the ramps is a sum of piecewise linear
functions of the columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfar.typing import Array, Floats, Matrix, Vector


@dataclass(frozen=True, eq=False)
class PieceMap:
    """Columns as ramps between their quantiles.

    Attributes
    ----------
    column : array of int of shape (n_components,)
        The column of each ramp.
    low, high : array of shape (n_components,)
        Where each ramp begins and ends; -inf and inf for the first and the last one of a column.
    center, scale : array of shape (n_features,)
        Points are first centred by `center` and divided by `scale`.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.metrics.piece_map import PieceMap
    >>> X = np.arange(5.0)[:, None]
    >>> PieceMap.fit(X, 2).transform(X)
    array([[-2.,  0.],
           [-1.,  0.],
           [ 0.,  0.],
           [ 0.,  1.],
           [ 0.,  2.]])
    """

    column: Array
    low: Vector
    high: Vector
    center: Vector
    scale: Vector

    kind = "pieces"

    def __post_init__(self) -> None:
        vars(self)["column"] = np.asarray(self.column).astype(np.intp)
        if not len(self.column) == len(self.low) == len(self.high) > 0:
            raise ValueError("A piece map needs a column and two ends for each ramp.")
        if not 0 <= self.column.min() <= self.column.max() < self.n_features:
            raise ValueError("The ramps of a piece map must be of its columns.")
        if len(self.scale) != self.n_features or not np.all(self.scale):
            raise ValueError("A piece map needs a scale for each column, which must not be zero.")
        for array in (self.column, self.low, self.high, self.center, self.scale):
            if np.isnan(array).any():
                raise ValueError("A piece map must have no missing values.")
            array.setflags(write=False)

    @classmethod
    def fit(cls, Z: Floats, n_pieces: int) -> PieceMap:
        """Put knots at quantiles; a column with few values gets fewer pieces, a constant none."""
        column, low, high = [], [], []
        shares = np.linspace(0, 1, n_pieces + 1)[1:-1]
        spread = np.ptp(Z, axis=0)
        for j in np.flatnonzero(spread) if spread.any() else [0]:
            values = Z[:, j]
            inner = np.unique(np.quantile(values, shares))
            inner = inner[(inner > values.min()) & (inner < values.max())]
            column += [j] * (len(inner) + 1)
            low += [-np.inf, *inner]
            high += [*inner, np.inf]
        center, scale = np.zeros(Z.shape[1]), np.ones(Z.shape[1])
        return cls(np.array(column), np.array(low), np.array(high), center, scale)

    @property
    def n_features(self) -> int:
        """Number of columns before the map."""
        return len(self.center)

    @property
    def n_components(self) -> int:
        """Number of ramps."""
        return len(self.column)

    @property
    def zero(self) -> Vector:
        """Where each ramp is zero: where it meets the one before it, or the next if it is first."""
        inner = np.where(np.isfinite(self.high), self.high, 0)
        return np.where(np.isfinite(self.low), self.low, inner)

    def transform(self, X: Floats) -> Floats:
        """Map points; the result is float32 if X is."""
        Z: Matrix = (np.asarray(X, dtype=np.float64) - self.center) / self.scale
        ramps = np.clip(Z[:, self.column], self.low, self.high) - self.zero
        return ramps.astype(X.dtype, copy=False)
