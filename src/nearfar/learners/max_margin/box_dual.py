"""Duals over a box, with one multiplier per constraint.

The dual of a problem with a hinge for each constraint k has multipliers  0 <= a_k <= top_k,  the
weights of the hinges, and is smooth if the rest of the problem is strongly convex. Every a has a
solution of the primal problem that belongs to it; the objective of that and the value of the dual
are bounds of the optimum.

`PsdSplit`: a symmetric matrix as its positive and its other part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from nearfar.numerics.optimizers import Bounds, lbfgs
from nearfar.runtime.history import Iteration, Iterations
from nearfar.typing import Matrix, Vector


@dataclass(frozen=True)
class PsdSplit:
    """A symmetric matrix by its eigenvalues: what is positive, and what is not.

    Attributes
    ----------
    values: shape (n,). All eigenvalues, rising.
    """

    values: Vector
    vectors: Matrix

    @classmethod
    def of(cls, Q: Matrix) -> PsdSplit:
        """Decompose a symmetric matrix."""
        return cls(*np.linalg.eigh(Q))

    @property
    def is_negative(self) -> bool:
        """Whether no eigenvalue is positive, beyond rounding."""
        rounding = len(self.values) * np.finfo(float).eps * np.abs(self.values).max(initial=0.0)
        return bool((self.values <= rounding).all())

    @property
    def factor(self) -> Matrix:
        """L with L'L = [Q]+, one row for each positive eigenvalue."""
        kept = self.values > 0
        return np.sqrt(self.values[kept])[:, None] * self.vectors[:, kept].T

    @property
    def positive(self) -> Matrix:
        """[Q]+."""
        L = self.factor
        return L.T @ L

    def curvature(self, directions: Matrix) -> Matrix:
        """Return <G_i, D[G_j]> for directions G, with D the derivative of [.]+ at Q.

        D multiplies the entry (a, b) in the basis of eigenvectors by 1 if both eigenvalues are
        positive, by 0 if both are not, else by l_a / (l_a - l_b). The smaller side is computed:
        [Q]+ and [-Q]+ have derivatives that add to one.
        """
        n = len(self.values)
        side = self.values > 0
        small = side if 2 * side.sum() <= n else ~side
        flat = directions.reshape(len(directions), -1)
        whole = None if small is side else flat @ flat.T
        if not small.any():
            return np.zeros((len(flat), len(flat))) if whole is None else whole
        inside, outside = self.vectors[:, small], self.vectors[:, ~small]
        front = np.matmul(inside.T, directions)
        both = np.matmul(front, inside).reshape(len(flat), -1)
        mixed = np.matmul(front, outside).reshape(len(flat), -1)
        own, other = np.abs(self.values[small]), np.abs(self.values[~small])
        share = own[:, None] / np.maximum(own[:, None] + other, np.finfo(float).tiny)
        part = both @ both.T + 2 * (mixed * share.ravel()) @ mixed.T
        return part if whole is None else whole - part


# How far an objective may be below a bound, relative to it, by rounding alone.
_ROUNDING = 1e-6

S = TypeVar("S")
"""A solution of the primal problem."""

Dual = Callable[[Vector], tuple[float, Vector, S]]
"""Multipliers -> the value of the dual, its gradient, and the solution that belongs to them."""


def certified(objective: float, lower: float, tol: float) -> bool:
    """The stopping rule: an objective is near enough to a lower bound, and not below it."""
    return -_ROUNDING * objective <= objective - lower <= tol * objective


def ascend_box(
    dual: Dual[S],
    objective: Callable[[S], float],
    top: Vector,
    tol: float,
    max_iter: int,
    shares: Vector | None = None,
) -> Iterations:
    """Maximise a dual by L-BFGS within bounds.

    Parameters
    ----------
    objective: Solution -> the objective of the primal problem.
    top: shape (n_constraints,). Largest multipliers.
    tol: Gap to end at, relative to the objective.
    shares: shape (n_constraints,). Multipliers to start from, as shares of their bounds; by
        default 0.
    """
    evaluated: tuple[Vector, tuple[float, Vector, S]] | None = None

    def evaluate(share: Vector) -> tuple[float, Vector, S]:
        nonlocal evaluated
        if evaluated is None or not np.array_equal(evaluated[0], share):
            evaluated = share.copy(), dual(share * top)
        return evaluated[1]

    def negative_dual(share: Vector) -> tuple[float, Vector]:
        value, gradient, _ = evaluate(share)
        return -value, -top * gradient

    best: Iteration | None = None
    bounds: Bounds = [(0.0, 1.0)] * len(top)
    share = np.zeros(len(top)) if shares is None else shares
    lower, number = -np.inf, 0
    # Rounding may end L-BFGS early; it begins anew as long as that raises the lower bound.
    while number < max_iter:
        before, left = lower, max_iter - number
        steps = lbfgs(negative_dual, share, max_iter=left, tol=0.0, bounds=bounds, memory=20)
        for _, share in steps:
            value, _, solution = evaluate(share)
            upper = objective(solution)
            lower, number = max(lower, value), number + 1
            if best is None or upper < best.objective:
                best = Iteration(upper, payload=solution)
            best = replace(best, gap=best.objective - lower)
            yield best
            if certified(best.objective, lower, tol):
                return "converged"
            if number >= max_iter:
                break
        if lower <= before:
            return "stalled"
    return "max_iter"
