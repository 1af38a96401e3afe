"""`BoostingLearner`: what learners that add one rank-one term a round have in common."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from nearfar.learners.base import MetricLearner, Problem, Scaler
from nearfar.learners.boosting.loop import Operator
from nearfar.metrics.metric import Metric
from nearfar.runtime.history import History
from nearfar.typing import Matrix, Vector


class BoostingLearner(MetricLearner):
    """Base of the boosting learners."""

    def staged_metrics(self) -> Iterator[Metric]:
        """Yield the metric after each round, from one fit.

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
            yield self._result(self._builder, self.history_[:number])

    def _start(self, operator: Operator, scaler: Scaler) -> tuple[Any, Matrix | None]:
        """State to start from, and the weighted factor of the prior that it comes from."""
        prior = self._prior_factor(scaler)
        if prior is None:
            return operator.start(), None
        state, factor = operator.prior(
            prior if isinstance(self.prior, Metric) else None, self.prior_weight
        )
        return state, np.sqrt(factor) * prior

    def _factor(self, trace: History) -> tuple[Matrix, Vector]:
        directions, weights = self._terms(trace)
        return np.sqrt(np.abs(weights))[:, None] * directions, np.sign(weights)

    def _terms(self, trace: History) -> tuple[Matrix, Vector]:
        """Directions and their weights after the rounds, in the learner's units."""
        if len(trace) == 0:
            return np.empty((0, self.n_features_in_)), np.empty(0)
        last = trace[-1]
        if last.factor is not None:
            return last.factor, np.ones(len(last.factor))
        directions = np.array([r.direction for r in trace], dtype=np.float64)
        return directions, trace.step if last.mix is None else last.mix

    def _set_fitted_attributes(self, problem: Problem, trace: History) -> None:
        directions, weights = self._terms(trace)
        terms = directions / self._builder.scale
        size = np.linalg.norm(terms, axis=1)
        self.weights_ = weights * size**2
        self.directions_ = terms / np.where(size > 0, size, 1.0)[:, None]
        if len(trace) == 0 and self._expected_to_learn(problem):
            warnings.warn(
                f"Nothing was learned: no direction lowers {type(self).__name__}'s objective.",
                ConvergenceWarning,
                stacklevel=6,
            )

    def _expected_to_learn(self, problem: Problem) -> bool:
        """Whether no rounds at all deserve a warning: without a prior, there is no metric then."""
        return problem.prior is None
