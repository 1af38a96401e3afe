"""What learners that optimise a map L by gradients share, whatever their objective."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from nearfar.learners.base import MetricLearner
from nearfar.learners.declaration import learner
from nearfar.learners.problem import FitInput, Problem, factor_on_scaled_points
from nearfar.learners.shared_parameters import Iterative, Texts
from nearfar.metrics.metric import Metric
from nearfar.rows import Points, column_ranges, column_variances, gram
from nearfar.runtime import parameters
from nearfar.runtime.history import History
from nearfar.runtime.parameters import choice, either, instance, integer, number, optional
from nearfar.typing import Matrix

Init = Literal["identity"] | Metric

EXACT_ROWS = 1000
"""Up to this number of points, fits run in the precision of X and to a small tolerance."""

_LOOSE_TOLERANCE = 1e-3
_UNIT_VARIANCE_TOLERANCE = 1e-6


class MapProblem(Problem):
    """Base of the problems over maps; the payload of an iteration is the map."""

    fixed_iterations = False
    """Whether the number of iterations is part of the method."""

    def warning_message(self, history: History, metric: Any) -> str:
        """Warn where the objective has not settled."""
        if history.stopped == "max_iter" and not self.fixed_iterations:
            return f"max_iter={self.max_iter} was reached before the objective settled to tol."
        return ""


@learner
class MapLearner(Iterative, MetricLearner):
    """Base of the learners that optimise a map, from `init` on."""

    max_iter: int
    init: Init = "identity"
    tol: float | None = None

    parameter_docs: ClassVar[Texts] = {
        "init": (
            '{"identity"} or Metric',
            "Where to begin: Euclidean distance between scaled points, with |M|_F = 1, or a\n"
            "metric of your own.",
        ),
    }
    parameter_rules: ClassVar[dict[str, parameters.ParameterRule]] = {
        "tol": optional(number(at_least=0.0)),
        "max_iter": integer(at_least=1),
        "init": either(choice("identity"), instance(Metric, "a Metric")),
    }

    small_tol: ClassVar[float]
    """Default of `tol` for up to `EXACT_ROWS` points."""

    local_metrics: ClassVar[bool] = False
    """Whether the learner may begin with several metrics and a gate."""

    def _tolerance(self, n_rows: int) -> float:
        if self.tol is not None:
            return self.tol
        return self.small_tol if n_rows <= EXACT_ROWS else _LOOSE_TOLERANCE

    def _in_units(self, Z: Any) -> tuple[Any, float]:
        """Return points with a mean variance of one, and the variance they were divided by.

        Many points are converted to float32, in which sums over pairs are accurate enough.
        """
        if len(Z) > EXACT_ROWS:
            Z = Z.astype(np.float32, copy=False)
        variance = column_variances(Z)
        mean = float(variance.sum() / max(1, np.count_nonzero(variance)))
        if self.scale is None or mean == 0 or abs(mean - 1) < _UNIT_VARIANCE_TOLERANCE:
            return Z, 1.0
        return Z / Z.dtype.type(np.sqrt(mean)), mean

    def _first_map(self, Z: Points, data: FitInput, unit: float) -> Matrix:
        """Return where to begin: the last fit, `init`, or the identity with |M|_F = 1."""
        given = self.init if data.warm is None else data.warm.metric
        if isinstance(given, Metric) and (len(given.parts) == 1 or not self.local_metrics):
            L = factor_on_scaled_points(given, data.scaler, "metric to begin with")
            L = L * np.sqrt(unit)
        else:
            varying = column_ranges(Z) > 0
            L = np.eye(Z.shape[1])
            if varying.any():
                L = L[varying] / varying.sum() ** 0.25
        if self.n_components is None or self.n_components >= len(L):
            return L
        covariance = gram(Z) / len(Z)
        axes = np.linalg.eigh(L @ covariance @ L.T)[1][:, ::-1]
        return np.asarray(axes[:, : self.n_components].T @ L)
