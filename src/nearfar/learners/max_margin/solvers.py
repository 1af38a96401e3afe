"""Two ways to the optimum of the max-margin problem, both with a certified gap.

`cut_planes` (many pairs): the mean hinge is the largest of all planes that touch it. A model of a
few of them is minimised, which gives a lower bound; where its minimum is, the next plane is added.
With a >= 0 the weights of the planes and sum a <= C, the model's dual is the problem's own, with
planes in place of pairs: one variable a plane, over a simplex. The best solution so far moves by an
exact line search toward the model's, and planes touch between the two.

`ascend_box` (few pairs): the dual itself, a multiplier for each pair, by L-BFGS within bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from nearfar.learners.max_margin.pair_problem import Cut, PairProblem, Solution, Split
from nearfar.numerics.lbfgs import Bounds, lbfgs
from nearfar.numerics.simplex import Point, maximize
from nearfar.runtime.history import Iteration, Iterations
from nearfar.runtime.recall_stub import recall
from nearfar.typing import Ints, Matrix, Vector

_TOUCH = 0.1
_IDLE_ROUNDS = 20
_MODEL_SHARE = 0.1
_LINE_TOLERANCE = 1e-4
_ROUNDING = 1e-6
_KEPT = 16


@dataclass(frozen=True)
class MaxMargin:
    """The problem with its price and its prior.

    Attributes
    ----------
    pairs : PairProblem
    C : float
    P : array of shape (n_features, n_features)
        Prior.
    tol : float
        Gap to end at, relative to the objective.
    """

    pairs: PairProblem
    C: float
    P: Matrix
    tol: float

    def penalty(self, A: Matrix, b: float) -> float:
        """Return the regularisation."""
        return 0.5 * float(((A - self.P) ** 2).sum()) + 0.5 * b * b

    def objective(self, solution: Solution) -> float:
        """Return the value of (3)."""
        return self.penalty(solution.A, solution.b) + self.C * self.pairs.mean_hinge(solution)

    def certified(self, objective: float, lower: float) -> bool:
        """Whether an objective is near enough to a lower bound, and not below it."""
        return -_ROUNDING * objective <= objective - lower <= self.tol * objective

    def solution(self, split: Split, b: float) -> Solution:
        """Return the positive part with its distances."""
        L = split.factor
        return Solution(L.T @ L, b, lambda: self.pairs.distances(L))

    def line_minimum(self, start: Solution, end: Solution) -> float:
        """Step from 0 to 1 that minimises the objective between two solutions."""
        dA, db = end.A - start.A, end.b - start.b
        quadratic = float((dA**2).sum()) + db * db
        linear = float((dA * (start.A - self.P)).sum()) + db * start.b
        margin = self.pairs.margins(start)
        change = self.pairs.margins(end) - margin

        def slope(t: float) -> float:
            active = margin + t * change < 1.0
            return linear + t * quadratic - self.C * float(self.pairs.p[active] @ change[active])

        low, high = 0.0, 1.0
        at_low, at_high = slope(low), slope(high)
        if at_low >= 0:
            return 0.0
        if at_high <= 0:
            return 1.0
        while high - low > _LINE_TOLERANCE:
            share = min(0.9, max(0.1, at_low / (at_low - at_high)))
            middle = low + share * (high - low)
            value = slope(middle)
            if value > 0:
                high, at_high = middle, value
            else:
                low, at_low = middle, value
        return low


class Model:
    """The largest of a few planes in place of the mean hinge.

    Weights alpha are in the simplex; the first belongs to the plane 0, which is always there.
    """

    def __init__(self, problem: MaxMargin, planes: list[Cut]) -> None:
        self.problem = problem
        n = problem.pairs.n_features
        self.planes = [Cut(np.zeros((n, n)), 0.0, 0.0), *planes]
        self.idle = np.zeros(len(self.planes), dtype=int)
        self.alpha = np.zeros(len(self.planes))
        self.alpha[0] = 1.0

    def add(self, plane: Cut) -> None:
        """Add a plane, and forget those that have long had no weight."""
        self.idle = np.where(self.alpha > 0, 0, self.idle + 1)
        kept = self.idle < _IDLE_ROUNDS
        kept[0] = True
        self.planes = [p for p, keep in zip(self.planes, kept, strict=True) if keep] + [plane]
        self.idle = np.append(self.idle[kept], 0)
        self.alpha = np.append(self.alpha[kept], 0.0)

    def minimize(self, tol: float) -> tuple[float, Split, float]:
        """Return the model's minimum to a tolerance (from below), and where it is."""
        C, P = self.problem.C, self.problem.P
        G = np.array([plane.G for plane in self.planes])
        flat = G.reshape(len(G), -1)
        slopes = np.array([plane.slope_b for plane in self.planes])
        offsets = np.array([plane.offset for plane in self.planes])

        def where(alpha: Vector) -> tuple[Split, float]:
            a = C * alpha
            return Split.of(P - (a @ flat).reshape(P.shape)), float(a @ slopes)

        def dual(alpha: Vector) -> Point:
            split, b = where(alpha)
            A = split.positive
            value = C * (alpha @ offsets) + 0.5 * ((P**2).sum() - (A**2).sum() - b * b)

            def curvature(rows: Ints) -> Matrix:
                s = slopes[rows]
                return C * C * (split.curvature(G[rows]) + np.outer(s, s))

            return Point(float(value), C * (offsets - slopes * b + flat @ A.ravel()), curvature)

        def highest() -> tuple[Vector, float]:
            alpha, point = maximize(dual, self.alpha, tol=tol)
            return alpha, point.value

        self.alpha, value = recall("weights of planes", highest, given=tol)
        return value, *where(self.alpha)


