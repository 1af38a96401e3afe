"""Exact nearest rows by Euclidean distance, at the speed of float32 matrix products.

A tile of squared distances comes from one float32 product with the norms as an extra column,

    G_ij = (1 - 2g) |x_j|^2 - 2 q_i'x_j,

where g bounds the relative rounding error of the product. G_ij + (1 - 2g) |q_i|^2 is then a lower
bound of the squared distance, and 4g (|q_i|^2 + |x_j|^2) above it an upper bound. A row stays a
candidate while its lower bound is below the k-th smallest upper bound of its query. Few do; they
are ranked by float64 differences, so the result does not depend on the precision of the product.

Queries are cut into blocks, which threads share. Each thread holds one tile, and candidates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearfar.numerics.sorted_rows import UNIT_ROUNDOFF, place_in_run, sparse_nonzero
from nearfar.runtime.deadline import check_time
from nearfar.runtime.progress import counted
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
# Float32 can square queries that are this many times as far out as the rows.
_MOST_REACH = 1e15

Tile = NDArray[np.float32]


class NearestRows:
    """Rows that are searched for the nearest to queries.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Rows; the nearer their mean is to the origin, the fewer candidates there are.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.nearest_rows import NearestRows
    >>> rows = NearestRows(np.array([[0.0], [3.0], [4.0]]))
    >>> rows.nearest(np.array([[1.0]]), 2)
    (array([[1., 2.]]), array([[0, 1]]))
    """

    def __init__(self, X: Floats) -> None:
        n, n_features = X.shape
        self.X = X
        self.slack = (n_features + 8) * UNIT_ROUNDOFF
        reach = float(np.abs(X).max(initial=0.0))
        self.shrink = 1.0 / reach if reach > 0 else 1.0
        self.norms = np.empty(n)
        self.points = np.empty((n, n_features + 1), dtype=np.float32)
        for start in range(0, n, _TILE_COLUMNS):
            rows = slice(start, start + _TILE_COLUMNS)
            block = np.asarray(X[rows], dtype=np.float64) * self.shrink
            self.points[rows, :-1] = block
            self.norms[rows] = np.einsum("ij,ij->i", block, block)
        self.points[:, -1] = (1 - 2 * self.slack) * self.norms

    def reaches(self, queries: Floats) -> bool:
        """Whether float32 is enough for these queries."""
        return float(np.abs(queries).max(initial=0.0)) * self.shrink <= _MOST_REACH

    def nearest(self, queries: Floats, k: int, own: Ints | None = None) -> tuple[Matrix, Ints]:
        """Find the k nearest rows to each query.

        Parameters
        ----------
        queries : array of shape (n_queries, n_features)
        k : int
        own : array of int of shape (n_queries,), optional
            A row that each query does not find.

        Returns
        -------
        distances, indices : array of shape (n_queries, k)
            Nearest first; of rows at equal distances, the first.
        """
        distances = np.empty((len(queries), k))
        indices = np.empty((len(queries), k), dtype=np.intp)
        size = max(1, min(_BLOCK_QUERIES, _MAX_CANDIDATES // k))

        def search(part: slice) -> None:
            block = _Block(self, queries[part], k, None if own is None else own[part])
            distances[part], indices[part] = block.search()

        blocks = Threads().map(search, len(queries), size)
        for _ in counted(blocks, -(-len(queries) // size)):
            check_time()
        return distances, indices


class _Block:
    """A block of queries with their candidates so far.

    `limit` has the smallest k-th upper bound of each query. Bounds lack (1 - 2g) |q|^2, which is
    the same for all candidates of a query.
    """

    def __init__(self, rows: NearestRows, queries: Floats, k: int, own: Ints | None) -> None:
        self.rows, self.queries, self.k, self.own = rows, queries, k, own
        scaled = np.asarray(queries, dtype=np.float64) * rows.shrink
        self.norms = np.einsum("ij,ij->i", scaled, scaled)
        self.left = np.empty((len(queries), scaled.shape[1] + 1), dtype=np.float32)
        self.left[:, :-1] = -2 * scaled
        self.left[:, -1] = 1
        self.limit = np.full((len(queries), 1), np.inf, dtype=np.float32)
        self.best = np.full((len(queries), k), np.inf, dtype=np.float32)
        self.found: list[tuple[Ints, Ints, Tile]] = []
        self.n_found = 0

    def search(self) -> tuple[Matrix, Ints]:
        """Return distances and row numbers of the nearest rows, in order."""
        points, n_queries = self.rows.points, len(self.queries)
        # The first tile gives limits, so that it is larger if many rows are wanted.
        size = max(_TILE_COLUMNS, _FIRST_COLUMNS * self.k)
        memory = np.empty(n_queries * min(size, len(points)), dtype=np.float32)
        start = 0
        while start < len(points):
            columns = points[start : start + size]
            tile = memory[: n_queries * len(columns)].reshape(n_queries, -1)
            G = np.matmul(self.left, columns.T, out=tile)
            if self.own is not None:
                mine = np.flatnonzero((self.own >= start) & (self.own < start + G.shape[1]))
                G[mine, self.own[mine] - start] = np.inf
            if start == 0:
                norm = self.rows.norms[: G.shape[1]].max()
                smallest = np.partition(G, self.k - 1, axis=1)[:, self.k - 1]
                self.limit[:, 0] = smallest + self._gap(self.norms + norm)
            self.offer(G, start)
            start, size = start + size, _TILE_COLUMNS
        i, j, squared = self._settle()
        width = len(i) // len(self.queries)
        return np.sqrt(squared).reshape(-1, width), j.reshape(-1, width)

    def offer(self, G: Tile, start: int) -> None:
        """Add the candidates of a tile."""
        i, j = sparse_nonzero(self.limit > G)
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
        return (4 * self.rows.slack * norms + 1e-30).astype(np.float32)

    def _settle(self) -> tuple[Ints, Ints, Vector]:
        """Rank candidates by their squared distances and keep the k best of each query."""
        i, j, lower = (np.concatenate(parts) for parts in zip(*self.found, strict=True))
        alive = lower < self.limit[i, 0]
        i, j, lower = i[alive], j[alive], lower[alive]
        squared = self._squared_distances(i, j)
        order = np.lexsort((j, squared, i))
        order = order[place_in_run(i[order]) < self.k]
        i, j, lower = i[order], j[order], lower[order]
        self.found, self.n_found = [(i, j, lower)], len(i)
        return i, j, squared[order]

    def _squared_distances(self, i: Ints, j: Ints) -> Vector:
        X = self.rows.X
        out = np.empty(len(i))
        size = max(1, _PAIR_ELEMENTS // max(1, X.shape[1]))
        for start in range(0, len(i), size):
            some = slice(start, start + size)
            difference = np.subtract(self.queries[i[some]], X[j[some]], dtype=np.float64)
            out[some] = np.einsum("ij,ij->i", difference, difference)
        return out
