"""Scatter matrices of rows in groups and of pairs, and their shrinkage.

For groups c (classes or chunklets) of n_c rows with means m_c and weights w_c:

    within = sum_c w_c S_c / sum_c w_c (n_c - 1)        S_c = sum_{i in c} (x_i - m_c)(x_i - m_c)'
    between = sum_c w_c (m_c - m)(m_c - m)'             m = sum_c w_c m_c / sum_c w_c

Sums over all pairs of rows need no pairs: with u = x_i - x_j,

    sum_{same class} u u' = sum_c n_c S_c
    sum_{other classes} u u' = sum_c (n - n_c) S_c + n sum_c n_c (m_c - m)(m_c - m)'

A row of weight 2 counts as two rows: n_c are sums of weights, and S_c and m_c are weighted sums.
Listed pairs are weighted Gram matrices (`edges_of`). A covariance S of p features is shrunk to

    (1 - s) S + s (tr S / p) I

with s given, or estimated as by Ledoit and Wolf (2004): the expected squared error of S over its
squared distance to a multiple of the identity. Rows of a group are dependent through its mean;
they count as n_c - 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Literal

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array

from nearfar.numerics.edges import edges_of
from nearfar.numerics.linear_algebra import determined
from nearfar.rows import Points, Rows
from nearfar.runtime.threads import Threads
from nearfar.supervision import Supervision
from nearfar.typing import Floats, Ints, Matrix, Vector

Shrinkage = float | Literal["auto"]

ROUNDING = 1e-10
"""Ratios of variances that are rounding errors, beside the largest; also the ridge that is added to
covariances before they are inverted, in units of the mean variance of the rows."""

# Rows that are centred at once: enough for fast products, little beside all rows.
_BLOCK_ROWS = 4096


def shrunk(S: Matrix, intensity: float) -> Matrix:
    """Return ``(1 - s) S + s (tr S / p) I``."""
    result = (1.0 - intensity) * S
    result[np.diag_indices(len(S))] += intensity * np.trace(S) / len(S)
    return result


def warn_if_singular(S: Matrix, shrinkage: Shrinkage) -> None:
    """Warn of a covariance that is singular, and that is not to be shrunk."""
    if shrinkage != 0.0 or len(S) == 0:
        return
    values = np.linalg.eigvalsh(S)
    rank = int((values > len(S) * np.finfo(np.float64).eps * max(values[-1], 0.0)).sum())
    if rank < len(S):
        warnings.warn(
            f"With shrinkage=0, the covariance within groups is singular: its rank is {rank}, in "
            f"{len(S)} dimensions. Directions without variance have very large weights; use "
            'shrinkage="auto", or reduce the dimension first.',
            stacklevel=2,
        )


class Groups:
    """Rows in groups: classes, chunklets, or all rows as one.

    Parameters
    ----------
    X: shape (n_samples, n_features). Points, float32 or float64; not copied.
    codes: shape (n_samples,). Group of each row from 0, or -1 for none; by default all rows
        are one group.
    row_weight: shape (n_samples,). How often each row counts; for rows in memory.

    Attributes
    ----------
    sizes: shape (n_groups,). Number of rows of each group, or the sum of their weights.
    means: shape (n_groups, n_features).
    """

    def __init__(
        self, X: Points, codes: Ints | None = None, row_weight: Vector | None = None
    ) -> None:
        self.X, self.row_weight = X, row_weight
        self.codes = np.zeros(len(X), dtype=np.intp) if codes is None else codes
        inside = self.codes >= 0
        weight = None if row_weight is None else row_weight[inside]
        self.sizes = np.bincount(self.codes[inside], weight).astype(np.float64)
        if weight is not None and self.sizes.max() <= 1.0:
            raise ValueError(
                "sample_weight says how often rows count, and no class counts more than one row; "
                "multiply the weights by a constant, such as the number of rows over their sum."
            )
        self.means = self._reduce(_sums, len(self.sizes))
        self.means /= np.where(self.sizes > 0, self.sizes, 1.0)[:, None]

    def scatter(self, weight: Vector) -> Matrix:
        """sum_c w_c S_c."""
        return self._reduce(_scatter, self.means, weight)

    def fourth_moments(self, weight: Vector) -> float:
        """sum_c w_c sum_{i in c} |x_i - m_c|^4."""
        return float(self._reduce(_fourth_moment, self.means, weight))

    @property
    def total(self) -> Groups:
        """All rows as one group."""
        return Groups(self.X, row_weight=self.row_weight)

    def within(self, weight: Vector | None = None) -> Matrix:
        """Return the covariance about the means; groups have weight 1 by default."""
        return self.scatter(self._share(weight))

    def intensity(self, shrinkage: Shrinkage, S: Matrix, weight: Vector | None = None) -> float:
        """Return the share to shrink ``S = within(weight)`` by: as given, or as estimated."""
        if shrinkage != "auto":
            return shrinkage
        share = self._share(weight)
        factor = share**2 * self.sizes / np.maximum(self.sizes - 1.0, 1.0)
        noise = self.fourth_moments(factor) - float((S**2).sum()) * float(share**2 @ self._free)
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
        total = self.total
        return min(self.intensity("auto", S, weight), total.intensity("auto", total.within()))

    def shrunk_within(self, shrinkage: Shrinkage, weight: Vector | None = None) -> Matrix:
        """Return `within` after shrinkage."""
        S = self.within(weight)
        intensity = self.intensity(shrinkage, S, weight)
        warn_if_singular(S, shrinkage)
        return shrunk(S, intensity)

    def between(self, weight: Vector) -> Matrix:
        """sum_c w_c (m_c - m)(m_c - m)'."""
        spread = self.means - weight @ self.means / weight.sum()
        return (spread.T * weight) @ spread

    @property
    def _free(self) -> Vector:
        """Rows that the means leave free."""
        return np.maximum(self.sizes - 1.0, 0.0)

    def _share(self, weight: Vector | None) -> Vector:
        """Weights that make the sum of the scatters a covariance."""
        weight = np.ones(len(self.sizes)) if weight is None else weight
        total = float(weight @ self._free)
        return weight / total if total > 0 else weight

    def _reduce(self, function: Callable[..., Matrix], *args: object) -> Matrix:
        """Sum what a function of some rows and their groups returns, block by block."""
        if isinstance(self.X, Rows):
            return np.asarray(self.X.reduce(_in_blocks, function, *args, along=(self.codes,)))
        return _in_blocks(self.X, self.codes, function, *args, row_weight=self.row_weight)


