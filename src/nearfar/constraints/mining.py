"""Exact nearest (or farthest) neighbours of the same and of other classes, in one tiled pass.

For every row i of X the pass finds

- its `targets`: rows of the same class, nearest first (or farthest first),
- its `impostors`: rows of any other class, nearest first.

Rows are visited in class order, so that "same class" is a run of columns. A tile of squared
distances comes from one float32 matrix product with the norms as an extra column,

    G_ij = (1 - 2g) |x_j|^2 - 2 x_i'x_j,

where g bounds the relative rounding error of the product. G_ij + (1 - 2g) |x_i|^2 is then a *lower
bound* of the distance, and 4g (|x_i|^2 + |x_j|^2) above it an upper bound. Columns that the bounds
cannot rule out (k and a few a row) are ranked by distances from explicit float64 differences. The
result is exact whatever the precision of the product; memory is one tile.

Ties: nearest (farthest) first, then lower row number first. Distances that agree to the rounding
error of the data count as tied, so that a change of units changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, check_consistent_length

from nearfar.numerics.class_order import ClassOrder
from nearfar.numerics.edges import squared_distances
from nearfar.numerics.sparse_tiles import place_in_run, sparse_nonzero
from nearfar.typing import Floats, Ints, Vector

_TILE_ROWS = 512
_TILE_COLUMNS = 4096
_SAMPLED_COLUMNS = 512
_MAX_CANDIDATES = 1 << 19
UNIT_ROUNDOFF = 2.0**-24


def tie_tolerance(dtype: np.dtype[Any]) -> float:
    """Relative difference below which two squared distances of this type of data are tied."""
    return 1e-5 if np.finfo(dtype).bits < 64 else 1e-10


def class_neighbors(
    X: Floats,
    y: NDArray[np.integer],
    n_targets: int,
    n_impostors: int,
    *,
    farthest_targets: bool = False,
) -> tuple[Ints, Ints]:
    """Find each row's targets and impostors.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Points; float32 or float64.
    y : array of shape (n_samples,)
        Class codes.
    n_targets, n_impostors : int
        How many of each to find.
    farthest_targets : bool, default=False
        Take the farthest rows of the same class instead of the nearest.

    Returns
    -------
    targets : array of shape (n_samples, n_targets)
        Row numbers, best first; -1 where the class has too few members.
    impostors : array of shape (n_samples, n_impostors)
        Row numbers, best first; -1 where the other classes have too few members.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.constraints.mining import class_neighbors
    >>> X = np.array([[0.0], [1.0], [3.0], [4.0]])
    >>> targets, impostors = class_neighbors(X, np.array([0, 0, 1, 1]), 1, 1)
    >>> targets.ravel(), impostors.ravel()
    (array([1, 0, 3, 2]), array([2, 2, 1, 1]))
    """
    X = check_array(X, dtype=[np.float64, np.float32])
    codes = np.unique(y, return_inverse=True)[1]
    check_consistent_length(X, codes)
    points = _SortedPoints(X, codes)
    n, infinity = len(X), np.float32(np.inf)
    targets = np.full((n, n_targets), -1, dtype=np.intp)
    impostors = np.full((n, n_impostors), -1, dtype=np.intp)
    for top in range(0, n, _TILE_ROWS):
        rows = range(top, min(top + _TILE_ROWS, n))
        same = _Shortlist(points, rows, n_targets, farthest=farthest_targets)
        other = _Shortlist(points, rows, n_impostors)
        left = points.left_factor(rows)
        G = left @ points.points[:: points.sample.step].T
        together = points.codes[top : rows.stop, None] == points.codes[:: points.sample.step]
        same.bound(
            np.where(together & (np.arange(top, rows.stop)[:, None] != points.sample), G, infinity)
        )
        other.bound(np.where(together, infinity, G))
        for start in range(0, n, _TILE_COLUMNS):
            columns = range(start, min(start + _TILE_COLUMNS, n))
            G = left @ points.points[columns.start : columns.stop].T
            for r, c in points.same_class_blocks(rows, columns):
                block = G[r.start - top : r.stop - top, c.start - start : c.stop - start]
                selves = np.arange(max(r.start, c.start), min(r.stop, c.stop))
                block[selves - r.start, selves - c.start] = np.inf
                same.offer(block, r, c)
                block[...] = np.inf
            other.offer(G, rows, columns)
        targets[points.order[top : rows.stop]] = same.ranked()
        impostors[points.order[top : rows.stop]] = other.ranked()
    return targets, impostors


class _SortedPoints(ClassOrder):
    """The points in class order, as float32 with their norms; the tiles are made from them."""

    def __init__(self, X: Floats, y: Ints) -> None:
        n, n_features = X.shape
        self.X = X
        super().__init__(y)
        self.slack = (n_features + 8) * UNIT_ROUNDOFF
        self.norms = np.empty(n)
        self.points = np.empty((n, n_features + 1), dtype=np.float32)
        center = X.mean(axis=0, dtype=np.float64)
        reach = max(float(np.max(X.max(axis=0) - center)), float(np.max(center - X.min(axis=0))))
        shrink = 1.0 / reach if reach > 0 else 1.0
        for start in range(0, n, _TILE_ROWS):
            rows = slice(start, start + _TILE_ROWS)
            block = (X[self.order[rows]] - center) * shrink
            self.points[rows, :-1] = block
            self.norms[rows] = np.einsum("ij,ij->i", block, block)
        self.points[:, -1] = (1 - 2 * self.slack) * self.norms
        self.sample = range(0, n, max(1, n // _SAMPLED_COLUMNS))

    def left_factor(self, rows: range) -> NDArray[np.float32]:
        left = self.points[rows.start : rows.stop] * np.float32(-2)
        left[:, -1] = 1
        return left

    def same_class_blocks(self, rows: range, columns: range) -> Iterator[tuple[range, range]]:
        """Sub-blocks of the tile whose entries join two members of one class."""
        first = max(self.codes[rows[0]], self.codes[columns[0]])
        last = min(self.codes[rows[-1]], self.codes[columns[-1]])
        for label in range(first, last + 1):
            start, stop = self.edges[label], self.edges[label + 1]
            yield (
                range(max(start, rows.start), min(stop, rows.stop)),
                range(max(start, columns.start), min(stop, columns.stop)),
            )


class _Shortlist:
    """The best k columns of each row of a band of rows, exact in the end.

    A column stays a candidate while its lower bound is below the k-th smallest upper bound seen.
    """

    def __init__(
        self, points: _SortedPoints, rows: range, k: int, *, farthest: bool = False
    ) -> None:
        self.points, self.rows, self.k, self.farthest = points, rows, k, farthest
        self.best = np.full((len(rows), k), np.inf, dtype=np.float32)
        self.limit = np.full((len(rows), 1), np.inf, dtype=np.float32)
        self.found: list[tuple[Ints, Ints, NDArray[np.float32]]] = []
        self.n_found = 0

    def bound(self, G: NDArray[np.float32]) -> None:
        """Start from the k-th smallest upper bound over the sampled columns."""
        if not 0 < self.k <= G.shape[1]:
            return
        upper = self._signed(G, self.rows, self.points.sample)
        upper += self._gap(self.rows, self.points.sample)
        self.limit = np.partition(upper, self.k - 1, axis=1)[:, self.k - 1 : self.k].copy()

    def offer(self, G: NDArray[np.float32], rows: range, columns: range) -> None:
        """Consider the columns of a tile; entries of G that are infinite are ruled out."""
        if self.k == 0:
            return
        band = slice(rows.start - self.rows.start, rows.stop - self.rows.start)
        G = self._signed(G, rows, columns)
        i, j = sparse_nonzero(self.limit[band] > G)
        if len(i) == 0:
            return
        lower = G[i, j]
        i += rows.start
        j += columns.start
        self._tighten(i, lower + self._gap(i, j))
        self.found.append((i, j, lower))
        self.n_found += len(i)
        if self.n_found > _MAX_CANDIDATES:
            self._settle()

    def ranked(self) -> Ints:
        """Original numbers of the best columns of each row, best first, -1 where there are none."""
        result = np.full((len(self.rows), self.k), -1, dtype=np.intp)
        if self.found:
            i, j, _, rank = self._settle()
            result[i - self.rows.start, rank] = self.points.order[j]
        return result

    def _signed(self, G: NDArray[np.float32], rows: range, columns: range) -> NDArray[np.float32]:
        """Lower bounds of what is to be smallest: the distance, or its negative."""
        if not self.farthest:
            return G
        return np.where(np.isfinite(G), -G - self._gap(rows, columns), np.float32(np.inf))

    def _gap(self, i: Ints | range, j: Ints | range) -> NDArray[np.float32]:
        """Upper minus lower bound; never zero, so that ties stay candidates."""
        norms = self.points.norms
        total = np.add.outer(norms[i], norms[j]) if isinstance(i, range) else norms[i] + norms[j]
        return (4 * self.points.slack * total + 1e-30).astype(np.float32)

    def _tighten(self, i: Ints, upper: NDArray[np.float32]) -> None:
        row = i - self.rows.start
        rank = place_in_run(row)
        fresh = np.full((len(self.rows), rank.max() + 1), np.inf, dtype=np.float32)
        fresh[row, rank] = upper
        self.best = np.partition(np.hstack([self.best, fresh]), self.k - 1, axis=1)[:, : self.k]
        np.minimum(self.limit, self.best[:, -1:], out=self.limit)

    def _settle(self) -> tuple[Ints, Ints, NDArray[np.float32], Ints]:
        """Rank the candidates by exact distance and forget all but the best k of each row."""
        i, j, lower = (np.concatenate(parts) for parts in zip(*self.found, strict=True))
        alive = lower < self.limit[i - self.rows.start, 0]
        i, j, lower = i[alive], j[alive], lower[alive]
        original = self.points.order
        distance = squared_distances(self.points.X, original[i], original[j])
        if self.farthest:
            distance = -distance
        kept, rank = best_of_each(
            i, original[j], distance, self.k, tie_tolerance(self.points.X.dtype)
        )
        i, j, lower = i[kept], j[kept], lower[kept]
        self.found, self.n_found = [(i, j, lower)], len(i)
        return i, j, lower, rank


def best_of_each(
    i: Ints, numbers: Ints, distance: Vector, k: int, tolerance: float
) -> tuple[Ints, Ints]:
    """Pick the best k candidates of each row: smallest distance first, then lower number first.

    Parameters
    ----------
    i : array of int of shape (n_candidates,)
        The row that each is a candidate of.
    numbers : array of int of shape (n_candidates,)
        Their row numbers.
    distance : array of shape (n_candidates,)
    k : int
    tolerance : float
        Relative difference below which distances are tied.

    Returns
    -------
    kept : array of int
        Positions of the best, row by row.
    rank : array of int
        Their ranks, from 0.
    """
    order = np.lexsort((distance, i))
    row, length = i[order], distance[order]
    apart = np.diff(length, prepend=-np.inf) > tolerance * np.abs(length)
    group = np.cumsum(apart | (np.diff(row, prepend=-1) != 0))
    order = order[np.lexsort((numbers[order], group))]
    rank = place_in_run(i[order])
    best = rank < k
    return order[best], rank[best]
