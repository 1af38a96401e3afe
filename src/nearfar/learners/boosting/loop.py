"""The boosting loop: weigh the constraints, find the best direction, find its step, repeat.

    Operator   what the constraints are: weights, leading direction, the loss along it
    Rule       what the paper says: the step along a line, and when to stop
    boost      the loop, a generator of rounds

Whatever watches, stops or times a fit consumes the generator; `best_number_of_rounds` does.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Protocol

from nearfar.learners.boosting.triplet_operator import Cut, Line, TripletOperator
from nearfar.runtime.history import Iteration, Iterations
from nearfar.typing import Floats, Matrix, Vector


class Operator(Protocol):
    """Constraints over points, as the loop sees them; state and weights are the operator's own.

    Attributes
    ----------
    X : array of shape (n_samples, n_features)
        The points, in the operator's own order.
    unit : float
        The squared distance that counts as one.
    n_triplets : int
    total_weight : float
        Sum of the constraints' own weights: the loss at zero margins is its logarithm.
    """

    X: Floats
    unit: float
    n_triplets: int
    total_weight: float

    def start(self) -> Any:
        """State of no metric at all."""

    def prior(self, L: Matrix | None, weight: float) -> tuple[Any, float]:
        """State of a prior metric, and what its squared distances were multiplied by."""

    def weigh(self, state: Any) -> tuple[float, Any]:
        """Loss at the state, and the weights that the constraints have there."""

    def top(self, u: Any, *, absolute: bool = False) -> tuple[float, Vector]:
        """Leading eigenvalue and eigenvector for the weights."""

    def along(self, state: Any, v: Vector) -> Line:
        """Return the loss along a direction."""

    def cut(self, state: Any, v: Vector, *, how: str, signed: bool) -> Cut:
        """Cut the squared lengths along a direction into small and large."""


class Rule(ABC):
    """What distinguishes one boosting method from another."""

    def direction(self, operator: Operator, u: Any) -> tuple[float, Vector]:
        """Find the direction of the round, and its eigenvalue."""
        return operator.top(u)

    def line(self, operator: Operator, state: Any, v: Vector) -> Any:
        """Restrict the problem to the direction."""
        return operator.along(state, v)

    @abstractmethod
    def step(self, line: Any, eigenvalue: float) -> tuple[float, bool]:
        """Step along the line, and whether it is the last that makes sense; 0 for none."""

    def objective(self, loss: float, total_step: float) -> float:
        """Value of what is minimised."""
        return loss

    @abstractmethod
    def no_direction_left(self, eigenvalue: float, v: Vector, previous: Vector | None) -> bool:
        """Whether the direction promises nothing any more."""

    @abstractmethod
    def done(self, loss: float, decrease: float) -> str:
        """Reason to stop after a round, or an empty string."""


def boost(operator: Operator, rule: Rule, state: Any, *, max_iter: int) -> Iterations:
    """Boost from a state until the rule or the number of rounds ends it.

    Parameters
    ----------
    operator : Operator
    rule : Rule
    state : object
        Where to start: ``operator.start()``, or the state of a prior.
    max_iter : int

    Yields
    ------
    Iteration

    Returns
    -------
    str
        Why it ended.
    """
    loss, u = operator.weigh(state)
    objective = rule.objective(loss, 0.0)
    total_step = 0.0
    previous = None
    for _ in range(max_iter):
        eigenvalue, v = rule.direction(operator, u)
        if rule.no_direction_left(eigenvalue, v, previous):
            return "converged"
        line = rule.line(operator, state, v)
        step, last, *sums = _step(rule, line, eigenvalue)
        if step == 0:
            return "converged"
        state, previous = line.advance(step, *sums), v
        total_step += step
        loss, u = operator.weigh(state)
        before, objective = objective, rule.objective(loss, total_step)
        threshold = line.threshold if isinstance(line, Cut) else None
        yield Iteration(objective, eigenvalue, step, direction=v, threshold=threshold)
        if last:
            return "separated"
        if reason := rule.done(loss, before - objective):
            return reason
    return "max_iter"


def _step(rule: Rule, line: Any, eigenvalue: float) -> tuple[Any, ...]:
    """Find the step, whether it is the last, and the sums after it."""
    step, last = rule.step(line, eigenvalue)
    return step, last, *(line.sums(step) if step else ())


def best_number_of_rounds(
    rounds: Iterations, held_out: TripletOperator, state: Vector, *, patience: int
) -> int:
    """Find after how many rounds most held-out triplets are satisfied.

    Parameters
    ----------
    rounds : generator of Iteration
        A solver that does not see the held-out triplets; it is stopped once they have gained
        nothing for `patience` rounds.
    held_out : TripletOperator
        The held-out triplets, over the same points and in the same units.
    state : array of shape (n_triplets,)
        Their margins before the first round.
    patience : int

    Returns
    -------
    int
        0 if no round is better than none; the smallest of equals.
    """
    margins, most, best = state, held_out.satisfied(state), 0
    for number, iteration in enumerate(rounds, start=1):
        if iteration.factor is not None:
            margins = state + held_out.factor_margins(iteration.factor)
        elif iteration.direction is not None:
            margins = margins + iteration.step * held_out.margins(iteration.direction)
        share = held_out.satisfied(margins)
        if share > most:
            most, best = share, number
        if number - best >= patience:
            rounds.close()
            break
    return best


def separation_threshold(total_weight: float) -> float:
    """Loss at which the triplets count as satisfied: 20 below that of zero margins."""
    return math.log(total_weight) - 20.0
