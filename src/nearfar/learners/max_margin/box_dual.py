"""The dual of the max-margin problem with one multiplier per pair, for few pairs.

For a_k in [0, C p_k]:

    max  sum_k a_k + 1/2 |P|^2 - 1/2 |A|^2 - 1/2 b^2
    A = [P - sum_k a_k y_k u_k u_k']+,    b = sum_k a_k y_k
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nearfar.learners.max_margin.pair_operator import Solution
from nearfar.learners.max_margin.psd_split import PsdSplit
from nearfar.numerics.lbfgs import Bounds, lbfgs
from nearfar.runtime.history import Iteration, Iterations
from nearfar.typing import Vector

if TYPE_CHECKING:
    from nearfar.learners.max_margin.max_margin_metric import MaxMarginObjective


def ascend_box(
    problem: MaxMarginObjective, *, max_iter: int, shares: Vector | None = None
) -> Iterations:
    """Maximise the dual by L-BFGS within bounds.

    Parameters
    ----------
    problem : MaxMarginObjective
    max_iter : int
    shares : array of shape (n_pairs,), optional
        Multipliers to start from, as shares of their bounds; by default 0.
    """
    pairs, C, P = problem.pairs, problem.C, problem.P
    top = C * pairs.p
    evaluated: tuple[Vector, float, Solution] | None = None

    def evaluate(share: Vector) -> tuple[float, Solution]:
        nonlocal evaluated
        if evaluated is None or not np.array_equal(evaluated[0], share):
            a = share * top
            b = float(a @ pairs.y)
            solution = problem.solution(PsdSplit.of(P - pairs.gram(a * pairs.y)), b)
            value = a.sum() + 0.5 * ((P**2).sum() - (solution.A**2).sum() - b * b)
            evaluated = share.copy(), float(value), solution
        return evaluated[1:]

    def negative_dual(share: Vector) -> tuple[float, Vector]:
        value, solution = evaluate(share)
        return -value, -top * (1.0 - pairs.margins(solution))

    best: Iteration | None = None
    bounds: Bounds = [(0.0, 1.0)] * len(top)
    share = np.zeros(len(top)) if shares is None else shares
    lower, number = -np.inf, 0
    while number < max_iter:
        before = lower
        left = max_iter - number
        steps: Any = lbfgs(negative_dual, share, max_iter=left, tol=0.0, bounds=bounds, memory=20)
        for _, share in steps:
            value, solution = evaluate(share)
            objective = problem.objective(solution)
            lower, number = max(lower, value), number + 1
            if best is None or objective < best.objective:
                best = Iteration(objective, threshold=solution.b, model=(solution, share))
            best = replace(best, gap=best.objective - lower)
            yield best
            if problem.certified(best.objective, lower):
                return "converged"
            if number >= max_iter:
                break
        if lower <= before:
            return "stalled"
    return "max_iter"
