"""`TiledEdges`: `SignedEdges` between rows that are not in memory.

Rows are read in pieces of a few megabytes. A band is a run of pieces. Edges (i, j), i < j, are
sorted by the band of i and the piece of j, so that those of a band and a piece are a slice, a tile.
With W the weights as a matrix and d the sums of its rows and columns,

    gram(u) = S + S'        S = sum over bands of X_b' T_b        T_b = diag(d_b / 2) X_b - W_b X

T_b is accumulated piece by piece. Pieces come in descending order: once piece p has been read, its
rows of T_b are complete, since i < j. A band therefore reads each piece from its own first one on
once, and keeps no more than T_b.

Edges, and the constraints that each belongs to, are in a temporary file (`Scratch`), which has no
name and is gone with the process. It is made where `tempfile` puts files, which the environment
variable TMPDIR changes. In memory are vectors of rows and of constraints, in the precision of X,
and those of one band.
"""

from __future__ import annotations

import tempfile
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator

from nearfar.rows import Rows
from nearfar.runtime.threads import Executor, Threads
from nearfar.typing import Array, Floats, Ints, Matrix, Vector

# Memory of T_b; each band reads all rows that follow, so that larger bands read less.
_BAND_BYTES = 1 << 27
# There are at least so many bands where memory would allow fewer, so that workers share them.
_BANDS = 8
# Rows of a product X_b' T_b, which is summed in float64.
_GEMM_ROWS = 4096
# Edges whose rows of T are updated at a time; these should stay in the cache.
_TILE_EDGES = 2048
# Numbers in a block of differences: two megabytes.
_DIFFERENCES = 1 << 18
# Constraints in a block; this bounds the memory of copies.
_BLOCK = 1 << 18
# Members that are read from the file at a time; fewer would mean more reads.
_BLOCK_MEMBERS = 1 << 20
_SIGNS = (1.0, -1.0)


@dataclass(frozen=True, eq=False)
class BandEdges:
    """Edges (i, j) with i in a band of rows, sorted by the piece of j.

    Attributes
    ----------
    rows: The rows of the band.
    pieces: Pieces of the rows from the band's first row on; those of the band come first.
    starts: shape (n_pieces + 1,). Where the edges of each piece begin.
    i, j: shape (n_edges,). Ends, counted from the first row of the band and from that of
        the piece.
    """

    rows: slice
    pieces: list[slice]
    starts: Ints
    i: StoredArray
    j: StoredArray

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
            # T -= W X for the tile, a few edges at a time, which stay in the cache.
            i, j, weights = self.i[edges], self.j[edges], w[edges]
            buffer = np.empty((min(_TILE_EDGES, len(i)), X.shape[1]), dtype=T.dtype)
            for top in range(0, len(i), _TILE_EDGES):
                some = slice(top, top + _TILE_EDGES)
                first = np.flatnonzero(np.diff(i[some], prepend=-1))
                starts = np.append(first, len(i[some])).astype(i.dtype)
                W = csr_array((weights[some], j[some], starts), shape=(len(first), len(X)))
                at, rows_of_T = i[some][first], buffer[: len(first)]
                np.take(T, at, axis=0, out=rows_of_T, mode="clip")
                rows_of_T -= W @ X
                T[at] = rows_of_T
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
            i, j = self.i[edges], self.j[edges]
            for top in range(0, len(i), size):
                some = slice(top, top + size)
                difference = inside[i[some]]
                difference -= X[j[some]]
                if L is not None:
                    difference = difference @ L.T
                wide = difference.astype(np.float64, copy=False)
                z[edges][some] = np.einsum("ij,ij->i", wide, wide)
        return z


