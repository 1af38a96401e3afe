"""Similar and dissimilar pairs as an operator on metrics.

For pairs k = (i, j) with y_k = 1 (similar) or -1, and shares p_k that sum to one:

    z_k = (x_i - x_j)' A (x_i - x_j)        m_k = y_k (b - z_k)        gram(w) = sum_k w_k u_k u_k'

Sums of u_k u_k' with u_k = x_i - x_j are weighted Gram matrices (`Edges`); no u_k is formed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfar.constraints import Pairs
from nearfar.learners.max_margin.psd_split import PsdSplit
from nearfar.losses.hinge import HINGE
from nearfar.numerics.edges import edges_of
from nearfar.rows import Points
from nearfar.typing import Matrix, Vector

_LARGEST_RATIO = 1e5
"""Largest ratio between the mean squared distance and one at which the problem is solved."""


@dataclass(frozen=True, eq=False)
class Solution:
    """A metric and a threshold.

    Attributes
    ----------
    A : array of shape (n_features, n_features)
    b : float
    z : array of shape (n_pairs,)
        Squared distances of the pairs.
    split : PsdSplit or None
        Decomposition of which A is the positive part, if it is known.
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
    X : array or Rows of shape (n_samples, n_features)
    pairs : Pairs
        At least one, of positive total weight.
    unit : float or None
        Squared distance to measure in; None for the mean over the pairs.

    Attributes
    ----------
    unit : float
    p : array of shape (n_pairs,)
        Shares of the pairs.
    y : array of shape (n_pairs,)
        1 for similar, -1 for dissimilar pairs.
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
