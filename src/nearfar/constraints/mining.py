"""Neighbours of the same and of other classes: which search finds them, and the exact one.

    exact         all rows against all rows, in one tiled pass
    approximate   an index of faiss, with measured recall (`approximate_mining`)
    anchors       a random sample of rows against all rows (`anchor_mining`)

"auto" is exact up to `EXACT_PRODUCTS`. Beyond that it is approximate if faiss is installed and the
rows are in memory, and takes anchors otherwise. A `Mining` says what was done; learners collect it
with `mining_reports`.

For every row i of X the exact pass finds

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
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, check_consistent_length

from nearfar.constraints.anchor_mining import anchor_neighbors
from nearfar.constraints.approximate_mining import approximate_neighbors, has_faiss
from nearfar.numerics.edges import squared_distances
from nearfar.numerics.sorted_rows import (
    UNIT_ROUNDOFF,
    ClassOrder,
    best_of_each,
    place_in_run,
    sparse_nonzero,
    tie_tolerance,
)
from nearfar.rows import Points, Rows
from nearfar.runtime.progress import counted, stage
from nearfar.typing import Floats, Ints

Search = Literal["auto", "exact", "approximate", "anchors"]
SEARCHES = ("auto", "exact", "approximate", "anchors")

EXACT_PRODUCTS = 1.5e12
"""Cost up to which "auto" is exact, in products of two numbers: about a minute on one core."""

FEWEST_ANCHORS = 2_000
"""Anchors that "auto" takes at least."""

# A pair of rows costs its D products, and about as much as 64 more to rule it out.
_COST_OF_A_PAIR = 64

# A tile of float32 bounds has 8 megabytes: larger ones leave the cache, smaller ones make the
# product slower.
_TILE_ROWS = 512
_TILE_COLUMNS = 4096
# Columns that give each row its first limit: more make it tighter, and a larger first product.
_SAMPLED_COLUMNS = 512
# Candidates that a band of rows keeps before it ranks them; this bounds memory.
_MAX_CANDIDATES = 1 << 19

Float32s = NDArray[np.float32]


@dataclass(frozen=True)
class Mining:
    """How triplets were mined.

    Attributes
    ----------
    search : {"exact", "approximate", "anchors"}
    n_rows : int
        Number of rows that were searched.
    n_anchors : int
        Number of rows whose neighbours were searched for.
    target_recall, impostor_recall : float
        Share of the exact neighbours that were found; measured if the search is approximate.
    n_measured : int
        Number of rows that the recall was measured on.

    Examples
    --------
    >>> from nearfar.constraints import Mining
    >>> print(Mining("anchors", n_rows=10_000_000, n_anchors=2_000))
    Triplets mined exactly for 2,000 anchors, a random sample of 10,000,000 rows.
    """

    search: str
    n_rows: int
    n_anchors: int
    target_recall: float = 1.0
    impostor_recall: float = 1.0
    n_measured: int = 0

    def __str__(self) -> str:
        if self.search == "exact":
            return f"Triplets mined exactly for all {self.n_rows:,} rows."
        if self.search == "anchors":
            return (
                f"Triplets mined exactly for {self.n_anchors:,} anchors, a random sample of "
                f"{self.n_rows:,} rows."
            )
        return (
            f"Triplets mined approximately for all {self.n_rows:,} rows: "
            f"{100 * self.target_recall:.1f} % of the nearest targets and "
            f"{100 * self.impostor_recall:.1f} % of the nearest impostors were found, measured on "
            f"{self.n_measured:,} rows."
        )


_reports: ContextVar[list[Mining] | None] = ContextVar("mining", default=None)


@stage("mining triplets")
def find_neighbors(
    X: Points,
    y: NDArray[np.integer],
    n_targets: int,
    n_impostors: int,
    *,
    search: Search,
    n_anchors: int | None,
    random_state: np.random.RandomState,
) -> tuple[Ints, Ints, Ints]:
    """Find neighbours of the same and of other classes, and report how.

    Parameters
    ----------
    X : array or Rows of shape (n_samples, n_features)
    y : array of shape (n_samples,)
        Class codes.
    n_targets, n_impostors : int
        How many of each to find.
    search : {"auto", "exact", "approximate", "anchors"}
    n_anchors : int or None
        Number of anchors; by default as many as `EXACT_PRODUCTS` allows, and at least
        `FEWEST_ANCHORS`.
    random_state : RandomState
        Not used by the exact search.

    Returns
    -------
    anchors : array of int of shape (n_anchors,)
    targets : array of int of shape (n_anchors, n_targets)
        -1 where there are too few.
    impostors : array of int of shape (n_anchors, n_impostors)
    """
    check_consistent_length(X, y)
    n, n_features = X.shape
    cost_of_an_anchor = float(n) * (n_features + _COST_OF_A_PAIR)
    if search == "auto":
        search = "anchors"
        if n * cost_of_an_anchor <= EXACT_PRODUCTS:
            search = "exact"
        elif has_faiss() and not isinstance(X, Rows):
            search = "approximate"
    anchors = np.arange(n)
    if search == "approximate":
        if isinstance(X, Rows):
            raise ValueError(
                "search='approximate' needs rows in memory, where its index is; "
                "use search='anchors'."
            )
        if not has_faiss():
            raise ImportError(
                "search='approximate' needs faiss; install nearfar[faiss], or use search='anchors'."
            )
        found = approximate_neighbors(X, y, n_targets, n_impostors, random_state)
        targets, impostors = found.targets, found.impostors
        mining = Mining(search, n, n, found.target_recall, found.impostor_recall, found.n_measured)
    elif search == "exact" and not isinstance(X, Rows):
        targets, impostors = class_neighbors(X, y, n_targets, n_impostors)
        mining = Mining(search, n, n)
    else:
        if search == "anchors":
            n_anchors = n_anchors or max(FEWEST_ANCHORS, int(EXACT_PRODUCTS / cost_of_an_anchor))
            # An anchor needs another member of its class.
            codes = np.unique(y, return_inverse=True)[1]
            anchors = np.flatnonzero(np.bincount(codes)[codes] > 1)
            if len(anchors) > n_anchors:
                anchors = np.sort(random_state.choice(anchors, n_anchors, replace=False))
        targets, impostors = anchor_neighbors(X, y, anchors, n_targets, n_impostors)
        mining = Mining(search, n, len(anchors))
    reports = _reports.get()
    if reports is not None:
        reports.append(mining)
    return anchors, targets, impostors


@contextmanager
def mining_reports() -> Iterator[list[Mining]]:
    """Collect what searches report in this block.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import NearestTriplets
    >>> from nearfar.constraints import mining_reports
    >>> with mining_reports() as reports:
    ...     triplets = NearestTriplets()(np.eye(4), np.array([0, 0, 1, 1]))
    >>> reports[0].search
    'exact'
    """
    reports: list[Mining] = []
    token = _reports.set(reports)
    try:
        yield reports
    finally:
        _reports.reset(token)


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
    for top in counted(range(0, n, _TILE_ROWS), -(-n // _TILE_ROWS)):
        rows = range(top, min(top + _TILE_ROWS, n))
        same = _Shortlist(points, rows, n_targets, farthest=farthest_targets)
        other = _Shortlist(points, rows, n_impostors)
        left = points.points[top : rows.stop] * np.float32(-2)
        left[:, -1] = 1
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
        self.candidates: list[tuple[Ints, Ints, Float32s]] = []
        self.n_candidates = 0

    def bound(self, G: Float32s) -> None:
        """Start from the k-th smallest upper bound over the sampled columns."""
        if not 0 < self.k <= G.shape[1]:
            return
        upper = self._signed(G, self.rows, self.points.sample)
        upper += self._gap(self.rows, self.points.sample)
        self.limit = np.partition(upper, self.k - 1, axis=1)[:, self.k - 1 : self.k].copy()

    def offer(self, G: Float32s, rows: range, columns: range) -> None:
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
        # The k-th smallest upper bound of each row is its new limit.
        row = i - self.rows.start
        rank = place_in_run(row)
        fresh = np.full((len(self.rows), rank.max() + 1), np.inf, dtype=np.float32)
        fresh[row, rank] = lower + self._gap(i, j)
        self.best = np.partition(np.hstack([self.best, fresh]), self.k - 1, axis=1)[:, : self.k]
        np.minimum(self.limit, self.best[:, -1:], out=self.limit)
        self.candidates.append((i, j, lower))
        self.n_candidates += len(i)
        if self.n_candidates > _MAX_CANDIDATES:
            self._settle()

    def ranked(self) -> Ints:
        """Original numbers of the best columns of each row, best first, -1 where there are none."""
        result = np.full((len(self.rows), self.k), -1, dtype=np.intp)
        if self.candidates:
            i, j, _, rank = self._settle()
            result[i - self.rows.start, rank] = self.points.order[j]
        return result

    def _signed(self, G: Float32s, rows: range, columns: range) -> Float32s:
        """Lower bounds of what is to be smallest: the distance, or its negative."""
        if not self.farthest:
            return G
        return np.where(np.isfinite(G), -G - self._gap(rows, columns), np.float32(np.inf))

    def _gap(self, i: Ints | range, j: Ints | range) -> Float32s:
        """Upper minus lower bound; never zero, so that ties stay candidates."""
        norms = self.points.norms
        total = np.add.outer(norms[i], norms[j]) if isinstance(i, range) else norms[i] + norms[j]
        return (4 * self.points.slack * total + 1e-30).astype(np.float32)

    def _settle(self) -> tuple[Ints, Ints, Float32s, Ints]:
        """Rank the candidates by exact distance and forget all but the best k of each row."""
        i, j, lower = (np.concatenate(parts) for parts in zip(*self.candidates, strict=True))
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
        self.candidates, self.n_candidates = [(i, j, lower)], len(i)
        return i, j, lower, rank
