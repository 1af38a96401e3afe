"""Exact nearest rows by Euclidean distance, at the speed of float32 matrix products.

A tile of squared distances comes from one float32 product with the norms as an extra column,

    G_ij = (1 - 2g) |x_j|^2 - 2 q_i'x_j,

where g bounds the relative rounding error of the product. G_ij + (1 - 2g) |q_i|^2 is then a lower
bound of the squared distance, and 4g (|q_i|^2 + |x_j|^2) above it an upper bound. A row stays a
candidate while its lower bound is below the k-th smallest upper bound of its query. Few do; they
are ranked by float64 differences, so the result does not depend on the precision of the product.
Farthest rows are found in the same way, with the signs of G changed.

Ties: nearest (farthest) first, then lower row number first. A tolerance may count distances as tied
that agree to the rounding error of the data, so that a change of units changes nothing.

Queries are cut into blocks, which threads share. Each thread holds one tile, and candidates.

Rows in order: classes, and other equal values, as runs of rows.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nearfar.runtime.progress import check_time, tracked
from nearfar.runtime.threads import Threads
from nearfar.typing import Floats, Ints, Matrix, Vector

# A tile of float32 bounds has 4 megabytes for each thread.
_BLOCK_QUERIES = 512
_TILE_COLUMNS = 2048
# Candidates that a block keeps before it ranks them; this bounds memory.
_MAX_CANDIDATES = 1 << 19
# Coordinates of candidates held at a time.
_PAIR_ELEMENTS = 1 << 20
# The first tile has at least this many times the rows that are wanted.
_FIRST_COLUMNS = 8
# A tile gives new limits if more than one in so many of its entries would be candidates, and
# more than so many times the rows that are wanted.
_MANY, _SOME = 32, 4
# Of float32.
_UNIT_ROUNDOFF = 2.0**-24
# Float32 can square queries that are this many times as far out as the rows.
_MOST_REACH = 1e15

Tile = NDArray[np.float32]


class NearestRows:
    """Rows that are searched for the nearest to queries.

    Parameters
    ----------
    numbers: shape (n_samples,). Numbers of the rows, which are found and break ties; by
        default their places in X.
    tolerance: Relative difference below which squared distances are tied.
    farthest: Find the farthest rows instead.
    """

    def __init__(
        self,
        X: Floats,
        numbers: Ints | None = None,
        *,
        tolerance: float = 0.0,
        farthest: bool = False,
    ) -> None:
        n, n_features = X.shape
        self.X, self.tolerance, self.sign = X, tolerance, -1 if farthest else 1
        self.numbers = np.arange(n) if numbers is None else numbers
        self.slack = (n_features + 8) * _UNIT_ROUNDOFF
        self.center = X.mean(axis=0, dtype=np.float64)
        largest = np.maximum(X.max(axis=0) - self.center, self.center - X.min(axis=0))
        reach = float(largest.max(initial=0.0))
        self.shrink = 1.0 / reach if reach > 0 else 1.0
        self.norms = np.empty(n)
        self.points = np.empty((n, n_features + 1), dtype=np.float32)
        for start in range(0, n, _TILE_COLUMNS):
            rows = slice(start, start + _TILE_COLUMNS)
            block = (X[rows] - self.center) * self.shrink
            self.points[rows, :-1] = block
            self.norms[rows] = np.einsum("ij,ij->i", block, block)
        self.points[:, -1] = (1 - 2 * self.sign * self.slack) * self.norms

    def reaches(self, queries: Floats) -> bool:
        """Whether float32 is enough for these queries."""
        largest = float(np.abs(queries - self.center).max(initial=0.0))
        return largest * self.shrink <= _MOST_REACH

    def nearest(
        self,
        queries: Floats,
        k: int,
        own: Ints | None = None,
        *,
        inside: Ints | None = None,
        outside: Ints | None = None,
    ) -> tuple[Matrix, Ints]:
        """Find the k nearest rows to each query.

        Parameters
        ----------
        own: shape (n_queries,). The place of a row that each query does not find.
        inside, outside: shape (n_queries, 2). Where the run of rows starts and stops that each
            query may find, or may not find. Both ascend.

        Returns
        -------
        distances, indices : array of shape (n_queries, k)
            Nearest first; of rows at equal distances, the first. Infinite and -1 where there are
            fewer rows.
        """
        distances = np.full((len(queries), k), np.inf)
        indices = np.full((len(queries), k), -1, dtype=np.intp)
        if k == 0:
            return distances, indices
        size = max(1, min(_BLOCK_QUERIES, _MAX_CANDIDATES // k))

        def search(part: slice) -> None:
            among, left_out = range(len(self.X)), []
            if own is not None:
                left_out.append(np.column_stack([own[part], own[part] + 1]))
            if outside is not None:
                left_out.append(outside[part])
            if inside is not None:
                among = range(inside[part][0, 0], inside[part][-1, 1])
                ends = np.broadcast_to([among.start, among.stop], inside[part].shape)
                left_out += [
                    np.column_stack([ends[:, 0], inside[part][:, 0]]),
                    np.column_stack([inside[part][:, 1], ends[:, 1]]),
                ]
            i, j, squared, rank = _Block(self, queries[part], k, left_out).search(among)
            distances[part][i, rank] = np.sqrt(squared)
            indices[part][i, rank] = self.numbers[j]

        blocks = Threads().map(search, len(queries), size)
        for _ in tracked(blocks, -(-len(queries) // size)):
            check_time()
        return distances, indices


class _Block:
    """A block of queries with their candidates so far."""

    def __init__(self, rows: NearestRows, queries: Floats, k: int, left_out: list[Ints]) -> None:
        self.rows, self.queries, self.k, self.left_out = rows, queries, k, left_out
        scaled = (queries - rows.center) * rows.shrink
        self.norms = np.einsum("ij,ij->i", scaled, scaled)
        self.left = np.empty((len(queries), scaled.shape[1] + 1), dtype=np.float32)
        self.left[:, :-1] = -2 * rows.sign * scaled
        self.left[:, -1] = rows.sign
        self.limit = np.full((len(queries), 1), np.inf, dtype=np.float32)
        self.best = np.full((len(queries), k), np.inf, dtype=np.float32)
        nobody = np.empty(0, dtype=np.intp)
        self.found: list[tuple[Ints, Ints, Tile]] = [(nobody, nobody, np.empty(0, np.float32))]
        self.n_found = 0

    def search(self, among: range) -> tuple[Ints, Ints, Vector, Ints]:
        """Return the best pairs of a query and a row: their squared distances, and ranks."""
        points, n_queries = self.rows.points, len(self.queries)
        # The first tile gives limits, so that it is larger if many rows are wanted.
        size = max(_TILE_COLUMNS, _FIRST_COLUMNS * self.k)
        memory = np.empty(n_queries * min(size, len(among)), dtype=np.float32)
        start = among.start
        while start < among.stop:
            columns = points[start : min(start + size, among.stop)]
            tile = memory[: n_queries * len(columns)].reshape(n_queries, -1)
            G = np.matmul(self.left, columns.T, out=tile)
            for runs in self.left_out:
                low, high = np.clip(runs - start, 0, len(columns)).T
                changes = np.flatnonzero(np.diff(low) | np.diff(high)) + 1
                for top, stop in pairwise([0, *changes.tolist(), n_queries]):
                    G[top:stop, low[top] : high[top]] = np.inf
            self.offer(G, start)
            start, size = start + size, _TILE_COLUMNS
        return self._settle()

    def offer(self, G: Tile, start: int) -> None:
        """Add the candidates of a tile; infinite entries are left out."""
        below = self.limit > G
        if np.count_nonzero(below) > max(G.size // _MANY, _SOME * self.k * len(G)):
            norm = self.rows.norms[start : start + G.shape[1]].max()
            smallest = np.partition(G, self.k - 1, axis=1)[:, self.k - 1]
            upper = smallest + self._gap(self.norms + norm)
            np.minimum(self.limit, upper[:, None], out=self.limit)
            below = self.limit > G
        i, j = _sparse_nonzero(below)
        if len(i) == 0:
            return
        lower = G[i, j]
        j += start
        upper = lower + self._gap(self.norms[i] + self.rows.norms[j])
        place = place_in_run(i)
        fresh = np.full((len(G), place.max() + 1), np.inf, dtype=np.float32)
        fresh[i, place] = upper
        self.best = np.partition(np.hstack([self.best, fresh]), self.k - 1, axis=1)[:, : self.k]
        np.minimum(self.limit, self.best[:, -1:], out=self.limit)
        self.found.append((i, j, lower))
        self.n_found += len(i)
        if self.n_found > 2 * _MAX_CANDIDATES:
            self._settle()

    def _gap(self, norms: Vector) -> Tile:
        """Upper minus lower bound; never zero, so that ties stay candidates."""
        error = 4 * self.rows.slack + 2 * self.rows.tolerance
        return np.asarray(error * norms + 1e-30, dtype=np.float32)

    def _settle(self) -> tuple[Ints, Ints, Vector, Ints]:
        """Rank candidates by their squared distances and keep the k best of each query."""
        i, j, lower = (np.concatenate(parts) for parts in zip(*self.found, strict=True))
        alive = lower < self.limit[i, 0]
        i, j, lower = i[alive], j[alive], lower[alive]
        rows, squared = self.rows, np.empty(len(i))
        size = max(1, _PAIR_ELEMENTS // max(1, rows.X.shape[1]))
        for start in range(0, len(i), size):
            some = slice(start, start + size)
            difference = np.subtract(self.queries[i[some]], rows.X[j[some]], dtype=np.float64)
            squared[some] = np.einsum("ij,ij->i", difference, difference)
        # Candidates at tied distances are a group, in which the lower number comes first.
        order = np.lexsort((rows.sign * squared, i))
        apart = np.diff(squared[order], prepend=0.0) * rows.sign > rows.tolerance * squared[order]
        group = np.cumsum(apart | (np.diff(i[order], prepend=-1) != 0))
        order = order[np.lexsort((rows.numbers[j[order]], group))]
        rank = place_in_run(i[order])
        kept, rank = order[rank < self.k], rank[rank < self.k]
        i, j, lower = i[kept], j[kept], lower[kept]
        self.found, self.n_found = [(i, j, lower)], len(i)
        return i, j, squared[kept], rank


def tie_tolerance(dtype: np.dtype[np.floating]) -> float:
    """Relative difference below which two squared distances of this type of data are tied."""
    return 1e-5 if np.finfo(dtype).bits < 64 else 1e-10


def _sparse_nonzero(mask: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """`mask.nonzero()`, eight entries at a time: most of a tile has no candidate."""
    if mask.shape[1] % 8:
        mask = np.pad(mask, ((0, 0), (0, -mask.shape[1] % 8)))
    word = np.flatnonzero(mask.view(np.uint64))
    hit, byte = mask.reshape(-1, 8)[word].nonzero()
    i, j = np.divmod(word[hit] * 8 + byte, mask.shape[1])
    return i, j


class ClassOrder:
    """Rows sorted by class.

    Parameters
    ----------
    y: shape (n_samples,). Class codes.

    Attributes
    ----------
    order: shape (n_samples,). Row numbers, class by class.
    edges: shape (n_classes + 1,). Where classes begin and end in that order.
    codes: shape (n_samples,). Class of each row in that order, from 0.
    """

    def __init__(self, y: NDArray[np.integer]) -> None:
        self.n = len(y)
        self.order: Ints = np.argsort(y, kind="stable")
        changes = np.flatnonzero(np.diff(y[self.order])) + 1
        self.edges = np.concatenate([[0], changes, [self.n]]).astype(np.intp)
        self.sizes: Ints = np.diff(self.edges)
        self.codes: Ints = np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def size_of_each(self) -> Ints:
        """Size of the class of each row, in class order."""
        return self.sizes[self.codes]


def place_in_run(group: Ints) -> Ints:
    """Position of each element within its run of equal values."""
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    return np.arange(len(group)) - np.repeat(starts, np.diff(starts, append=len(group)))
