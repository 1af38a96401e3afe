"""`Problem`: what a learner solves, on checked and scaled input (`FitInput`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfar.learners.metric_builder import MetricBuilder
from nearfar.learners.scaler import Scaler
from nearfar.metrics.kernel_map import KernelMap
from nearfar.metrics.metric import Metric
from nearfar.rows import Points
from nearfar.runtime.history import History, Iterations
from nearfar.typing import Floats, Matrix


@dataclass(frozen=True)
class WarmStart:
    """Where a fit continues.

    Attributes
    ----------
    metric : Metric
        The metric of the last fit, or one that was loaded from a file.
    state : object or None
        What the problem of the last fit returned as `Problem.resume_state`; None for a metric that
        was loaded.
    """

    metric: Any
    state: Any = None


@dataclass(frozen=True)
class FitInput:
    """Checked and scaled input of a fit.

    Attributes
    ----------
    Z : array or Rows of shape (n_samples, n_features)
        Scaled points; Rows only for learners that accept them (`reads_rows`).
    scaler : Scaler
    supervision : array of class codes or numbers, Triplets, Pairs, or their `over` form
    random_state : RandomState
    warm : WarmStart or None
    """

    Z: Any
    scaler: Scaler
    supervision: Any
    random_state: np.random.RandomState
    warm: WarmStart | None

    @classmethod
    def scaled(
        cls,
        X: Points,
        scale: str | None,
        supervision: Any,
        random_state: np.random.RandomState,
        warm: WarmStart | None = None,
    ) -> FitInput:
        """Scale X."""
        scaler = Scaler.fit(X, scale)
        return cls(scaler.scaled(X), scaler, supervision, random_state, warm)


class Problem(ABC):
    """A learner's problem on scaled points.

    Attributes
    ----------
    max_iter : int
        The most iterations of `solve`.
    unit : float
        The squared distance between scaled points that the solver calls one.
    stops_early : bool
        Whether fewer iterations are a way to regularise.
    base : array of shape (rank, n_features) or None
        Factor of the metric that learned terms are added to, in the solver's units.
    features : array of shape (n_samples, n_map_features) or None
        What the solver sees instead of the scaled points, if there is a kernel map.
    kernel_map : KernelMap or None
        The map to these features, from points in the units of X.
    builder : type of MetricBuilder
        What turns iterations into a metric.
    """

    max_iter: int
    unit: float
    stops_early = True
    base: Matrix | None = None
    features: Floats | None = None
    kernel_map: KernelMap | None = None

    @abstractmethod
    def solve(self) -> Iterations:
        """Run the solver."""

    def builder(self, **parts: Any) -> MetricBuilder:
        """Return what turns iterations into a metric."""
        return MetricBuilder(**parts)

    def attributes(self, builder: MetricBuilder, history: History) -> dict[str, Any]:
        """Return the fitted attributes that the learner has beyond the common ones."""
        return {}

    def resume_state(self, builder: MetricBuilder, history: History) -> Any:
        """Return what a warm start needs beyond the metric."""
        return None

    def shortcoming(self, history: History, metric: Any) -> str:
        """Return what to warn of, or an empty string."""
        return ""

    def shrunk_attributes(self, metric: Metric, data: FitInput) -> dict[str, Any]:
        """Return the fitted attributes that change when the metric is shrunk to the prior."""
        return {}
