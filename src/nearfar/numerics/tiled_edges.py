"""`TiledEdges`: `Edges` between rows that are not in memory.

Rows are read in pieces of a few megabytes. A band is a run of pieces. Edges (i, j), i < j, are
sorted by the band of i and the piece of j, so that those of a band and a piece are a slice, a tile.
With W the weights as a matrix and d the sums of its rows and columns,

    matrix(w) = S + S'        S = sum over bands of X_b' T_b        T_b = diag(d_b / 2) X_b - W_b X

T_b is accumulated piece by piece. Pieces come in descending order: once piece p has been read, its
rows of T_b are complete, since i < j. A band therefore reads each piece from its own first one on
once, and keeps no more than T_b.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator

from nearfar.numerics.edges import Edges
from nearfar.rows import Points, Rows
from nearfar.runtime.threads import Threads
from nearfar.typing import Floats, Ints, Matrix, Vector

_KEPT_BYTES = 1 << 27
_MANY_ROWS = 8
"""Rows are kept in memory if they are no more than one in so many."""

_BAND_BYTES = 1 << 28
_BANDS = 8
_GEMM_ROWS = 4096
_DIFFERENCES = 1 << 18
_BLOCK_EDGES = 1 << 20


def edges_of(X: Points, a: Ints, b: Ints) -> Edges:
    """Return the edges between rows of X.

    If X is not in memory, they are in tiles; or, if they have few ends, between these rows only,
    which are read and kept.
    """
    if not isinstance(X, Rows):
        return Edges(X, a, b)
    is_end = np.zeros(len(X), dtype=np.bool_)
    is_end[a] = is_end[b] = True
    ends = np.flatnonzero(is_end)
    n_bytes = len(ends) * X.shape[1] * X.dtype.itemsize
    if n_bytes > _KEPT_BYTES or len(ends) * _MANY_ROWS > len(X):
        return TiledEdges(X, a, b)
    return Edges(X.take(ends), np.searchsorted(ends, a), np.searchsorted(ends, b))


@dataclass(frozen=True, eq=False)
class BandEdges:
    """Edges (i, j) with i in a band of rows, sorted by the piece of j.

    Attributes
    ----------
    rows : slice
        The rows of the band.
    pieces : list of slice
        Pieces of the rows from the band's first row on; those of the band come first.
    starts : array of int of shape (n_pieces + 1,)
        Where the edges of each piece begin.
    i, j : array of int of shape (n_edges,)
    """

    rows: slice
    pieces: list[slice]
    starts: Ints
    i: Ints
    j: Ints

    @property
    def height(self) -> int:
        """Number of rows."""
        return self.rows.stop - self.rows.start

    def tiles(self) -> Iterator[tuple[slice, slice]]:
        """Yield the pieces that have edges or belong to the band, and their edges, last first."""
        for number in reversed(range(len(self.pieces))):
            part, edges = self.pieces[number], slice(*self.starts[number : number + 2].tolist())
            if edges.start < edges.stop or part.start < self.rows.stop:
                yield part, edges

    def scatter(self, rows: Rows, w: Vector, degree: Vector) -> Matrix:
        """X_b' T_b, for weights of the edges and sums of weights of the band's rows."""
        T = np.zeros((self.height, rows.shape[1]), dtype=rows.dtype)
        S = np.zeros((rows.shape[1], rows.shape[1]))
        for part, edges in self.tiles():
            X = rows.read(part)
            i = self.i[edges] - self.rows.start
            if len(i):
                first = np.flatnonzero(np.diff(i, prepend=-1))
                starts = np.append(first, len(i)).astype(i.dtype)
                W = csr_array(
                    (w[edges], self.j[edges] - part.start, starts), shape=(len(first), len(X))
                )
                T[i[first]] -= W @ X
            if part.start >= self.rows.stop:
                continue
            for top in range(0, len(X), _GEMM_ROWS):
                block = X[top : top + _GEMM_ROWS]
                at = part.start - self.rows.start + top
                Y = T[at : at + len(block)]
                Y += (degree[at : at + len(block)] / 2)[:, None] * block
                S += block.T @ Y
        return S

    def distances(self, rows: Rows, L: Floats | None) -> Vector:
        """Squared distances of the edges between the rows of X, or between those of X L'."""
        z = np.zeros(len(self.i))
        inside = np.empty((self.height, rows.shape[1]), dtype=rows.dtype)
        own = [part for part in self.pieces if part.start < self.rows.stop]
        for part in own:
            inside[part.start - self.rows.start : part.stop - self.rows.start] = rows.read(part)
        size = max(1, _DIFFERENCES // rows.shape[1])
        for part, edges in self.tiles():
            if edges.start == edges.stop:
                continue
            at = part.start - self.rows.start
            X = inside[at : at + part.stop - part.start]
            if part.start >= self.rows.stop:
                X = rows.read(part)
            for top in range(edges.start, edges.stop, size):
                some = slice(top, min(top + size, edges.stop))
                difference = inside[self.i[some] - self.rows.start]
                difference -= X[self.j[some] - part.start]
                if L is not None:
                    difference = difference @ L.T
                wide = difference.astype(np.float64, copy=False)
                z[some] = np.einsum("ij,ij->i", wide, wide)
        return z


class TiledEdges(Edges):
    """Undirected edges between rows that are not in memory.

    Parameters
    ----------
    X : Rows
    a, b : array of int of shape (n_pairs,)
        Ends of the pairs, in any order, with repetitions.
    """

    X: Any

    def __init__(self, X: Rows, a: Ints, b: Ints) -> None:
        self.X = X
        self.threads = Threads()
        kind: Any = np.int32 if max(len(X), len(a)) < 2**31 else np.int64
        low, high = np.minimum(a, b).astype(kind), np.maximum(a, b).astype(kind)
        self.of_pair = np.empty(len(low), dtype=kind)
        self.bands: list[BandEdges] = []
        n_edges = 0
        for own, pieces in _bands(X):
            chosen = np.flatnonzero((low >= own.start) & (low < own.stop))
            band, of_pair = _sorted_into_tiles(own, pieces, low[chosen], high[chosen])
            self.of_pair[chosen] = n_edges + of_pair
            self.bands.append(band)
            n_edges += len(band.i)
        del low, high
        self.i, self.j = np.empty(n_edges, dtype=kind), np.empty(n_edges, dtype=kind)
        self._parts: list[slice] = []
        self._join()
        self._executor: Any = None
        self._held: list[Any] = []

    def _join(self) -> None:
        """Keep the ends of all edges in two arrays, of which bands have slices."""
        top = 0
        for number, band in enumerate(self.bands):
            part = slice(top, top + len(band.i))
            self.i[part], self.j[part] = band.i, band.j
            self.bands[number] = BandEdges(
                band.rows, band.pieces, band.starts, self.i[part], self.j[part]
            )
            self._parts.append(part)
            top = part.stop

    @property
    def n_stored(self) -> int:
        """Number of entries of the half Laplacian."""
        return len(self) + len(self.X)

    @property
    def n_reads(self) -> float:
        """How often `matrix` reads all rows."""
        return (len(self.bands) + 1) / 2

    def project(self, V: Floats) -> Floats:
        """X V."""
        return self.X.project(V)

    def pull(self, Y: Floats) -> Matrix:
        """X' Y."""
        return np.asarray(self.X.pull(Y))

    def lengths(self, v: Vector) -> Vector:
        """(E X v)^2: squared lengths along v."""
        p = np.asarray(self.project(v), dtype=np.float64)
        z = np.empty(len(self))

        def fill(part: slice) -> None:
            np.subtract(p[self.i[part]], p[self.j[part]], out=z[part])
            z[part] *= z[part]

        for _ in self.threads.map(fill, len(self), _BLOCK_EDGES):
            pass
        return z

    def mapped_distances(self, L: Matrix | None = None) -> Vector:
        """Squared Euclidean distances between the rows of X, or between those of X L'."""
        L = None if L is None else L.astype(self.X.dtype, copy=False)
        z = np.empty(len(self))
        tasks = [(band, self.X.handle, L) for band in self._handles()]
        found = self.X.executor.map(BandEdges.distances, tasks, memory=self._band_bytes)
        for part, values in zip(self._parts, found, strict=True):
            z[part] = values
        return z

    def matrix(self, w: Vector) -> Matrix:
        """X' E' diag(w) E X, dense."""
        degree = self._degrees(w).astype(self.X.dtype)
        weights = w.astype(self.X.dtype, copy=False)
        tasks = [
            (handle, self.X.handle, weights[part], degree[band.rows])
            for handle, part, band in zip(self._handles(), self._parts, self.bands, strict=True)
        ]
        S = np.zeros((self.X.shape[1], self.X.shape[1]))
        for part in self.X.executor.map(BandEdges.scatter, tasks, memory=self._band_bytes):
            S += part
        return S + S.T

    def operator(self, w: Vector) -> LinearOperator:
        """`matrix` as a linear operator: two passes over X and one over the edges."""

        def product(v: Vector) -> Vector:
            p = self.project(v.ravel())
            return self.pull(self.laplacian_product(w, p)).astype(self.X.dtype)

        D = self.X.shape[1]
        return LinearOperator((D, D), matvec=product, dtype=self.X.dtype)

    def laplacian_product(self, w: Vector, P: Floats) -> Floats:
        """E' diag(w) E P, column by column."""
        columns = P.reshape(len(P), -1).T
        out = np.empty(columns.shape)
        degree = self._degrees(w)
        for row, p in zip(out, columns, strict=True):
            row[:] = degree * p
            row -= np.bincount(self.i, weights=w * p[self.j], minlength=len(p))
            row -= np.bincount(self.j, weights=w * p[self.i], minlength=len(p))
        return out.T.reshape(P.shape)

    def half_laplacian(self, w: Vector) -> csr_array:
        """Not kept for rows that are not in memory."""
        raise NotImplementedError("Tiled edges have no half Laplacian; use laplacian_product.")

    def _degrees(self, w: Vector) -> Vector:
        """Sums of weights of the edges at each row."""
        degree = np.bincount(self.i, weights=w, minlength=len(self.X))
        degree += np.bincount(self.j, weights=w, minlength=len(self.X))
        return np.asarray(degree, dtype=np.float64)

    @property
    def _band_bytes(self) -> int:
        height = max(band.height for band in self.bands)
        return height * self.X.shape[1] * self.X.dtype.itemsize

    def _handles(self) -> list[Any]:
        """Return what stands for the bands in the arguments of tasks."""
        executor = self.X.executor
        if self._executor is not executor:
            self._executor, self._held = executor, [executor.hold(band) for band in self.bands]
        return self._held


def _bands(X: Rows) -> Iterator[tuple[slice, list[slice]]]:
    """Yield the rows of each band, and the pieces from its first row on.

    Bands are as large as memory allows, since each of them reads all rows that follow, but there
    are enough of them to share out.
    """
    row_bytes = X.shape[1] * X.dtype.itemsize
    height = max(1, min(_BAND_BYTES // max(1, row_bytes), -(-len(X) // _BANDS)))
    pieces = X.pieces
    first = 0
    for number, part in enumerate(pieces):
        last = number + 1 == len(pieces)
        if last or pieces[number + 1].stop - pieces[first].start > height:
            yield slice(pieces[first].start, part.stop), pieces[first:]
            first = number + 1


def _sorted_into_tiles(
    rows: slice, pieces: list[slice], low: Ints, high: Ints
) -> tuple[BandEdges, Ints]:
    """Return the distinct edges of a band, and which of them each pair is."""
    tops = np.array([part.start for part in pieces])
    piece = np.searchsorted(tops, high, side="right") - 1
    height, width = rows.stop - rows.start, max(part.stop - part.start for part in pieces)
    key = piece * height
    key += low - rows.start
    key *= width
    key += high - tops[piece]
    keys, of_pair = np.unique(key, return_inverse=True)
    rest, inside = np.divmod(keys, width)
    piece, i = np.divmod(rest, height)
    starts = np.searchsorted(piece, np.arange(len(pieces) + 1))
    i, j = i + rows.start, inside + tops[piece]
    return BandEdges(rows, pieces, starts, i.astype(low.dtype), j.astype(low.dtype)), of_pair
