"""The boosting loop: weigh the constraints, find the best direction, find its step, repeat.

Operator   the constraints: their loss and weights, the leading direction, the loss along it
Rule       the method: the step along a line, and when to stop
boost      the loop, a generator of iterations
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy.optimize import nnls

from nearfar.learners.boosting.triplet_operator import Line, ThresholdedLine
from nearfar.numerics.linear_algebra import leading_block
from nearfar.runtime.history import Iteration, Iterations
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


class BlockOperator(Protocol):
    """An operator that can look along several directions at once."""

    def evaluate(self, L: Matrix, about: Any = None) -> tuple[float, Weights, Matrix]:
        """Return loss, weights u and A(u) of the metric L'L."""

    def curvature(self, u: Weights, V: Matrix, values: Vector) -> Matrix:
        """Return the covariance of the margins along the rows of V, whose means are `values`."""


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


def boost(
    operator: Operator, rule: Rule, state: State, *, max_iter: int, trace: float = 0.0
) -> Iterations:
    """Boost from a state until the rule or the number of iterations ends it.

    Parameters
    ----------
    state: Where to start.
    trace: Trace of the terms that the state has already.

    Returns
    -------
    str
        Why it ended.
    """
    loss, u = operator.loss_and_weights(state)
    objective = loss + rule.v * trace
    previous = None
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
    operator: BlockOperator, rule: Rule, L: Matrix, *, block_size: int, max_iter: int
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
