"""The max-margin problem on listed pairs: its loss as an operator on metrics, and its objective.

For pairs k = (i, j) with y_k = 1 (similar) or -1, and shares p_k that sum to one:

    z_k = (x_i - x_j)' A (x_i - x_j)        m_k = y_k (b - z_k)        gram(w) = sum_k w_k u_k u_k'

Sums of u_k u_k' with u_k = x_i - x_j are weighted Gram matrices (`Edges`); no u_k is formed.

The max-margin problem by cutting planes: Algorithm 1, in time linear in the number of pairs.

The mean hinge is the largest of all planes that touch it. A model of a few of them is minimised by
its dual: with weights a >= 0 of the planes, sum a <= C, that is the problem's own dual with planes
in place of pairs,

    sum_l a_l offset_l + 1/2 |P|^2 - 1/2 |A|^2 - 1/2 b^2
    A = [P - sum_l a_l G_l]+,    b = sum_l a_l slope_l

one variable per plane, over a simplex; [.]+ is the projection on the psd cone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfar.learners.max_margin.box_dual import PsdSplit, certified
from nearfar.losses.loss import HINGE
from nearfar.numerics.edges import edges_of
from nearfar.numerics.optimizers import Point, maximize
from nearfar.rows import Points
from nearfar.runtime.history import Iteration, Iterations
from nearfar.supervision import Pairs
from nearfar.typing import Ints, Matrix, Vector

# Largest ratio between the mean squared distance and one at which the problem is solved: beyond
# it, the squares of both in the objective leave too few digits.
_LARGEST_RATIO = 1e5
# Width of the interval around the minimum on a line; the next plane corrects the rest.
_LINE_TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class Solution:
    """A metric and a threshold.

    Attributes
    ----------
    z: shape (n_pairs,). Squared distances of the pairs.
    split: Decomposition of which A is the positive part, if it is known.
    """

    A: Matrix
    b: float
    z: Vector
    split: PsdSplit | None = None

    @property
    def factor(self) -> Matrix:
        """L with L'L = A."""
        return (self.split or PsdSplit.of(self.A)).factor

    def toward(self, other: Solution, step: float) -> Solution:
        """Go a share of the way to another solution."""
        return Solution(
            self.A + step * (other.A - self.A),
            self.b + step * (other.b - self.b),
            self.z + step * (other.z - self.z),
        )


@dataclass(frozen=True, eq=False)
class Plane:
    """A plane below the mean hinge: ``offset - slope_b b + <G, A>``."""

    G: Matrix
    slope_b: float
    offset: float


class PairOperator:
    """Listed pairs as an operator on metrics.

    Parameters
    ----------
    pairs: At least one, of positive total weight.
    unit: Squared distance to measure in; None for the mean over the pairs.

    Attributes
    ----------
    p: shape (n_pairs,). Shares of the pairs.
    y: shape (n_pairs,). 1 for similar, -1 for dissimilar pairs.
    """

    def __init__(self, X: Points, pairs: Pairs, unit: float | None = None) -> None:
        self.edges = edges_of(X, *pairs.index.T)
        weight = np.ones(len(pairs)) if pairs.weight is None else pairs.weight / pairs.weight.max()
        self.p = weight / weight.sum()
        self.y = np.where(pairs.similar, 1.0, -1.0)
        mean = float(self.p @ self.edges.distances()[0])
        if unit is not None and mean > 0 and not 1 / _LARGEST_RATIO < mean / unit < _LARGEST_RATIO:
            raise ValueError(
                f"The mean squared distance of the pairs is {mean / unit:.1e}, too far from one "
                'to solve the problem as it is; use scale="unit" or "standard".'
            )
        self.unit = (mean if unit is None else unit) or 1.0

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.edges.X.shape[1]

    def distances(self, L: Matrix) -> Vector:
        """Squared distances of the pairs under L'L."""
        if len(L) == 0:
            return np.zeros(len(self.p))
        return self.edges.distances(L / np.sqrt(self.unit))[0]

    def gram(self, weights: Vector) -> Matrix:
        """Sum of weighted outer products of the pairs' differences."""
        return self.edges.gram(weights) / self.unit

    def margins(self, solution: Solution) -> Vector:
        """Return m_k."""
        return self.y * (solution.b - solution.z)

    def mean_hinge(self, solution: Solution) -> float:
        """Return the loss."""
        return float(self.p @ HINGE.value(self.margins(solution)))

    def plane(self, solution: Solution) -> Plane:
        """Return the plane that touches the mean hinge at a solution: its most violated pairs."""
        c = self.p * HINGE.slope(self.margins(solution))
        signed = c * self.y
        return Plane(self.gram(signed), float(signed.sum()), float(c.sum()))


