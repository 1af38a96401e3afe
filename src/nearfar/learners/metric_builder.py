"""`MetricBuilder`: from what a solver learned to a metric in the units of X."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfar.metrics.kernel_map import KernelMap
from nearfar.metrics.metric import Metric
from nearfar.rows import Moments, Points, Rows
from nearfar.runtime.history import History
from nearfar.typing import Floats, Matrix, Vector


@dataclass(frozen=True)
class MetricBuilder:
    """Everything but the solver's result that the final metric depends on.

    Attributes
    ----------
    scale : array of shape (n_features,)
        One unit of the solver in units of X, for each feature.
    base : array of shape (rank, n_features) or None
        Factor of the metric that learned terms are added to, in the solver's units.
    covariance : array of shape (n_features, n_features) or None
        Covariance of the training points in the solver's units; needed to choose components.
    n_components : int or None
    feature_names : tuple of str or None
    kernel_map : KernelMap or None
        The map from points to the features that the metric is for.
    center : array of shape (n_features,)
        Centre of the scaled points, in units of X.
    unit_rows : bool
        Whether points are first divided by their length.
    shortest : bool
        Whether the map gets orthogonal rows, and no more than the rank of the metric. That costs
        an eigendecomposition, which metrics along a fit do without.
    """

    scale: Vector
    base: Matrix | None
    covariance: Matrix | None
    n_components: int | None
    feature_names: tuple[str, ...] | None
    center: Vector
    kernel_map: KernelMap | None = None
    unit_rows: bool = False
    shortest: bool = True

    def metric(self, history: History) -> Any:
        """Return the metric after the iterations; by default, that of the last one's factor."""
        factor = history[-1].factor
        assert factor is not None
        return self.build(factor)

    def build(self, learned: Matrix) -> Metric:
        """Add the base to a learned factor and return the metric in the units of X.

        With `n_components` the coordinates kept are the principal axes of the mapped training
        points: the best approximation of their distances in that many dimensions.
        """
        L = learned if self.base is None else np.vstack([self.base, learned])
        L = L if len(L) else np.zeros((1, L.shape[1]))
        if self.shortest:
            L = Metric.from_matrix(L.T @ L).L
        if self.n_components is not None and self.covariance is not None:
            axes = np.linalg.eigh(L @ self.covariance @ L.T)[1][:, ::-1]
            L = axes[:, : self.n_components].T @ L
        return Metric(
            L / self.scale,
            self.feature_names,
            kernel_map=self.kernel_map,
            unit_rows=self.unit_rows,
        )


def covariance_matrix(X: Points) -> Matrix:
    """Return the covariance of the columns."""
    if isinstance(X, Rows):
        return np.asarray(X.reduce(_scatter, Moments.of(X).mean)) / len(X)
    centered = X - X.mean(axis=0)
    return np.asarray(centered.T @ centered, dtype=np.float64) / len(X)


def _scatter(block: Floats, center: Vector) -> Matrix:
    centered = block - center
    return centered.T @ centered
