"""`Votes`: binary weak models, which order triplets but are not a distance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nearfar.typing import Floats, Ints, Matrix, Vector

# Votes that differ by less than this share of all votes are tied.
_TIE = 1e-12


@dataclass(frozen=True, eq=False)
class Votes:
    """Binary weak models: H(x, y) = sum_t alphas_t [(directions_t' (x - y))^2 >= thresholds_t].

    Many pairs have equal votes, and votes do not satisfy the triangle inequality.

    Parameters
    ----------
    alphas: shape (n_votes,). Weight of each vote.
    """

    directions: Matrix
    alphas: Vector
    thresholds: Vector

    def __post_init__(self) -> None:
        n_votes = len(self.alphas)
        shapes = (self.directions.ndim, len(self.directions), *self.alphas.shape)
        if shapes != (2, n_votes, n_votes) or self.thresholds.shape != (n_votes,):
            raise ValueError("Each vote needs one direction, one weight and one threshold.")
        for array in (self.directions, self.alphas, self.thresholds):
            if not np.isfinite(array).all():
                raise ValueError("Votes must be finite.")
            array.setflags(write=False)

    @classmethod
    def none(cls, n_features: int) -> Votes:
        """Return no votes."""
        return cls(np.empty((0, n_features)), np.empty(0), np.empty(0))

    def mapped(self, rows_of_map: Callable[[Matrix], Matrix]) -> Votes:
        """Return the same votes for the features that a function of rows of maps leads to."""
        return Votes(rows_of_map(self.directions), self.alphas, self.thresholds)

    def count(self, X: Floats, i: Ints, j: Ints) -> Vector:
        """Return H of the row pairs (i, j) of X."""
        total = np.zeros(len(i))
        for v, alpha, threshold in zip(self.directions, self.alphas, self.thresholds, strict=True):
            p = X @ v
            total += alpha * ((p[i] - p[j]) ** 2 >= threshold)
        return total

    def margin(self, X: Floats, a: Ints, near: Ints, far: Ints) -> Vector:
        """Return H(a, far) - H(a, near) for rows of X; exactly 0 for ties."""
        margin = self.count(X, a, far) - self.count(X, a, near)
        return np.where(np.abs(margin) > _TIE * np.abs(self.alphas).sum(), margin, 0.0)


def triplet_scores(margins: Vector, votes: Vector | None = None) -> Vector:
    """Return 1 for positive margins, 0 for negative ones and 1/2 for ties.

    Parameters
    ----------
    margins: shape (n_triplets,). Squared distance to far minus squared distance to near.
    votes: shape (n_triplets,). Margins of votes. They decide; `margins` break their ties.
    """
    if np.isnan(margins).any():
        raise ValueError("Distances are not finite: values are missing, infinite or too large.")
    decisive = margins if votes is None else np.where(votes != 0, votes, margins)
    return np.where(decisive > 0, 1.0, np.where(decisive < 0, 0.0, 0.5))
