"""What learners that add rank-one terms have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from nearfar.learners.boosting.loop import NewTerms, Operator
from nearfar.learners.constraint_learner import WeightedPriorLearner
from nearfar.learners.declaration import learner
from nearfar.learners.problem import (
    FitInput,
    MetricBuilder,
    Problem,
    factor_on_scaled_points,
    prior_factor,
)
from nearfar.metrics.metric import Metric
from nearfar.runtime.history import History
from nearfar.typing import Matrix, Vector


@dataclass(frozen=True)
class Terms:
    """Rank-one terms of a metric, M = sum_t weights_t directions_t directions_t'.

    Attributes
    ----------
    directions : array of shape (n_terms, n_features)
    weights : array of shape (n_terms,)
    """

    directions: Matrix
    weights: Vector

    @classmethod
    def none(cls, n_features: int) -> Terms:
        """Return no terms."""
        return cls(np.empty((0, n_features)), np.empty(0))

    @classmethod
    def learned(cls, history: History, earlier: Terms) -> Terms:
        """Return the terms after the iterations, those of earlier fits first."""
        if len(history) == 0:
            return earlier
        last: NewTerms = history[-1].payload
        if last.factor is not None:
            return cls(last.factor, np.ones(len(last.factor)))
        new: list[NewTerms] = [iteration.payload for iteration in history]
        directions = np.concatenate([earlier.directions, *(each.directions for each in new)])
        if last.all_weights is not None:
            return cls(directions, last.all_weights)
        return cls(directions, np.concatenate([earlier.weights, *(each.weights for each in new)]))

    @property
    def factor(self) -> Matrix:
        """L with L'L = M, for weights that are not negative."""
        return np.sqrt(np.abs(self.weights))[:, None] * self.directions

    @property
    def trace(self) -> float:
        """Tr M."""
        return float((self.factor**2).sum())

    def in_units(self, scale: Vector) -> Terms:
        """Return the same terms, with unit vectors, for features multiplied by `scale`."""
        return self.mapped(lambda directions: directions / scale)

    def mapped(self, rows_of_map: Callable[[Matrix], Matrix]) -> Terms:
        """Return the same terms, with unit vectors, for the features that a function leads to."""
        directions = rows_of_map(self.directions)
        size = np.linalg.norm(directions, axis=1)
        unit_vectors = directions / np.where(size > 0, size, 1.0)[:, None]
        return Terms(unit_vectors, self.weights * size**2)


@dataclass(frozen=True)
class Assembly:
    """Builds metrics from rank-one terms.

    Attributes
    ----------
    earlier : Terms
        Terms of earlier fits, in the solver's units.
    """

    earlier: Terms

    def metric(self, history: History, builder: MetricBuilder) -> Any:
        """Return the base plus the terms."""
        return builder.build(self.terms(history).factor)

    def terms(self, history: History) -> Terms:
        """Return all terms after the iterations, in the solver's units."""
        return Terms.learned(history, self.earlier)


@dataclass(frozen=True)
class Start:
    """Where boosting starts, in the solver's units.

    Attributes
    ----------
    base : array of shape (rank, n_features) or None
        Factor of the metric that terms are added to: the prior, or a metric loaded from a file.
    earlier : Terms
        Terms of the last fit, if this one continues it.
    base_state, state : object
        The operator's states of the base alone, and with the earlier terms.
    """

    base: Matrix | None
    earlier: Terms
    base_state: Any
    state: Any

    @classmethod
    def of(cls, operator: Operator, base: Matrix | None, earlier: Terms) -> Start:
        """Find the operator's states of a base and earlier terms."""
        base_state = operator.start() if base is None else operator.state(base)
        start = cls(base, earlier, base_state, base_state)
        if len(earlier.weights) == 0:
            return start
        return replace(start, state=operator.state(start.factor))

    @property
    def factor(self) -> Matrix:
        """Factor of the base with the earlier terms; without rows if there are none."""
        own = self.earlier.factor
        return own if self.base is None else np.vstack([self.base, own])

    def on_base(self, base: Matrix | None, operator: Operator) -> Start:
        """Return the same metric as terms on another base, as far as it exceeds it."""
        M = self.factor.T @ self.factor
        values, vectors = np.linalg.eigh(M if base is None else M - base.T @ base)
        kept = values > np.finfo(float).eps * np.abs(values).max()
        return Start.of(operator, base, Terms(vectors[:, kept].T, values[kept]))


class BoostingProblem(Problem):
    """Base of the boosting problems: a `start`, and terms that are added to it."""

    keeps_payloads = True
    start: Start

    @property
    def assembly(self) -> Assembly:
        """What builds the metric."""
        return Assembly(self.start.earlier)

    def metric(self, history: History, builder: MetricBuilder) -> Any:
        """Return the base plus the terms."""
        return self.assembly.metric(history, builder)

    def attributes(self, history: History, builder: MetricBuilder) -> dict[str, Any]:
        """Directions and weights in the units of X."""
        terms = self.assembly.terms(history).mapped(builder.rows_of_map)
        return {
            "directions_": terms.directions,
            "weights_": terms.weights,
            "_assembly": self.assembly,
        }

    def resume_state(self, history: History, builder: MetricBuilder) -> Any:
        """Factor of the base, and the terms, in the units of X."""
        base = None if self.base is None else self.base / builder.scale
        return base, self.assembly.terms(history).in_units(builder.scale)

    def warning_message(self, history: History, metric: Any) -> str:
        """Warn where nothing is learned, unless the prior is a metric already."""
        if len(history) or self.start.base is not None or len(self.start.earlier.weights):
            return ""
        return "Nothing was learned: no direction lowers the objective."


@learner
class BoostingLearner(WeightedPriorLearner):
    """Base of the boosting learners."""

    rotates: ClassVar[bool] = True

    def staged_metrics(self) -> Iterator[Metric]:
        """Yield the metric after each iteration of the last fit, with its shrinkage.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from nearfar import BoostMetric
        >>> learner = BoostMetric(max_iter=3, prior=None).fit(*load_iris(return_X_y=True))
        >>> [metric.n_components for metric in learner.staged_metrics()]
        [1, 2, 3]
        """
        check_is_fitted(self)
        for number in range(1, len(self.history_) + 1):
            metric = self._assembly.metric(self.history_[:number], self._builder)
            if self._shrinkage is not None:
                metric = self._shrinkage.apply(metric)
            yield self._builder.lift(metric)

    def _start(self, operator: Operator, data: FitInput) -> Start:
        """Start from the prior, or where the last fit ended."""
        if data.warm is not None:
            return warm_start(operator, data)
        prior, none = (
            prior_factor(self.prior, self.prior_weight, data.scaler),
            Terms.none(len(operator)),
        )
        if prior is None:
            return Start(None, none, operator.start(), operator.start())
        given = prior if isinstance(self.prior, Metric) else None
        state, factor = operator.prior_state(given, self.prior_weight)
        return Start(np.sqrt(factor) * prior, none, state, state)


def warm_start(operator: Operator, data: FitInput) -> Start:
    """Continue the last fit; a metric that was loaded takes the place of the prior."""
    assert data.warm is not None
    scale = data.scaler.scale * np.sqrt(operator.unit)
    base: Matrix | None
    earlier = Terms.none(len(operator))
    if data.warm.state is None:
        base = factor_on_scaled_points(data.warm.metric, data.scaler, "metric to continue from")
        base = base * np.sqrt(operator.unit)
    else:
        base, terms = data.warm.state
        base = None if base is None else base * scale
        earlier = terms.in_units(1.0 / scale)
    return Start.of(operator, base, earlier)