@dataclass(frozen=True, eq=False)
class BandMembers:
    """Which constraints the edges of a band belong to.

    Attributes
    ----------
    codes: shape (n_members,). Numbers of constraints, sorted by edge; those of second edges
        plus `n_constraints`.
    first: shape (n_edges,). Where the members of each edge begin; None if each edge has
        one.
    """

    codes: StoredArray
    first: StoredArray | None
    n_constraints: int

    def weights(self, u: Vector, dtype: DTypeLike) -> Vector:
        """B'u for the edges of the band."""
        w = np.empty(len(self.codes if self.first is None else self.first), dtype=dtype)
        for edges, first, numbers, second in self._blocks():
            values = u[numbers]
            np.negative(values, out=values, where=second)
            w[edges] = values if first is None else np.add.reduceat(values, first, dtype=np.float64)
        return w

    def combine(self, z: Vector, margins: Vector) -> None:
        """Add B z to the margins, for the edges of the band."""
        for edges, first, numbers, second in self._blocks():
            values = _at_members(z[edges], first, len(numbers))
            margins[numbers[~second]] += values[~second]
            margins[numbers[second]] -= values[second]

    def total(self, z: Vector, weight: Vector | None) -> float:
        """Sum of a quantity of edges over the members."""
        total = 0.0
        for edges, first, numbers, _ in self._blocks():
            values = _at_members(z[edges], first, len(numbers))
            total += float(values.sum() if weight is None else values @ weight[numbers])
        return total

    def _blocks(self) -> Iterator[tuple[slice, Ints | None, Ints, NDArray[np.bool_]]]:
        """Yield runs of edges, where the members of each begin, and the members."""
        n_edges = len(self.codes if self.first is None else self.first)
        for top in range(0, n_edges, _BLOCK_MEMBERS):
            edges = slice(top, min(top + _BLOCK_MEMBERS, n_edges))
            first, members = None, edges
            if self.first is not None:
                ends = self.first[edges.start : edges.stop + 1]
                stop = ends[-1] if edges.stop < n_edges else len(self.codes)
                first = ends[: edges.stop - edges.start] - ends[0]
                members = slice(int(ends[0]), int(stop))
            numbers = self.codes[members]
            second = numbers >= self.n_constraints
            numbers -= second * numbers.dtype.type(self.n_constraints)
            yield edges, first, numbers, second


def _at_members(z: Vector, first: Ints | None, n_members: int) -> Vector:
    return z if first is None else np.repeat(z, np.diff(first, append=n_members))