def cut_planes(problem: MaxMargin, *, max_iter: int, planes: list[Cut] | None = None) -> Iterations:
    """Minimise by cutting planes.

    Parameters
    ----------
    problem : MaxMargin
    max_iter : int
        The most planes to add.
    planes : list of Cut, optional
        Planes of an earlier run on the same pairs, whatever its C; new ones are appended to it.
    """
    planes = [] if planes is None else planes
    model = Model(problem, planes)
    best = problem.solution(Split.of(problem.P), 0.0)
    objective = problem.objective(best)
    if not planes:
        model.add(_add(planes, problem.pairs.cut(best)))
    lower = 0.0
    for number in range(1, max_iter + 1):
        found, split, b = model.minimize(_MODEL_SHARE * problem.tol * objective)
        lower = max(lower, found)
        candidate = problem.solution(split, b)
        best = _moved(problem, best, candidate, found, keep=number % _KEPT == 0)
        judge = partial(_judge, problem, candidate, best)
        value, objective = recall("objectives", judge, given=best.b)
        ended = problem.certified(value, lower)
        if ended:
            best, objective = candidate, value
        yield Iteration(
            objective,
            objective - lower,
            float(model.alpha.max()),
            threshold=best.b,
            factor=split.factor if ended else Split.of(best.A).factor,
        )
        if ended:
            return "converged"
        close = problem.certified(objective, lower)
        touch = best.toward(candidate, 1.0 if close else _TOUCH)
        model.add(_add(planes, problem.pairs.cut(touch)))
    return "max_iter"


def _moved(
    problem: MaxMargin, best: Solution, candidate: Solution, found: float, *, keep: bool
) -> Solution:
    """Move to the best solution on the way to a candidate.

    Some solutions' distances are kept in the journal, so that only those after it are measured
    again when a fit is resumed.
    """
    (step,) = recall("step", lambda: (problem.line_minimum(best, candidate),), given=found)
    moved = best.toward(candidate, step)
    if not keep:
        return moved
    (z,) = recall("distances", lambda: (moved.z,), given=moved.b)
    return Solution(moved.A, moved.b, lambda: z)


def _judge(problem: MaxMargin, candidate: Solution, best: Solution) -> tuple[float, float]:
    return problem.objective(candidate), problem.objective(best)


def _add(planes: list[Cut], plane: Cut) -> Cut:
    planes.append(plane)
    return plane


def ascend_box(problem: MaxMargin, *, max_iter: int) -> Iterations:
    """Maximise the dual over a multiplier for each pair, within bounds."""
    pairs, C, P = problem.pairs, problem.C, problem.P
    top = C * pairs.p

    def at(share: Vector) -> tuple[float, Solution, Split]:
        a = share * top
        b = float(a @ pairs.y)
        split = Split.of(P - pairs.gram(a * pairs.y))
        solution = problem.solution(split, b)
        value = a.sum() + 0.5 * ((P**2).sum() - (solution.A**2).sum() - b * b)
        return float(value), solution, split

    def negative_dual(share: Vector) -> tuple[float, Vector]:
        value, solution, _ = at(share)
        return -value, -top * (1.0 - pairs.margins(solution))

    def judge(share: Vector) -> tuple[float, float, float, Matrix]:
        value, solution, split = at(share)
        return value, problem.objective(solution), solution.b, split.factor

    best: Iteration | None = None
    bounds: Bounds = [(0.0, 1.0)] * len(top)
    share, lower, number = np.zeros(len(top)), -np.inf, 0
    while number < max_iter:
        before = lower
        left = max_iter - number
        steps = lbfgs(negative_dual, share, max_iter=left, tol=0.0, bounds=bounds, memory=20)
        for _, share in steps:
            value, objective, b, factor = recall("solution", partial(judge, share), given=share)
            lower, number = max(lower, value), number + 1
            if best is None or objective < best.objective:
                best = Iteration(objective, 0.0, 0.0, threshold=b, factor=factor)
            best = replace(best, eigenvalue=best.objective - lower)
            yield best
            if problem.certified(best.objective, lower):
                return "converged"
            if number >= max_iter:
                break
        if lower <= before:
            return "stalled"
    return "max_iter"
