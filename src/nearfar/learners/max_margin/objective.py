"""The max-margin objective (3), in units where the mean squared distance of the pairs is one.

1/2 |A - P|_F^2 + b^2 / 2 + C sum_k p_k max(0, 1 - m_k)            over psd A and b
"""

from __future__ import annotations

from dataclasses import dataclass

from nearfar.learners.max_margin.pair_operator import PairOperator, Solution
from nearfar.learners.max_margin.psd_split import PsdSplit
from nearfar.typing import Matrix

_LINE_TOLERANCE = 1e-4
_ROUNDING = 1e-6


@dataclass(frozen=True)
class MaxMarginObjective:
    """The objective (3) on listed pairs.

    Attributes
    ----------
    pairs : PairOperator
    C : float
    P : array of shape (n_features, n_features)
        Prior.
    tol : float
        Gap to end at, relative to the objective.
    """

    pairs: PairOperator
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
