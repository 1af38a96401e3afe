"""`RowSpan`: fewer rows than features, as coordinates of the space that the rows span.

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

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.learners.scaler import Scaler
from nearfar.metrics.metric import Metric
from nearfar.metrics.variants import WideMetric
from nearfar.numerics.linear_algebra import axes_of_span, lies_in_span, signed
from nearfar.typing import Floats, Matrix, Vector

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
        last: RowSpan | None = None,
        row_weight: Vector | None = None,
    ) -> RowSpan | None:
        """Find the span of rows, and of the directions in which given metrics are special.

        Parameters
        ----------
        given: Metrics that a fit starts from or adds to.
        last: That of the last fit, which is kept if it holds these rows and metrics too.
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
        if last is not None and last.scaler.same_as(scaler) and lies_in_span(points, last.axes):
            return last
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
    if len(metric.parts) > 1 or metric.kernel_map is not None:
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
