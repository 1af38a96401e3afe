"""What learners that optimise a map L by gradients share, whatever their objective."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from nearfar.learners.base import MetricLearner
from nearfar.learners.declaration import Init, learner
from nearfar.learners.problem import FitInput, Problem
from nearfar.learners.row_span import RowSpan
from nearfar.learners.starting_map import (
    given_map,
    named_map,
    prefers_lda,
    principal_axes,
)
from nearfar.metrics.metric import Metric
from nearfar.rows import Points, column_ranges, column_variances
from nearfar.runtime.history import History
from nearfar.typing import Matrix

EXACT_ROWS = 1000
"""Up to this number of points, sums over pairs are in the precision of X, else in float32."""

_UNIT_VARIANCE_TOLERANCE = 1e-6


class MapProblem(Problem):
    """Base of the problems over maps; the payload of an iteration is the map."""

    fixed_iterations = False
    """Whether the number of iterations is part of the method."""

    def warning_message(self, history: History, metric: Metric) -> str:
        """Warn where the objective has not settled."""
        if history.stopped == "max_iter" and not self.fixed_iterations:
            return f"max_iter={self.max_iter} was reached before the objective settled to tol."
        return ""


@learner
class MapLearner(MetricLearner):
    """Base of the learners that optimise a map, from `init` on."""

    warm_start: bool = False
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    verbose: int = 0
    max_iter: int
    init: Init = "identity"
    tol: float = 1e-4

    local_metrics: ClassVar[bool] = False
    """Whether the learner may begin with several metrics and a gate."""

    def _in_units(self, data: FitInput) -> tuple[Any, float]:
        """Return points with a mean variance of one, and the variance they were divided by.

        Many points are converted to float32, in which sums over pairs are accurate enough.
        """
        Z, span = data.Z, data.scaler.span
        if len(Z) > EXACT_ROWS:
            Z = Z.astype(np.float32, copy=False)
        variance = column_variances(Z)
        varying = np.count_nonzero(variance) if span is None else span.n_varying
        mean = float(variance.sum() / max(1, varying))
        if self.scale is None or mean == 0 or abs(mean - 1) < _UNIT_VARIANCE_TOLERANCE:
            return Z, 1.0
        return Z / Z.dtype.type(np.sqrt(mean)), mean

    def _first_map(self, Z: Points, data: FitInput, unit: float) -> Matrix:
        """Return where to begin: the last fit, or `init`.

        What a word stands for has |M|_F = 1, or the share of that which `n_components` leave.
        """
        given = self.init if data.warm is None else data.warm.metric
        if isinstance(given, Metric) and (len(given.parts) == 1 or not self.local_metrics):
            L = given_map(given, data, self.n_components)
            L = L * np.sqrt(unit)
        elif given in ("lda", "random") or (
            given == "auto" and prefers_lda(self.n_components, data)
        ):
            L = named_map(given, Z, data, self.n_components)
            share = len(L) / max(1, int(np.count_nonzero(column_ranges(Z))))
            return np.asarray(L * share**0.25 / np.sqrt(np.linalg.norm(L @ L.T)))
        else:
            L = self._identity(Z, data.scaler.span)
        if self.n_components is None or self.n_components >= len(L):
            return L
        return principal_axes(L, Z)[: self.n_components]

    def _identity(self, Z: Points, span: RowSpan | None) -> Matrix:
        """Return the identity with |M|_F = 1 on features that vary."""
        L = np.eye(Z.shape[1])
        if span is not None:
            return L[: span.rank + self._keeps_outside()] / span.n_varying**0.25
        varying = column_ranges(Z) > 0
        return L[varying] / varying.sum() ** 0.25 if varying.any() else L

    def _keeps_outside(self) -> bool:
        """Whether the first map stays where points do not differ; a penalty makes it vanish."""
        return True
