"""What learners that add rank-one terms have in common.

`partial_fit` fits a part as all data are, but its prior is the metric of the parts before. Trial
fits hold out some of the part to choose how many terms to add and how much of the metric so far to
keep. With N labels or constraints in the parts before and m in this one, that is at least
N / (N + m) of the mean squared distance: every part counts the same, and a few new triplets cannot
undo what many have taught.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.learners.boosting.loop import NewTerms, Operator, State
from nearfar.learners.constraint_learner import ConstraintLearner
from nearfar.learners.declaration import MaxRows, learner
from nearfar.learners.problem import (
    FitInput,
    MetricBuilder,
    Problem,
    factor_on_scaled_points,
    prior_factor,
)
from nearfar.metrics.metric import Metric
from nearfar.metrics.variants import SignedForm
from nearfar.runtime.history import History
from nearfar.typing import Matrix, Vector

# Share of a part that `partial_fit` holds out, as a fit does by default.
_HELD_OUT = 0.2


@dataclass(frozen=True)
class Terms:
    """Rank-one terms of a metric, M = sum_t weights_t directions_t directions_t'."""

    directions: Matrix
    weights: Vector

    @classmethod
    def none(cls, n_features: int) -> Terms:
        """Return no terms."""
        return cls(np.empty((0, n_features)), np.empty(0))

    @property
    def factor(self) -> Matrix:
        """L with L'L = M, for weights that are not negative."""
        return np.sqrt(np.abs(self.weights))[:, None] * self.directions

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
    earlier: Terms of earlier fits, in the solver's units.
    """

    earlier: Terms

    def metric(self, history: History, builder: MetricBuilder) -> Metric | SignedForm:
        """Return the base plus the terms."""
        return builder.build(self.terms(history).factor)

    def terms(self, history: History) -> Terms:
        """Return all terms after the iterations, those of earlier fits first."""
        earlier = self.earlier
        if len(history) == 0:
            return earlier
        last: NewTerms = history[-1].payload
        if last.factor is not None:
            return Terms(last.factor, np.ones(len(last.factor)))
        new = list(map(attrgetter("payload"), history.iterations))
        directions = [earlier.directions, *map(attrgetter("directions"), new)]
        weights = last.all_weights
        if weights is None:
            weights = np.concatenate([earlier.weights, *map(attrgetter("weights"), new)])
        return Terms(np.concatenate(directions), weights)


@dataclass(frozen=True)
class Start:
    """Where boosting starts, in the solver's units.

    Attributes
    ----------
    base: shape (rank, n_features). Factor of the metric that terms are added to: the prior,
        or a metric loaded from a file.
    earlier: Terms of the last fit, if this one continues it.
    base_state, state: The operator's states of the base alone, and with the earlier terms.
    """

    base: Matrix | None
    earlier: Terms
    base_state: State
    state: State

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
    assembly: Assembly

    def metric(self, history: History, builder: MetricBuilder) -> Metric | SignedForm:
        """Return the base plus the terms."""
        return self.assembly.metric(history, builder)

    def attributes(self, history: History, builder: MetricBuilder) -> dict[str, object]:
        """Directions and weights in the units of X."""
        terms = self.assembly.terms(history).mapped(builder.rows_of_map)
        return {
            "directions_": terms.directions,
            "weights_": terms.weights,
            "_assembly": self.assembly,
        }

    def resume_state(self, history: History, builder: MetricBuilder) -> object:
        """Factor of the base, and the terms, in the units of X."""
        base = None if self.base is None else self.base / builder.scale
        return base, self.assembly.terms(history).in_units(builder.scale)

    def warning_message(self, history: History, metric: Metric) -> str:
        """Warn where nothing is learned, unless the prior is a metric already."""
        if len(history) or self.start.base is not None or len(self.start.earlier.weights):
            return ""
        return "Nothing was learned: no direction lowers the objective."


@learner
class BoostingLearner(ConstraintLearner):
    """Base of the boosting learners."""

    prior_weight: float
    max_rows: MaxRows = "auto"

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
        nothing = Terms.none(len(operator))
        if data.warm is None:
            prior = prior_factor(self.prior, self.prior_weight, data.scaler)
            if prior is None:
                return Start(None, nothing, operator.start(), operator.start())
            own = prior if isinstance(self.prior, Metric) else None
            state, factor = operator.prior_state(own, self.prior_weight)
            return Start(np.sqrt(factor) * prior, nothing, state, state)
        scale = data.scaler.scale * np.sqrt(operator.unit)
        if data.warm.state is None:
            L = factor_on_scaled_points(data.warm.metric, data.scaler, "metric to continue from")
            return Start.of(operator, L * np.sqrt(operator.unit), nothing)
        base, terms = data.warm.state
        base = None if base is None else base * scale
        return Start.of(operator, base, terms.in_units(1.0 / scale))

    def _adds_to_a_metric(self) -> bool:
        """Whether `partial_fit` is possible: the result of a fit must be a metric to add to."""
        if self.variant == "paper":
            raise AttributeError("partial_fit adds to a prior, which variant='paper' has not.")
        return True


L = TypeVar("L", bound=BoostingLearner)


@available_if(lambda self: self._adds_to_a_metric())
def partial_fit(self: L, X: ArrayLike, y: object = None) -> L:
    """Update the metric with new rows and what is known of them.

    The first part is a `fit`. Later parts take the metric so far as the prior, with
    `prior_weight`, and add terms for their own constraints. Of every part, 20 % are held out to
    choose the number of terms and the share of the metric so far (`prior_share_`), or
    `validation_fraction` if it is a number; None holds out nothing. The share is at least that
    of the labels or constraints seen before among all so far.

    `directions_`, `weights_` and `history_` are those of the last part. After `fit`, learning
    continues from its metric.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        New rows.
    y : array-like of shape (n_samples,), Triplets or Pairs
        What is known of them.

    Returns
    -------
    self

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import BoostMetric
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = BoostMetric(max_iter=20)
    >>> for part in (slice(0, 178, 2), slice(1, 178, 2)):
    ...     learner = learner.partial_fit(X[part], y[part])
    >>> learner.score(X, y) > 0.95
    True
    """
    part = clone(self).set_params(warm_start=False)
    if self.validation_fraction == "auto":
        part.set_params(validation_fraction=_HELD_OUT)
        part._is_part = True
    if hasattr(self, "metric_"):
        validate_data(self, X, reset=False, skip_check_array=True)
        part.set_params(prior=self.metric_)
        part._n_before = self._n_known
    part.fit(X, y)
    parameters = self.get_params(deep=False)
    for name, value in vars(part).items():
        if name not in parameters and name not in ("_n_before", "_is_part"):
            setattr(self, name, value)
    return self