@dataclass(frozen=True)
class MaxMarginObjective:
    """The objective (3) on listed pairs.

    Attributes
    ----------
    P: shape (n_features, n_features). Prior.
    tol: Gap to end at, relative to the objective.
    """

    pairs: PairOperator
    C: float
    P: Matrix
    tol: float

    def objective(self, solution: Solution) -> float:
        """Return the value of (3)."""
        A, b = solution.A, solution.b
        penalty = 0.5 * float(((A - self.P) ** 2).sum()) + 0.5 * b * b
        return penalty + self.C * self.pairs.mean_hinge(solution)

    def dual(self, a: Vector) -> tuple[float, Vector, Solution]:
        """Return the dual with one multiplier per pair, its gradient, and the solution.

        For a_k in [0, C p_k] it is

            sum_k a_k + 1/2 |P|^2 - 1/2 |A|^2 - 1/2 b^2
            A = [P - sum_k a_k y_k u_k u_k']+,    b = sum_k a_k y_k
        """
        b = float(a @ self.pairs.y)
        solution = self.solution(PsdSplit.of(self.P - self.pairs.gram(a * self.pairs.y)), b)
        value = a.sum() + 0.5 * ((self.P**2).sum() - (solution.A**2).sum() - b * b)
        return float(value), 1.0 - self.pairs.margins(solution), solution

    def solution(self, split: PsdSplit, b: float) -> Solution:
        """Return the positive part with its distances."""
        L = split.factor
        return Solution(L.T @ L, b, self.pairs.distances(L), split)

    def with_best_threshold(self, L: Matrix) -> Solution:
        """Return the metric L'L with the best threshold for it."""
        A, z = L.T @ L, self.pairs.distances(L)
        lowest, highest = Solution(A, 0.0, z), Solution(A, float(z.max()) + 1.0, z)
        return lowest.toward(highest, self.line_minimum(lowest, highest))

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


# How far from the best solution toward the model's minimum the next plane touches (as in OCAS).
_STEP_TO_NEXT_PLANE = 0.1

# Tolerance of the model's minimum, relative to that of the problem: it should hardly add to the
# gap.
_MODEL_TOLERANCE = 0.1

# Iterations without weight after which a plane is dropped; it may come back. Fewer would bring
# planes back often, more would slow the model down.
_IDLE_ITERATIONS = 20


def cut_planes(
    problem: MaxMarginObjective,
    *,
    max_iter: int,
    start: Solution | None = None,
    printed: bool = False,
) -> Iterations:
    """Minimise by cutting planes (Algorithm 1).

    The mean hinge is the largest of all planes that touch it. The minimum of a model of a few of
    them is a lower bound. The best solution so far moves by an exact line search toward that
    minimum, and the next plane touches between the two. In the algorithm as it is printed, the
    solution is the model's minimum, and the next plane touches there.

    Parameters
    ----------
    max_iter: The most planes to add.
    start: Where to start; by default at the prior.
    printed: Whether to go on from the model's minimum.
    """
    model = PlaneModel(problem)
    best = problem.solution(PsdSplit.of(problem.P), 0.0) if start is None else start
    objective = problem.objective(best)
    model.add(problem.pairs.plane(best))
    lower = 0.0
    for _ in range(max_iter):
        minimum, split, b = model.minimize(_MODEL_TOLERANCE * problem.tol * objective)
        lower = max(lower, minimum)
        candidate = problem.solution(split, b)
        best = best.toward(candidate, problem.line_minimum(best, candidate))
        value, objective = problem.objective(candidate), problem.objective(best)
        converged = certified(value, lower, problem.tol)
        if converged or printed:
            best, objective = candidate, value
        yield Iteration(
            objective, gap=objective - lower, step=float(model.alpha.max()), payload=best
        )
        if converged:
            return "converged"
        close = certified(objective, lower, problem.tol)
        model.add(
            problem.pairs.plane(best.toward(candidate, 1.0 if close else _STEP_TO_NEXT_PLANE))
        )
    return "max_iter"


class PlaneModel:
    """The largest of a few planes in place of the mean hinge.

    Weights alpha are in the simplex; the first belongs to the plane 0, which is always there.
    """

    def __init__(self, objective: MaxMarginObjective) -> None:
        self.objective = objective
        n = objective.pairs.n_features
        self.planes = [Plane(np.zeros((n, n)), 0.0, 0.0)]
        self.idle, self.alpha = np.zeros(1, dtype=int), np.ones(1)

    def add(self, plane: Plane) -> None:
        """Add a plane, and forget those that have long had no weight."""
        self.idle = np.where(self.alpha > 0, 0, self.idle + 1)
        kept = self.idle < _IDLE_ITERATIONS
        kept[0] = True
        self.planes = [p for p, keep in zip(self.planes, kept, strict=True) if keep] + [plane]
        self.idle = np.append(self.idle[kept], 0)
        self.alpha = np.append(self.alpha[kept], 0.0)

    def minimize(self, tol: float) -> tuple[float, PsdSplit, float]:
        """Return the model's minimum to a tolerance (from below), and where it is."""
        C, P = self.objective.C, self.objective.P
        G = np.array([plane.G for plane in self.planes])
        flat = G.reshape(len(G), -1)
        slopes = np.array([plane.slope_b for plane in self.planes])
        offsets = np.array([plane.offset for plane in self.planes])

        def where(alpha: Vector) -> tuple[PsdSplit, float]:
            a = C * alpha
            return PsdSplit.of(P - (a @ flat).reshape(P.shape)), float(a @ slopes)

        def dual(alpha: Vector) -> Point:
            split, b = where(alpha)
            A = split.positive
            value = C * (alpha @ offsets) + 0.5 * ((P**2).sum() - (A**2).sum() - b * b)

            def curvature(rows: Ints) -> Matrix:
                s = slopes[rows]
                return C * C * (split.curvature(G[rows]) + np.outer(s, s))

            return Point(float(value), C * (offsets - slopes * b + flat @ A.ravel()), curvature)

        self.alpha, point = maximize(dual, self.alpha, tol=tol)
        return point.value, *where(self.alpha)