# Executors send these functions to the processes that read blocks of rows, so that each has a name.
def _in_blocks(
    X: Floats,
    codes: Ints,
    function: Callable[..., Matrix],
    *args: object,
    row_weight: Vector | None = None,
) -> Matrix:
    """Sum what a function of a few rows and their groups returns."""

    def block(rows: slice) -> Matrix:
        weight = None if row_weight is None else row_weight[rows][codes[rows] >= 0]
        return function(X[rows], codes[rows], *args, weight)

    return reduce(add, Threads().map(block, len(X), _BLOCK_ROWS))


def _sums(block: Floats, members: Ints, n_groups: int, own: Vector | None) -> Matrix:
    """Return the sum of the rows of each group."""
    inside = members >= 0
    rows = block[inside].astype(np.float64, copy=False)
    number = np.arange(len(rows))
    own = np.ones(len(rows)) if own is None else own
    member = csr_array((own, (members[inside], number)), (n_groups, len(rows)))
    return np.asarray(member @ rows)


def _scatter(
    block: Floats, members: Ints, means: Matrix, weight: Vector, own: Vector | None
) -> Matrix:
    """Return the weighted scatter of rows about the means of their groups."""
    inside, centered = _centered(block, members, means)
    centered *= np.sqrt(weight[inside] if own is None else weight[inside] * own)[:, None]
    return centered.T @ centered


def _fourth_moment(
    block: Floats, members: Ints, means: Matrix, factor: Vector, own: Vector | None
) -> Vector:
    """Return the weighted sum of the fourth powers of distances to the means."""
    inside, centered = _centered(block, members, means)
    factors = factor[inside] if own is None else factor[inside] * own
    return np.asarray(factors @ np.einsum("ij,ij->i", centered, centered) ** 2)


def _centered(block: Floats, members: Ints, means: Matrix) -> tuple[Ints, Matrix]:
    """Return the groups of the rows that have one, and these rows less the means, in float64."""
    inside = members >= 0
    rows = block[inside].astype(np.float64, copy=False)
    rows -= means[members[inside]]
    return members[inside], rows


@dataclass(frozen=True, eq=False)
class Evidence:
    """What closed forms are computed from.

    Attributes
    ----------
    groups: Classes, chunklets, or the rows that similar pairs join.
    pair_means: Mean outer products of the differences of listed similar and dissimilar
        pairs.
    apart: shape (n_features, n_features). Sum of the outer products of the differences of
        groups that dissimilar pairs tell apart.
    """

    groups: Groups
    pair_means: tuple[Matrix, Matrix] | None = None
    apart: Matrix | None = None

    @classmethod
    def of_pairs(cls, X: Floats, supervision: Supervision) -> Evidence:
        """Return what is known from listed pairs, or from all pairs that labels make."""
        if supervision.kind == "labels":
            codes = supervision.labels("", informative=True)
            return cls(Groups(X, codes, supervision.row_weight))
        pairs = supervision.pairs(X, None, None)
        edges = edges_of(X.astype(np.float64, copy=False), *pairs.index.T)
        weight = np.ones(len(pairs)) if pairs.weight is None else pairs.weight / pairs.weight.max()
        similar, dissimilar = (weight * kind for kind in (pairs.similar, ~pairs.similar))
        means = edges.gram(similar) / similar.sum(), edges.gram(dissimilar) / dissimilar.sum()
        return cls(Groups(X, supervision.chunklets().ids), means)


def pair_scatters(evidence: Evidence, shrinkage: Shrinkage) -> tuple[Matrix, Matrix]:
    """Return the mean outer products of differences of similar and of dissimilar pairs, shrunk.

    The pairs are those listed, or all that labels make. Both means are shrunk by the same share.
    "auto" estimates it from the rows, in the groups that similar pairs join: it is the same for
    labels and for the list of all their pairs.
    """
    groups, means = evidence.groups, evidence.pair_means
    within = groups.within(groups.sizes)
    intensity = groups.common_intensity(shrinkage, within, groups.sizes)
    if means is None:
        sizes, n = groups.sizes, groups.sizes.sum()
        other = groups.scatter(n - sizes) + n * groups.between(sizes)
        means = 2.0 * within, 2.0 * other / (n**2 - sizes @ sizes)
    return shrunk(means[0], intensity), shrunk(means[1], intensity)


def discriminants(between: Matrix, within: Matrix) -> tuple[Vector, Matrix]:
    """Solve ``between v = value within v``, with the largest value first.

    Returns
    -------
    values : array of shape (n_features,)
    L : array of shape (n_features, n_features)
        The v as rows: L within L' = I and L between L' = diag(values).
    """
    values, vectors = eigh(between, with_ridge(within))
    return values[::-1], determined(values[::-1], vectors.T[::-1])


def with_ridge(S: Matrix) -> Matrix:
    """Make a covariance of rows of unit variance positive definite."""
    return S + ROUNDING * np.eye(len(S))
