"""`NeighborhoodLearner`: what learners from soft neighbours have in common."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nearfar.constraints.constraints import Chunklets, ConstraintsOver, Pairs, Triplets
from nearfar.constraints.strategies import NearestTriplets, TripletStrategy
from nearfar.learners.base import Floats, MetricLearner, Problem, Scaler, require_integer
from nearfar.metrics.gated import GatedMetric
from nearfar.metrics.metric import Metric
from nearfar.runtime.history import History
from nearfar.typing import Ints, Matrix

_STANDARD = 1e-6
_GONE = 1e-5
_SMALL = 1e-2


def without_nothing(L: Matrix, largest: float) -> Matrix:
    """Drop directions that the price of rank has taken away.

    Those whose squared length is next to nothing beside `largest`, or beside where maps begin.
    """
    _, size, axes = np.linalg.svd(L, full_matrices=False)
    kept = size**2 > _GONE * max(largest, _SMALL)
    return np.asarray(size[kept, None] * axes[kept]) if kept.any() else np.zeros((1, L.shape[1]))


class NeighborhoodLearner(MetricLearner):
    """Base of the learners from soft neighbours; they need labels."""

    max_iter: int
    batch_size: int | None

    def _strategy(self) -> TripletStrategy:
        return self.constraints if self.constraints is not None else NearestTriplets()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_integer("max_iter", self.max_iter, at_least=1)
        if self.batch_size is not None:
            require_integer("batch_size", self.batch_size, at_least=2)

    def _labels(self, supervision: Any) -> Ints:
        """Class codes, or an error that says that they are needed."""
        if isinstance(supervision, Triplets | Pairs | Chunklets | ConstraintsOver):
            given = supervision
            if isinstance(given, ConstraintsOver):
                given = given.constraints  # type: ignore[assignment]
            raise ValueError(
                f"{type(self).__name__} learns from class labels; got {type(given).__name__}."
            )
        return np.asarray(supervision, dtype=np.intp)

    def _in_units(self, Z: Floats) -> tuple[Floats, float]:
        """Divide points by what makes their mean variance one; and its square, the unit."""
        variance = Z.var(axis=0, dtype=np.float64)
        mean = float(variance.sum() / max(1, np.count_nonzero(variance)))
        if self.scale is None or mean == 0 or abs(mean - 1) < _STANDARD:
            return Z, 1.0
        return Z / Z.dtype.type(np.sqrt(mean)), mean

    def _first_map(self, Z: Floats, scaler: Scaler, unit: float) -> Matrix:
        """Where to begin: the prior, or the identity with |M|_F = 1; its principal axes."""
        prior = self._prior_factor(scaler)
        if prior is not None:
            prior = prior * np.sqrt(unit)
        if prior is None or not isinstance(self.prior, Metric):
            varying = np.ptp(Z, axis=0) > 0
            if varying.any():
                prior = np.eye(Z.shape[1])[varying] / varying.sum() ** 0.25
            else:
                prior = np.eye(Z.shape[1])
        L = np.sqrt(self.prior_weight or 1.0) * prior
        if self.n_components is None or self.n_components >= len(L):
            return L
        covariance = np.asarray(Z.T @ Z, dtype=np.float64) / len(Z)
        axes = np.linalg.eigh(L @ covariance @ L.T)[1][:, ::-1]
        return np.asarray(axes[:, : self.n_components].T @ L)

    def _learned_anything(self) -> bool:
        metrics = self.metric_.metrics if isinstance(self.metric_, GatedMetric) else [self.metric_]
        return any(metric.L.any() for metric in metrics)

    def _fixed_steps(self) -> bool:
        """Whether the number of iterations is part of the method."""
        return False

    def _set_fitted_attributes(self, problem: Problem, trace: History) -> None:
        if not self._learned_anything():
            warnings.warn(
                "Nothing was learned: the price of rank leaves no direction.",
                ConvergenceWarning,
                stacklevel=5,
            )
        if trace.stopped == "max_iter" and self.batch_size is None and not self._fixed_steps():
            warnings.warn(
                f"max_iter={self.max_iter} was reached before the objective settled to tol.",
                ConvergenceWarning,
                stacklevel=5,
            )