class TiledEdges:
    """Constraints over rows that are not in memory."""

    def __init__(self, X: Rows, a: Ints, *others: Ints) -> None:
        self.X = X
        self.a, self.others = a, others
        self.threads = Threads()
        self._scratch = Scratch()
        self.bands: list[BandEdges] = []
        self._members: list[BandMembers] = []
        for (own, pieces), unsorted in zip(_bands(X), self._by_band(), strict=True):
            self._add(own, pieces, *(part[:] for part in unsorted))
        self._executor: Executor | None = None
        self._held: list[Any] = []

    def _by_band(self) -> list[tuple[StoredArray, StoredArray, StoredArray]]:
        """Store the ends and the code of each edge of a constraint, by band."""
        stops = np.array([own.stop for own, _ in _bands(self.X)])
        m = len(self.a)
        code_type = np.int32 if m * len(self.others) < 2**31 else np.int64

        def blocks() -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
            for number, other in enumerate(self.others):
                for top in range(0, m, _BLOCK_MEMBERS):
                    ends = self.a[top : top + _BLOCK_MEMBERS], other[top : top + _BLOCK_MEMBERS]
                    low, high = np.minimum(*ends), np.maximum(*ends)
                    codes = np.arange(len(low)) + (number * m + top)
                    yield np.searchsorted(stops, low, side="right"), low, high, codes

        counts = np.zeros(len(stops), dtype=np.intp)
        for band, *_ in blocks():
            counts += np.bincount(band, minlength=len(stops))
        found = [
            (
                self._scratch.reserve(count, np.int64),
                self._scratch.reserve(count, np.int64),
                self._scratch.reserve(count, code_type),
            )
            for count in counts.tolist()
        ]
        filled = np.zeros(len(stops), dtype=np.intp)
        for band, *values in blocks():
            order = np.argsort(band.astype(np.uint16 if len(stops) < 2**16 else int), kind="stable")
            bounds = np.searchsorted(band[order], np.arange(len(stops) + 1)).tolist()
            for number, (start, stop) in enumerate(pairwise(bounds)):
                at = slice(int(filled[number]), int(filled[number]) + stop - start)
                for array, value in zip(found[number], values, strict=True):
                    array[at] = value[order[start:stop]]
            filled += np.diff(bounds)
        return found

    def _add(self, own: slice, pieces: list[slice], low: Ints, high: Ints, codes: Ints) -> None:
        """Sort the edges of a band into tiles, and store them."""
        tops = np.array([part.start for part in pieces])
        height, width = own.stop - own.start, max(part.stop - part.start for part in pieces)
        piece = np.searchsorted(tops, high, side="right") - 1
        key = piece * height
        key += low
        key -= own.start
        key *= width
        high -= tops[piece]
        key += high
        del piece, low, high
        order = np.argsort(key, kind="stable")
        key = key[order]
        store = self._scratch.store
        stored = store(codes[order])
        del order
        is_new = np.diff(key, prepend=-1) != 0
        first = None
        if not is_new.all():
            first = store(np.flatnonzero(is_new).astype(codes.dtype))
            key = key[is_new]
        self._members.append(BandMembers(stored, first, len(self.a)))
        j = store((key % width).astype(np.int32))
        key //= width
        i = store((key % height).astype(np.int32))
        key //= height
        starts = np.searchsorted(key, np.arange(len(pieces) + 1))
        self.bands.append(BandEdges(own, pieces, starts, i, j))

    def __len__(self) -> int:
        """Number of distinct edges."""
        return sum(len(band.i) for band in self.bands)

    @property
    def n_stored(self) -> int:
        """Number of entries of the half Laplacian."""
        return len(self) + len(self.X)

    @property
    def n_reads(self) -> float:
        """How often `gram` reads all rows."""
        return (len(self.bands) + 1) / 2

    def project(self, V: Floats) -> Floats:
        """X V."""
        return np.asarray(self.X.project(V))

    def pull(self, Y: Floats) -> Matrix:
        """X' Y."""
        return np.asarray(self.X.pull(Y))

    def margins(self, v: Vector) -> Vector:
        """B (E X v)^2, in the precision of X."""
        return self.embedding_distances(self.project(v)[:, None])

    def embedding_distances(self, P: Floats) -> Vector:
        """B z for the squared Euclidean distances z between the rows of P, an embedding of X."""
        h = np.empty(len(self.a), dtype=self.X.dtype)

        def fill(part: slice) -> None:
            inside = P[self.a[part]].astype(np.float64, copy=False)
            differences = [P[other[part]] - inside for other in self.others]
            values = [np.einsum("ij,ij->i", wide, wide) for wide in differences]
            h[part] = values[0] - sum(values[1:])

        for _ in self.threads.map(fill, len(h), max(1, _BLOCK // P.shape[1])):
            pass
        return h

    def distances(
        self, L: Matrix | None = None, weight: Vector | None = None
    ) -> tuple[Vector, float]:
        """Return B z for the squared distances z of the edges, and their mean over constraints."""
        margins, total = np.zeros(len(self.a), dtype=self.X.dtype), 0.0
        L = None if L is None else L.astype(self.X.dtype, copy=False)
        tasks = ((band, self.X.handle, L) for band in self._handles())
        bands = self.X.executor.map(BandEdges.distances, tasks, memory=self._band_bytes)
        for members, z in zip(self._members, bands, strict=True):
            members.combine(z, margins)
            total += members.total(z, weight)
        n = len(self.a) if weight is None else float(weight.sum())
        return margins, total / (n * len(self.others))

    def gram(self, u: Vector) -> Matrix:
        """X' E' diag(B'u) E X, dense."""
        sums = np.zeros(len(self.X))
        for block, a, others in self._blocks():
            values = u[block].astype(np.float64)
            np.add.at(sums, others[0], values)
            if len(others) == 1:
                np.add.at(sums, a, values)
            else:  # What the far row adds to the anchor, the near row takes away.
                np.subtract.at(sums, others[1], values)
        degree = sums.astype(self.X.dtype)
        tasks = (
            (handle, self.X.handle, members.weights(u, self.X.dtype), degree[band.rows])
            for handle, members, band in zip(
                self._handles(), self._members, self.bands, strict=True
            )
        )
        S = np.zeros((self.X.shape[1], self.X.shape[1]))
        for part in self.X.executor.map(BandEdges.scatter, tasks, memory=self._band_bytes):
            S += part
        return S + S.T

    def gram_operator(self, u: Vector) -> LinearOperator:
        """`gram` as a linear operator: two passes over X and one over the constraints."""

        def product(v: Vector) -> Vector:
            p = self.project(v.ravel())
            return self.pull(self.gram_product(u, p)).astype(self.X.dtype)

        D = self.X.shape[1]
        return LinearOperator((D, D), matvec=product, dtype=self.X.dtype)

    def gram_product(self, u: Vector, P: Floats) -> Floats:
        """E' diag(B'u) E P, column by column."""
        columns = P.reshape(len(P), -1).T
        out = np.zeros(columns.shape)
        for row, p in zip(out, columns.astype(np.float64), strict=True):
            for part, a, others in self._blocks():
                for sign, b in zip(_SIGNS, others, strict=False):
                    pull = sign * u[part] * (p[a] - p[b])
                    np.add.at(row, a, pull)
                    np.subtract.at(row, b, pull)
        return out.T.reshape(P.shape)

    def _blocks(self) -> Iterator[tuple[slice, Ints, list[Ints]]]:
        """Yield runs of constraints, and the rows that they join."""
        for top in range(0, len(self.a), _BLOCK):
            part = slice(top, top + _BLOCK)
            yield part, self.a[part], [other[part] for other in self.others]

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
    """Yield the rows of each band, and the pieces from its first row on."""
    row_bytes = X.shape[1] * X.dtype.itemsize
    height = max(1, min(_BAND_BYTES // max(1, row_bytes), -(-len(X) // _BANDS)))
    pieces = X.pieces
    first = 0
    for number, part in enumerate(pieces):
        last = number + 1 == len(pieces)
        if last or pieces[number + 1].stop - pieces[first].start > height:
            yield slice(pieces[first].start, part.stop), pieces[first:]
            first = number + 1


class Scratch:
    """A temporary file that holds arrays."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="nearfar-", buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._lock = threading.Lock()
        self._size = 0

    def reserve(self, length: int, dtype: DTypeLike) -> StoredArray:
        """Return an array to be filled."""
        array = StoredArray(self, self._size, length, np.dtype(dtype))
        self._size += array.nbytes
        return array

    def store(self, values: Array) -> StoredArray:
        """Write an array."""
        array = self.reserve(len(values), values.dtype)
        array[0 : len(values)] = values
        return array

    def read(self, offset: int, buffer: memoryview) -> None:
        """Fill a buffer with the bytes from an offset on."""
        with self._lock:
            self._file.seek(offset)
            while len(buffer):
                count = self._file.readinto(buffer)
                if not count:
                    raise OSError("The temporary file is shorter than what was written to it.")
                buffer = buffer[count:]

    def write(self, offset: int, buffer: memoryview) -> None:
        """Write bytes at an offset."""
        with self._lock:
            self._file.seek(offset)
            while len(buffer):
                try:
                    buffer = buffer[self._file.write(buffer) :]
                except OSError as error:
                    # The file has no name, but the user can choose another folder.
                    where = f"{tempfile.gettempdir()} (set TMPDIR to use another folder)"
                    raise OSError(error.errno, error.strerror, where) from error


class StoredArray:
    """A one-dimensional array in a temporary file; slices of it are read and written.

    It is pickled as an array.
    """

    def __init__(
        self, scratch: Scratch, offset: int, length: int, dtype: np.dtype[np.generic]
    ) -> None:
        self._scratch, self._offset, self._length = scratch, offset, length
        self.dtype = dtype

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return self._length * self.dtype.itemsize

    def __getitem__(self, part: slice) -> Array:
        """Read a slice, as a new array."""
        start, stop, _ = part.indices(self._length)
        values = np.empty(max(0, stop - start), dtype=self.dtype)
        self._scratch.read(self._at(start), _bytes_of(values))
        return values

    def __setitem__(self, part: slice, values: Array) -> None:
        values = np.ascontiguousarray(values, dtype=self.dtype)
        self._scratch.write(self._at(part.indices(self._length)[0]), _bytes_of(values))

    def __reduce__(self) -> tuple[object, tuple[Array]]:
        return np.asarray, (self[:],)

    def _at(self, index: int) -> int:
        return self._offset + index * self.dtype.itemsize


def _bytes_of(values: Array) -> memoryview:
    # An empty buffer cannot be cast.
    return values.data.cast("B") if values.size else memoryview(b"")
