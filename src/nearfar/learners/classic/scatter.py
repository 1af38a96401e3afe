"""Scatter matrices of rows in groups and of pairs, and their shrinkage.

For groups c (classes or chunklets) of n_c rows with means m_c and weights w_c:

    within = sum_c w_c S_c / sum_c w_c (n_c - 1)        S_c = sum_{i in c} (x_i - m_c)(x_i - m_c)'
    between = sum_c w_c (m_c - m)(m_c - m)'             m = sum_c w_c m_c / sum_c w_c

Sums over all pairs of rows need no pairs: with u = x_i - x_j,

    sum_{same class} u u' = sum_c n_c S_c
    sum_{other classes} u u' = sum_c (n - n_c) S_c + n sum_c n_c (m_c - m)(m_c - m)'

Listed pairs are weighted Gram matrices (`edges_of`). A covariance S of p features is shrunk to

    (1 - s) S + s (tr S / p) I

with s given, or estimated as by Ledoit and Wolf (2004): the expected squared error of S over its
squared distance to a multiple of the identity. Rows of a group are dependent through its mean;
they count as n_c - 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import csr_array

from nearfar.constraints import Pairs, checked_labels, given_pairs, to_chunklets
from nearfar.numerics.tiled_edges import edges_of
from nearfar.rows import Points, Rows
from nearfar.typing import Floats, Ints, Matrix, Vector

Shrinkage = float | Literal["auto"]

_BLOCK_ROWS = 4096
_RIDGE = 1e-10
"""Added to covariances that are inverted, in units of the mean variance of the rows."""


def shrunk(S: Matrix, intensity: float) -> Matrix:
    """Return ``(1 - s) S + s (tr S / p) I``."""
    result = (1.0 - intensity) * S
    result[np.diag_indices(len(S))] += intensity * np.trace(S) / len(S)
    return result


class Groups:
    """Rows in groups: classes, chunklets, or all rows as one.

    Parameters
    ----------
    X : array or Rows of shape (n_samples, n_features)
        Points, float32 or float64; not copied.
    codes : array of int of shape (n_samples,), optional
        Group of each row from 0, or -1 for none; by default all rows are one group.

    Attributes
    ----------
    sizes : array of shape (n_groups,)
    means : array of shape (n_groups, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.learners.classic.scatter import Groups
    >>> groups = Groups(np.array([[0.0], [2.0], [5.0], [9.0]]), np.array([0, 0, 1, -1]))
    >>> groups.means.ravel(), groups.within()
    (array([1., 5.]), array([[2.]]))
    """

    def __init__(self, X: Points, codes: Ints | None = None) -> None:
        self.X = X
        self.codes = np.zeros(len(X), dtype=np.intp) if codes is None else codes
        self.sizes = np.bincount(self.codes[self.codes >= 0]).astype(np.float64)
        self.means = self._reduce(_sums, len(self.sizes))
        self.means /= np.maximum(self.sizes, 1.0)[:, None]

    def scatter(self, weight: Vector) -> Matrix:
        """sum_c w_c S_c."""
        return np.asarray(self._reduce(_scatter, self.means, weight))

    def within(self, weight: Vector | None = None) -> Matrix:
        """Return the covariance about the means; groups have weight 1 by default."""
        return self.scatter(self._share(weight))

    def intensity(self, shrinkage: Shrinkage, S: Matrix, weight: Vector | None = None) -> float:
        """Return the share to shrink ``S = within(weight)`` by: as given, or as estimated."""
        if shrinkage != "auto":
            return shrinkage
        share, free = self._share(weight), self._free
        factor = share**2 * self.sizes / np.maximum(free, 1.0)
        noise = -float((S**2).sum()) * float(share**2 @ free)
        noise += float(self._reduce(_fourth_moment, self.means, factor))
        distance = float((S**2).sum() - np.trace(S) ** 2 / len(S))
        return min(1.0, max(0.0, noise) / distance) if distance > 0 else 0.0

    def common_intensity(
        self, shrinkage: Shrinkage, S: Matrix, weight: Vector | None = None
    ) -> float:
        """Return the share for what is within groups and for what is between them.

        It is the smaller of the estimates for ``S = within(weight)`` and for all rows: one of them
        is near 1 if it comes close to a multiple of the identity, which says nothing of the other.
        """
        if shrinkage != "auto":
            return shrinkage
        total = Groups(self.X)
        return min(self.intensity("auto", S, weight), total.intensity("auto", total.within()))

    def shrunk_within(self, shrinkage: Shrinkage, weight: Vector | None = None) -> Matrix:
        """Return `within` after shrinkage."""
        S = self.within(weight)
        return shrunk(S, self.intensity(shrinkage, S, weight))

    @property
    def _free(self) -> Vector:
        """Rows of each group that its mean leaves free."""
        return np.maximum(self.sizes - 1.0, 0.0)

    def _share(self, weight: Vector | None) -> Vector:
        """Weights that make the sum of the scatters a covariance."""
        weight = np.ones(len(self.sizes)) if weight is None else weight
        total = float(weight @ self._free)
        return weight / total if total > 0 else weight

    def between(self, weight: Vector) -> Matrix:
        """sum_c w_c (m_c - m)(m_c - m)'."""
        spread = self.means - weight @ self.means / weight.sum()
        return (spread.T * weight) @ spread

    def _reduce(self, function: Callable[..., Any], *args: Any) -> Any:
        """Sum what a function of some rows and their groups returns, block by block."""
        if isinstance(self.X, Rows):
            return self.X.reduce(_in_blocks, function, *args, along=(self.codes,))
        return _in_blocks(self.X, self.codes, function, *args)


def _in_blocks(X: Floats, codes: Ints, function: Callable[..., Any], *args: Any) -> Any:
    """Sum what a function of a few rows and their groups returns."""
    parts = [slice(top, top + _BLOCK_ROWS) for top in range(0, len(X), _BLOCK_ROWS)]
    return reduce(add, (function(X[part], codes[part], *args) for part in parts))


def _sums(block: Floats, members: Ints, n_groups: int) -> Matrix:
    """Return the sum of the rows of each group."""
    inside = members >= 0
    rows = block[inside].astype(np.float64, copy=False)
    return np.asarray(_indicator(members[inside], n_groups) @ rows)


def _scatter(block: Floats, members: Ints, means: Matrix, weight: Vector) -> Matrix:
    """Return the weighted scatter of rows about the means of their groups."""
    inside, centered = _centered(block, members, means)
    centered *= np.sqrt(weight[inside])[:, None]
    return centered.T @ centered


def _fourth_moment(block: Floats, members: Ints, means: Matrix, factor: Vector) -> Vector:
    """Return the weighted sum of the fourth powers of distances to the means."""
    inside, centered = _centered(block, members, means)
    return np.asarray(factor[inside] @ np.einsum("ij,ij->i", centered, centered) ** 2)


def _centered(block: Floats, members: Ints, means: Matrix) -> tuple[Ints, Matrix]:
    """Return the groups of the rows that have one, and these rows less the means, in float64."""
    inside = members >= 0
    rows = block[inside].astype(np.float64, copy=False)
    rows -= means[members[inside]]
    return members[inside], rows


def _indicator(members: Ints, n_groups: int) -> csr_array:
    """Return which rows belong to which group, of shape (n_groups, n_rows)."""
    rows = np.arange(len(members))
    return csr_array((np.ones(len(rows)), (members, rows)), shape=(n_groups, len(rows)))


@dataclass(frozen=True, eq=False)
class PairScatter:
    """Mean outer products of differences, shrunk.

    Attributes
    ----------
    similar, dissimilar : array of shape (n_features, n_features)
        Means of (x_i - x_j)(x_i - x_j)' over similar and over dissimilar pairs.
    """

    similar: Matrix
    dissimilar: Matrix

    @classmethod
    def of(cls, X: Any, supervision: Any, shrinkage: Shrinkage) -> PairScatter:
        """Return the scatter of listed pairs, or of all pairs that labels make.

        Both are shrunk by the same share. "auto" estimates it from the rows, in the groups that
        similar pairs join: it is the same for labels and for the list of all their pairs.
        """
        pairs = given_pairs(X, supervision)
        if pairs is None:
            codes, means = checked_labels(supervision), None
        else:
            codes, means = to_chunklets(X, pairs).ids, _pair_means(X, pairs)
        groups = Groups(X, codes)
        within = groups.within(groups.sizes)
        intensity = groups.common_intensity(shrinkage, within, groups.sizes)
        if means is None:
            n, sizes = len(X), groups.sizes
            other = groups.scatter(n - sizes) + n * groups.between(sizes)
            means = 2.0 * within, 2.0 * other / (n**2 - sizes @ sizes)
        return cls(*(shrunk(S, intensity) for S in means))


def _pair_means(X: Any, pairs: Pairs) -> tuple[Matrix, Matrix]:
    """Return the mean outer products of the differences of similar and of dissimilar pairs."""
    edges = edges_of(X.astype(np.float64, copy=False), *pairs.index.T)
    weight = np.ones(len(pairs)) if pairs.weight is None else pairs.weight / pairs.weight.max()

    def mean(kind: NDArray[np.bool_]) -> Matrix:
        w = np.bincount(edges.of_pair, weights=weight * kind, minlength=len(edges))
        return edges.matrix(w / w.sum())

    return mean(pairs.similar), mean(~pairs.similar)


def discriminants(between: Matrix, within: Matrix) -> tuple[Vector, Matrix]:
    """Solve ``between v = value within v``, with the largest value first.

    Returns
    -------
    values : array of shape (n_features,)
    L : array of shape (n_features, n_features)
        The v as rows: L within L' = I and L between L' = diag(values).
    """
    values, vectors = eigh(between, with_ridge(within))
    return values[::-1], vectors.T[::-1]


def with_ridge(S: Matrix) -> Matrix:
    """Make a covariance of rows of unit variance positive definite."""
    return S + _RIDGE * np.eye(len(S))


def by_spread(L: Matrix, covariance: Matrix) -> Matrix:
    """Rotate the rows of a map so that mapped points are uncorrelated, the most spread first."""
    axes = np.linalg.eigh(L @ covariance @ L.T)[1]
    return axes.T[::-1] @ L
