"""The max-margin problem on listed pairs: its loss as an operator on metrics, and its objective.

For pairs k = (i, j) with y_k = 1 (similar) or -1, and shares p_k that sum to one:

    z_k = (x_i - x_j)' A (x_i - x_j)        m_k = y_k (b - z_k)        gram(w) = sum_k w_k u_k u_k'

Sums of u_k u_k' with u_k = x_i - x_j are weighted Gram matrices (`Edges`); no u_k is formed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfar.learners.max_margin.psd_split import PsdSplit
from nearfar.losses.loss import HINGE
from nearfar.numerics.edges import edges_of
from nearfar.rows import Points
from nearfar.supervision import Pairs
from nearfar.typing import Matrix, Vector

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
