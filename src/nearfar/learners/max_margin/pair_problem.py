"""The max-margin problem on pairs, and the parts that its solvers share.

    min  1/2 |A - P|_F^2 + b^2 / 2 + C sum_k p_k max(0, 1 - m_k)                     over psd A, b
    m_k = y_k (b - z_k),    z_k = (x_i - x_j)' A (x_i - x_j)

for pairs k = (i, j) with y_k = 1 (similar) or -1, shares p_k that sum to one, and a prior P.
For multipliers a_k in [0, C p_k] the dual is

    sum_k a_k + 1/2 |P|^2 - 1/2 |A|^2 - 1/2 b^2
    A = [P - sum_k a_k y_k u_k u_k']+,    b = sum_k a_k y_k

with [.]+ the projection on the psd cone. Sums of u_k u_k' are weighted Gram matrices (`Edges`); no
u_k is formed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearfar.constraints.constraints import Pairs
from nearfar.numerics.edges import Edges
from nearfar.runtime.recall_stub import recall
from nearfar.typing import Floats, Matrix, Vector

_FAR_FROM_ONE = 1e5


@dataclass(frozen=True)
class Split:
    """A symmetric matrix by its eigenvalues: what is positive, and what is not.

    Attributes
    ----------
    values : array of shape (n,)
        All eigenvalues, rising.
    vectors : array of shape (n, n)
    """

    values: Vector
    vectors: Matrix

    @classmethod
    def of(cls, Q: Matrix) -> Split:
        """Decompose a symmetric matrix."""
        return cls(*np.linalg.eigh(Q))

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

    def curvature(self, directions: NDArray[np.float64]) -> Matrix:
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


class Solution:
    """A metric and a threshold, with the squared distances that it gives to the pairs.

    Parameters
    ----------
    A : array of shape (n_features, n_features)
    b : float
    measure : callable
        What gives the distances. It is called when they are first asked for: where a fit is
        replayed from a journal, most never are.
    """

    def __init__(self, A: Matrix, b: float, measure: Callable[[], Vector]) -> None:
        self.A, self.b = A, b
        self._measure: Callable[[], Vector] | None = measure
        self._z = np.empty(0)

    @property
    def z(self) -> Vector:
        """Squared distances of the pairs."""
        if self._measure is not None:
            # What is not needed again is let go, as it holds the solutions before this one.
            self._z, self._measure = self._measure(), None
        return self._z

    def toward(self, other: Solution, step: float) -> Solution:
        """Go a share of the way to another solution."""
        return Solution(
            self.A + step * (other.A - self.A),
            self.b + step * (other.b - self.b),
            lambda: self.z + step * (other.z - self.z),
        )


@dataclass(frozen=True)
class Cut:
    """A plane below the mean hinge: at least ``offset - slope_b b + <G, A>``."""

    G: Matrix
    slope_b: float
    offset: float


class PairProblem:
    """The problem on listed pairs.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
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

    def __init__(self, X: Floats, pairs: Pairs, unit: float | None = None) -> None:
        self.edges = Edges(X, *pairs.index.T)
        weight = np.ones(len(pairs)) if pairs.weight is None else pairs.weight / pairs.weight.max()
        self.p = weight / weight.sum()
        self.y = np.where(pairs.similar, 1.0, -1.0)
        mean = float(self.p @ self.edges.squared_distances(X)[self.edges.of_pair])
        if unit is not None and mean > 0 and not 1 / _FAR_FROM_ONE < mean / unit < _FAR_FROM_ONE:
            raise ValueError(
                f"The mean squared distance of the pairs is {mean / unit:.1e}, too far from one "
                'for the problem to be solved as it is; use scale="unit" or "standard".'
            )
        self.unit = (mean if unit is None else unit) or 1.0

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.edges.X.shape[1]

    def distances(self, L: Matrix) -> Vector:
        """Squared distances of the pairs under L'L."""
        X = self.edges.X
        if len(L) == 0:
            return np.zeros(len(self.p))
        embedded = X @ (L.T / np.sqrt(self.unit)).astype(X.dtype)
        return self.edges.squared_distances(embedded)[self.edges.of_pair]

    def gram(self, weights: Vector) -> Matrix:
        """Sum of weighted outer products of the pairs' differences."""
        w = np.bincount(self.edges.of_pair, weights=weights, minlength=len(self.edges))
        return self.edges.matrix(np.asarray(w, dtype=np.float64)) / self.unit

    def margins(self, solution: Solution) -> Vector:
        """Return m_k."""
        return self.y * (solution.b - solution.z)

    def mean_hinge(self, solution: Solution) -> float:
        """Return the loss."""
        return float(self.p @ np.maximum(0.0, 1.0 - self.margins(solution)))

    def cut(self, solution: Solution) -> Cut:
        """Return the plane that touches the mean hinge at a solution: its most violated pairs."""

        def touch() -> tuple[Matrix, float, float]:
            c = np.where(self.margins(solution) < 1.0, self.p, 0.0)
            signed = c * self.y
            return self.gram(signed), float(signed.sum()), float(c.sum())

        return Cut(*recall("plane", touch, given=solution.b))
