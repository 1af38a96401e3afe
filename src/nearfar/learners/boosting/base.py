"""The boosting loop: weigh the constraints, find the best direction, find its step, repeat.

Operator   the constraints: their loss and weights, the leading direction, the loss along it
Rule       the method: the step along a line, and when to stop
boost      the loop, a generator of iterations

Terms, their problem and their learner: what all methods share.

`partial_fit` fits a part as all data are, but its prior is the metric of the parts before. Trial
fits hold out some of the part to choose how many terms to add and how much of the metric so far to
keep. With N labels or constraints in the parts before and m in this one, that is at least
N / (N + m) of the mean squared distance: every part counts the same, and a few new triplets cannot
undo what many have taught.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.learners.base import ConstraintLearner
from nearfar.learners.boosting.all_triplets_operator import AllTripletsOperator
from nearfar.learners.boosting.triplet_operator import Line, ThresholdedLine
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
from nearfar.numerics.linear_algebra import leading_block
from nearfar.runtime.history import History, Iteration, Iterations
from nearfar.typing import Floats, Matrix, Vector

# Smallest curvature, relative to the largest; rounding can make it negative.
_RIDGE = 1e-9

# Cuts by four: a millionth of Newton's step that still does not help is no step.
_MAX_CUTS = 10

State: TypeAlias = Any
"""What an operator knows of the metric so far, for instance the margins of its constraints."""

Weights: TypeAlias = Any
"""Weights of the constraints, as the operator has them."""


class Operator(Protocol):
    """Constraints over points, as the loop sees them.

    States and weights are the operator's own.

    Attributes
    ----------
    X: shape (n_samples, n_features). The points, in the operator's own order.
    unit: The squared distance that counts as one.
    satisfied: Loss below which all constraints count as satisfied.
    """

    X: Floats
    unit: float
    n_triplets: int

    @property
    def satisfied(self) -> float:
        """Loss below which all constraints count as satisfied."""

    def __len__(self) -> int:
        """Return the number of features."""

    def start(self) -> State:
        """Return the state of no metric at all."""

    def state(self, L: Matrix) -> State:
        """Return the state of the metric L'L, in the operator's units."""

    def prior_state(self, L: Matrix | None, weight: float) -> tuple[State, float]:
        """Return the state of a prior, and the factor that its squared distances were given."""

    def loss_and_weights(self, state: State) -> tuple[float, Weights]:
        """Return the loss, and the weights that the constraints have in it."""

    def leading_eigenpair(self, u: Weights, *, absolute: bool = False) -> tuple[float, Vector]:
        """Return the leading eigenvalue and eigenvector of A(u)."""

    def line(self, state: State, v: Vector) -> Line:
        """Return the loss along a direction."""

    def thresholded_line(
        self, state: State, v: Vector, *, how: str, signed: bool
    ) -> ThresholdedLine:
        """Return the votes of squared lengths above and below a threshold."""

    def votes_state(self, directions: Matrix, alphas: Vector, thresholds: Vector) -> State:
        """Return the state of thresholded squared lengths, each with its weight."""


class Rule(ABC):
    """What distinguishes one boosting method from another.

    Attributes
    ----------
    psd: Whether directions are those of the largest eigenvalue, or of the largest absolute
        one.
    v: Penalty for a unit of trace.
    """

    psd: bool
    v: float

    def line(self, operator: Operator, state: State, v: Vector) -> Any:
        """Restrict the problem to the direction."""
        return operator.line(state, v)

    @abstractmethod
    def step(self, line: Any, eigenvalue: float) -> tuple[float, bool]:
        """Return the step along the line (0 for none), and whether it is the last."""

    @abstractmethod
    def no_direction_left(self, eigenvalue: float, v: Vector, previous: Vector | None) -> bool:
        """Return whether the direction promises nothing any more."""

    @abstractmethod
    def done(self, loss: float, decrease: float) -> str:
        """Return a reason to stop, or an empty string."""


@dataclass(frozen=True)
class NewTerms:
    """What an iteration of boosting adds.

    Attributes
    ----------
    directions: shape (n_new, n_features). Unit vectors.
    threshold: Threshold of a binary weak model.
    all_weights: shape (n_terms so far,). Weights of all terms, from solvers that reweigh
        them in each iteration.
    factor: shape (rank, n_features). The whole learned factor, from solvers that change all
        terms in each iteration.
    constraint_weights: shape (n_constraints,). Weights of the constraints after the
        iteration, if requested.
    """

    directions: Matrix
    weights: Vector
    threshold: float | None = None
    all_weights: Vector | None = None
    factor: Matrix | None = None
    constraint_weights: Vector | None = None


def boost(operator: Operator, rule: Rule, state: State, *, max_iter: int) -> Iterations:
    """Boost from a state until the rule or the number of iterations ends it.

    Parameters
    ----------
    state: Where to start.

    Returns
    -------
    str
        Why it ended.
    """
    loss, u = operator.loss_and_weights(state)
    objective, trace, previous = loss, 0.0, None
    for _ in range(max_iter):
        eigenvalue, v = operator.leading_eigenpair(u, absolute=not rule.psd)
        if rule.no_direction_left(eigenvalue, v, previous):
            return "converged"
        line = rule.line(operator, state, v)
        step, last = rule.step(line, eigenvalue)
        if step == 0:
            return "converged"
        state, previous, threshold = line.advance(step), v, line.threshold
        del line
        trace += step
        loss, u = operator.loss_and_weights(state)
        before, objective = objective, loss + rule.v * trace
        new = NewTerms(v[None], np.array([step]), threshold)
        yield Iteration(objective, eigenvalue, step=step, payload=new)
        if last:
            return "separated"
        if reason := rule.done(loss, before - objective):
            return reason
    return "max_iter"


def boost_in_blocks(
    operator: AllTripletsOperator, rule: Rule, L: Matrix, *, block_size: int, max_iter: int
) -> Iterations:
    """Boost with several directions per iteration: the leading eigenvectors of A(u).

    Their weights maximise the second-order model of the loss, all together and not negative
    (Newton's step). If the loss does not fall, the step is cut.

    Parameters
    ----------
    rule: Which directions count, and when to stop.
    L: shape (rank, n_features). Factor of the metric to start from.
    block_size: The most directions per iteration.
    """
    loss, u, A = operator.evaluate(L)
    for _ in range(max_iter):
        values, V = leading_block(A, block_size)
        kept = [
            not rule.no_direction_left(value, v, None) for value, v in zip(values, V, strict=True)
        ]
        values, V = values[kept], V[kept]
        if len(values) == 0:
            return "converged"
        w = _newton_weights(values, operator.curvature(u, V, values))
        for _ in range(_MAX_CUTS):
            grown = np.vstack([L, np.sqrt(w)[:, None] * V])
            new_loss, new_u, A = operator.evaluate(grown, u.sums)
            if new_loss < loss:
                break
            w = w / 4
        else:
            return "converged"
        before, loss, L, u = loss, new_loss, grown, new_u
        yield Iteration(loss, float(values[0]), step=float(w.sum()), payload=NewTerms(V, w))
        if reason := rule.done(loss, before - loss):
            return reason
    return "max_iter"


def _newton_weights(slopes: Vector, curvature: Matrix) -> Vector:
    """Maximise  slopes'w - w' curvature w / 2  over w >= 0."""
    values, vectors = np.linalg.eigh(curvature)
    smallest = max(_RIDGE * float(np.abs(values).max()), np.finfo(np.float64).tiny)
    size = np.sqrt(np.maximum(values, smallest))
    return nnls(size[:, None] * vectors.T, vectors.T @ slopes / size)[0]


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
        or the metric that a fit continues from.
    state: The operator's state of the base alone.
    earlier: Terms that are there already.
    """

    base: Matrix | None
    state: State
    earlier: Terms


def terms_beyond(L: Matrix, base: Matrix | None) -> Terms:
    """Return the metric L'L as terms on a base, as far as it exceeds that, the largest first."""
    M = L.T @ L
    values, vectors = np.linalg.eigh(M if base is None else M - base.T @ base)
    kept = values > len(values) * np.finfo(float).eps * np.trace(M)
    return Terms(vectors[:, kept].T[::-1], values[kept][::-1])


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
        """Start from the prior, or from the metric of the last fit."""
        nothing = Terms.none(len(operator))
        if data.warm is None:
            prior = prior_factor(self.prior, self.prior_weight, data.scaler)
            if prior is None:
                return Start(None, operator.start(), nothing)
            own = prior if isinstance(self.prior, Metric) else None
            state, factor = operator.prior_state(own, self.prior_weight)
            return Start(np.sqrt(factor) * prior, state, nothing)
        L = factor_on_scaled_points(data.warm, data.scaler, "metric to continue from")
        L = L * np.sqrt(operator.unit)
        return Start(L, operator.state(L), nothing)

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
    part._n_before = 0
    if hasattr(self, "metric_"):
        validate_data(self, X, reset=False, skip_check_array=True)
        part.set_params(prior=self.metric_)
        part._n_before = self._n_known
    part.fit(X, y)
    kept = self.get_params(deep=False).keys() | {"_n_before"}
    self.__dict__ |= {name: value for name, value in vars(part).items() if name not in kept}
    return self
