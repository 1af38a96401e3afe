"""`PsdSplit`: a symmetric matrix as its positive and its other part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
