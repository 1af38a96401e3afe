"""Duals over a box, with one multiplier per constraint.

The dual of a problem with a hinge for each constraint k has multipliers  0 <= a_k <= top_k,  the
weights of the hinges, and is smooth if the rest of the problem is strongly convex. Every a has a
solution of the primal problem that belongs to it; the objective of that and the value of the dual
are bounds of the optimum.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from nearfar.numerics.lbfgs import Bounds, lbfgs
from nearfar.runtime.history import Iteration, Iterations
from nearfar.typing import Array, Vector

_ROUNDING = 1e-6
"""How far an objective may be below a bound, relative to it, by rounding alone."""


@dataclass(frozen=True, eq=False)
class DualPoint:
    """The dual at some multipliers.

    Attributes
    ----------
    value : float
    gradient : array of shape (n_constraints,)
    solution : object
        The solution of the primal problem that belongs to them.
    """

    value: float
    gradient: Vector
    solution: Any


class BoxProblem(Protocol):
    """A problem whose dual is over a box."""

    @property
    def tol(self) -> float:
        """Gap to end at, relative to the objective."""

    @property
    def top(self) -> Vector:
        """Largest multipliers."""

    def dual(self, a: Vector) -> DualPoint:
        """Return the dual at multipliers."""

    def objective(self, solution: Any) -> float:
        """Return the objective of the primal problem."""


def ascend_box(problem: BoxProblem, *, max_iter: int, shares: Vector | None = None) -> Iterations:
    """Maximise the dual by L-BFGS within bounds.

    Parameters
    ----------
    problem : BoxProblem
    max_iter : int
    shares : array of shape (n_constraints,), optional
        Multipliers to start from, as shares of their bounds; by default 0.
    """
    top = problem.top
    evaluated: tuple[Vector, DualPoint] | None = None

    def evaluate(share: Vector) -> DualPoint:
        nonlocal evaluated
        if evaluated is None or not np.array_equal(evaluated[0], share):
            evaluated = share.copy(), problem.dual(share * top)
        return evaluated[1]

    def negative_dual(share: Vector) -> tuple[float, Vector]:
        point = evaluate(share)
        return -point.value, -top * point.gradient

    best: Iteration | None = None
    bounds: Bounds = [(0.0, 1.0)] * len(top)
    share = np.zeros(len(top)) if shares is None else shares
    lower, number = -np.inf, 0
    while number < max_iter:
        before = lower
        left = max_iter - number
        steps = lbfgs(negative_dual, share, max_iter=left, tol=0.0, bounds=bounds, memory=20)
        for _, share in steps:
            point = evaluate(share)
            objective = problem.objective(point.solution)
            lower, number = max(lower, point.value), number + 1
            if best is None or objective < best.objective:
                best = Iteration(objective, payload=(point.solution, share))
            best = replace(best, gap=best.objective - lower)
            yield best
            if certified(best.objective, lower, problem.tol):
                return "converged"
            if number >= max_iter:
                break
        if lower <= before:
            return "stalled"
    return "max_iter"


def certified(objective: float, lower: float, tol: float) -> bool:
    """Whether an objective is near enough to a lower bound, and not below it."""
    return -_ROUNDING * objective <= objective - lower <= tol * objective


def digest(*parts: Array | float | None) -> bytes:
    """Identify the points and constraints that multipliers belong to."""
    content = hashlib.blake2b()
    for part in parts:
        content.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
    return content.digest()
