"""All pairs of points, tile by tile: the kernel of NCA and all-triplets boosting.

Points are kept in class order. A *band* is a run of rows of one class, or of several whole small
ones; its *tiles* are runs of columns that lie in these classes (near) or outside (far). One matrix
product gives a tile of exponents

    T_ij = near_sign * H_ij - near_shift_i    for near tiles,
    T_ij =            - H_ij - far_shift_i    for far ones,        exp(T_ii) = 0,

with H_ij = sum_c signs_c (P_ic - P_jc)^2 and the shifts folded into the product; then exp, in
place, then the sums and products of the weights exp(T), while the tile is in the cache. Threads
share the bands, which depend on the points alone. `Voted` distances, sums of thresholded squares,
have no such product: their tiles are summed vote by vote.

Rows whose class has one member have no near column; they are columns but never rows of a band.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.numerics.class_order import ClassOrder
from nearfar.runtime.threads import Threads, single_threaded_blas
from nearfar.typing import Floats, Ints, Vector

_TILE_ROWS = 256
_TILE_COLUMNS = 2048
_SERIAL_ELEMENTS = 1 << 20
_TASKS = 16
SMALLEST_FLOAT32_EXPONENT = -85.0
"""Below it exp is subnormal in float32: slow, and of no weight in any sum."""


@dataclass(frozen=True)
class Tile:
    """A run of rows against a run of columns, as near or as far pairs.

    Attributes
    ----------
    rows, columns : slice
        In class order.
    near : bool
        True for pairs of the same class, False for pairs of different classes.
    codes : array of shape (n_samples,) or None
        Class codes, if the tile has pairs of both kinds; those of the other kind are excluded.
    """

    rows: slice
    columns: slice
    near: bool
    codes: Ints | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    def fill_excluded(self, values: Floats, value: float) -> None:
        """Overwrite the pairs of a row with itself, and those of the other kind."""
        if self.near:
            both = np.arange(
                max(self.rows.start, self.columns.start), min(self.rows.stop, self.columns.stop)
            )
            values[both - self.rows.start, both - self.columns.start] = value
        if self.codes is not None:
            same = self.codes[self.rows, None] == self.codes[self.columns]
            values[same != self.near] = value


@dataclass(frozen=True)
class Band:
    """Rows of one class, or of several whole small ones, and the columns of those classes."""

    rows: slice
    near: slice
    codes: Ints | None

    @property
    def height(self) -> int:
        """Number of rows."""
        return self.rows.stop - self.rows.start

    def tiles(self, n: int) -> Iterator[Tile]:
        """Cut all n columns into tiles."""
        yield from self._cut(0, self.near.start, near=False)
        yield from self._cut(self.near.start, self.near.stop, near=True)
        if self.codes is not None:
            yield from self._cut(self.near.start, self.near.stop, near=False)
        yield from self._cut(self.near.stop, n, near=False)

    def _cut(self, start: int, stop: int, *, near: bool) -> Iterator[Tile]:
        inside = start == self.near.start and stop == self.near.stop
        for left in range(start, stop, _TILE_COLUMNS):
            columns = slice(left, min(left + _TILE_COLUMNS, stop))
            yield Tile(self.rows, columns, near, self.codes if inside else None)


WeightsOf = Callable[[Tile], Floats]
"""Tile -> weights; the result may be overwritten."""


class PairTiles(ClassOrder):
    """All pairs of rows in class order, cut into bands of rows and tiles of columns.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Class codes.

    Attributes
    ----------
    bands : list of Band
    """

    def __init__(self, y: NDArray[np.integer[Any]]) -> None:
        super().__init__(y)
        self.bands = list(self._bands())
        self.threads = Threads()

    def _bands(self) -> Iterator[Band]:
        """Yield parts of large classes, and runs of small ones that fit into one band together."""
        first: int | None = None
        for start, stop in pairwise(self.edges.tolist()):
            fits = first is not None and stop - start > 1 and stop - first <= _TILE_ROWS
            if first is not None and not fits:
                yield self._run(first, start)
                first = None
            if 1 < stop - start <= _TILE_ROWS:
                first = start if first is None else first
            elif stop - start > 1:
                for top in range(start, stop, _TILE_ROWS):
                    yield Band(slice(top, min(top + _TILE_ROWS, stop)), slice(start, stop), None)
        if first is not None:
            yield self._run(first, self.n)

    def _run(self, start: int, stop: int) -> Band:
        several = self.codes[start] != self.codes[stop - 1]
        return Band(slice(start, stop), slice(start, stop), self.codes if several else None)

    def for_each(self, work: Callable[[Band], None]) -> None:
        """Apply `work` to every band, on all cores."""

        def nothing_to_add(band: Band) -> tuple[Floats, ...]:
            work(band)
            return ()

        self.sum(nothing_to_add)

    def sum(self, work: Callable[[Band], tuple[Floats, ...]]) -> tuple[Floats, ...]:
        """Add up what `work` returns for every band, on all cores and in a fixed order."""

        def run(part: slice) -> tuple[Floats, ...]:
            return reduce(_add, (work(band) for band in self.bands[part]))

        if not self.bands:
            raise ValueError("No class has two members: there are no near pairs.")
        few = self.n * self.n <= _SERIAL_ELEMENTS
        size = len(self.bands) if few else -(-len(self.bands) // _TASKS)
        with single_threaded_blas():
            return reduce(_add, self.threads.map(run, len(self.bands), size))

    def laplacian(self, weights_of: WeightsOf, T: Floats, *, near_sign: float = 1.0) -> Floats:
        """(Laplacian of the weights) @ T.

        Parameters
        ----------
        weights_of : callable
            Tile -> weights w_ij of its rows; the Laplacian is that of w + w'.
        T : array of shape (n_samples, k)
            In class order.
        near_sign : float, default=1.0
            Factor of the weights of near tiles.

        Returns
        -------
        array of shape (n_samples, k)
            Sum over j of (w_ij + w_ji) (T_i - T_j), for each i.
        """
        own = np.zeros((self.n, T.shape[1]))

        def work(band: Band) -> tuple[Floats, ...]:
            columns, back = np.zeros(self.n), np.zeros((self.n, T.shape[1]))
            mine = T[band.rows]
            for tile in band.tiles(self.n):
                weights = weights_of(tile)
                sign = near_sign if tile.near else 1.0
                own[band.rows] += sign * (
                    weights.sum(axis=1)[:, None] * mine - weights @ T[tile.columns]
                )
                columns[tile.columns] += sign * weights.sum(axis=0)
                back[tile.columns] += sign * (weights.T @ mine)
            return columns, back

        columns, back = self.sum(work)
        return own + columns[:, None] * T - back

    def scatter_matrix(
        self,
        weights_of: WeightsOf,
        X: Floats,
        *,
        near_sign: float = 1.0,
        row_sums: Vector | None = None,
    ) -> Vector:
        """X' (Laplacian of the weights) X, at half the cost of `laplacian` for T = X.

        Sums of the rows' (signed) weights are computed unless they are known and given.
        """
        with_ones = np.vstack([X.T, np.ones(self.n, dtype=X.dtype)])
        rows = np.zeros(self.n) if row_sums is None else row_sums

        def work(band: Band) -> tuple[Floats, ...]:
            left = np.ascontiguousarray(with_ones[:, band.rows])
            product = np.zeros((len(left), self.n), dtype=X.dtype)
            for tile in band.tiles(self.n):
                weights = weights_of(tile)
                sign = near_sign if tile.near else 1.0
                product[:, tile.columns] += sign * (left @ weights)
                if row_sums is None:
                    rows[band.rows] += sign * weights.sum(axis=1, dtype=np.float64)
            return product[:-1] @ X, product[-1]

        S, columns = self.sum(work)
        degree = (rows + columns).astype(X.dtype)
        return np.asarray((X * degree[:, None]).T @ X, dtype=np.float64) - S - S.T

    def whole(self, band: Band, weights_of: WeightsOf) -> Vector:
        """All tiles of a band side by side."""
        result = np.zeros((band.height, self.n))
        for tile in band.tiles(self.n):
            result[:, tile.columns] += weights_of(tile)
        return result


def _add(left: tuple[Floats, ...], right: tuple[Floats, ...]) -> tuple[Floats, ...]:
    return tuple(np.add(a, b, dtype=np.float64) for a, b in zip(left, right, strict=True))


_buffers = threading.local()


def _scratch(shape: tuple[int, int], dtype: np.dtype[Any]) -> Floats:
    """Return this thread's buffer in the shape of a tile, so that it stays in the cache."""
    size = shape[0] * shape[1]
    buffer = getattr(_buffers, dtype.name, None)
    if buffer is None or buffer.size < size:
        buffer = np.empty(size, dtype=dtype)
        setattr(_buffers, dtype.name, buffer)
    return buffer[:size].reshape(shape)


def largest_squared_distance(X: Floats) -> float:
    """Largest squared distance between two rows of X, block by block.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.pair_tiles import largest_squared_distance
    >>> largest_squared_distance(np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0]]))
    25.0
    """
    P = X - X.mean(axis=0)
    norms = np.einsum("ij,ij->i", P, P, dtype=np.float64)
    largest = 0.0
    for top in range(0, len(P), _TILE_ROWS):
        rows = slice(top, top + _TILE_ROWS)
        for left in range(0, top + 1, _TILE_COLUMNS):
            columns = slice(left, left + _TILE_COLUMNS)
            tile = norms[rows, None] + norms[columns] - 2.0 * (P[rows] @ P[columns].T)
            largest = max(largest, float(tile.max()))
    return largest


class PairForm(ABC):
    """Distances between all points in class order; makes tiles of weights.

    A tile lives in a buffer of its thread, until the thread makes the next one.
    """

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Type of the tiles."""

    @abstractmethod
    def scaled(self, tile: Tile, sign: float, shift: Vector | float) -> Floats:
        """Sign * H - shift; the shift is that of the tile's rows."""

    @abstractmethod
    def with_vote(self, p: Vector, threshold: float, alpha: float) -> PairForm:
        """Add ``alpha * [(p_i - p_j)^2 >= threshold]``."""

    def exponents(
        self,
        tile: Tile,
        near_shift: Vector | float = 0.0,
        far_shift: Vector | float = 0.0,
        *,
        near_sign: float = 1.0,
    ) -> Floats:
        """T of a tile, with shifts for all rows; -inf for excluded pairs."""
        result = self._raw(tile, near_shift, far_shift, near_sign)
        tile.fill_excluded(result, -np.inf)
        return result

    def _raw(
        self, tile: Tile, near_shift: Vector | float, far_shift: Vector | float, near_sign: float
    ) -> Floats:
        shift = near_shift if tile.near else far_shift
        if isinstance(shift, np.ndarray):
            shift = shift[tile.rows]
        return self.scaled(tile, near_sign if tile.near else -1.0, shift)

    def weights(
        self,
        tile: Tile,
        near_shift: Vector | float = 0.0,
        far_shift: Vector | float = 0.0,
        *,
        near_sign: float = 1.0,
    ) -> Floats:
        """exp(T) of a tile; 0 for excluded pairs."""
        result = self._raw(tile, near_shift, far_shift, near_sign)
        if result.dtype == np.float32:
            np.maximum(result, SMALLEST_FLOAT32_EXPONENT, out=result)
        tile.fill_excluded(result, 0.0)
        np.exp(result, out=result)
        tile.fill_excluded(result, 0.0)
        return result


@dataclass(frozen=True, eq=False)
class Embedded(PairForm):
    """Squared distances between embedded points, possibly with signs.

    Attributes
    ----------
    P : array of shape (n_samples, k)
        Coordinates.
    signs : array of shape (k,)
        +1, or -1 for coordinates that count negatively.
    """

    P: Floats
    signs: Vector

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the coordinates."""
        return self.P.dtype

    @cached_property
    def _right(self) -> Floats:
        n, k = self.P.shape
        right = np.empty((n, k + 2), dtype=self.dtype)
        right[:, :k] = self.P
        right[:, k] = 1.0
        right[:, k + 1] = self._norms
        return right

    @cached_property
    def _norms(self) -> Vector:
        return np.einsum("ij,ij,j->i", self.P, self.P, self.signs, dtype=np.float64)

    def scaled(self, tile: Tile, sign: float, shift: Vector | float) -> Floats:
        """Sign * H - shift, from one matrix product."""
        height, k = tile.shape[0], self.P.shape[1]
        left = np.empty((height, k + 2), dtype=self.dtype)
        left[:, :k] = self.P[tile.rows] * (-2.0 * sign * self.signs)
        left[:, k] = sign * self._norms[tile.rows] - shift
        left[:, k + 1] = sign
        return np.matmul(left, self._right[tile.columns].T, out=_scratch(tile.shape, self.dtype))

    def extended(self, p: Vector, weight: float) -> Embedded:
        """Add ``weight * (p_i - p_j)^2`` to the squared distances."""
        column = (np.sqrt(abs(weight)) * p).astype(self.dtype)
        return Embedded(
            np.column_stack([self.P, column]), np.append(self.signs, np.copysign(1.0, weight))
        )

    def with_vote(self, p: Vector, threshold: float, alpha: float) -> Voted:
        """Add one vote."""
        return Voted(self, p[None], np.array([threshold]), np.array([alpha]))


@dataclass(frozen=True, eq=False)
class Voted(PairForm):
    """Sums of weak votes, each weight * [(p_i - p_j)^2 >= threshold], on top of other distances.

    Attributes
    ----------
    base : Embedded
        The distances to start from.
    p : array of shape (n_votes, n_samples)
        Projections.
    thresholds, alphas : array of shape (n_votes,)
    """

    base: Embedded
    p: Vector
    thresholds: Vector
    alphas: Vector

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the base's coordinates."""
        return self.base.dtype

    def scaled(self, tile: Tile, sign: float, shift: Vector | float) -> Floats:
        """Sign * H - shift, vote by vote."""
        result = self.base.scaled(tile, sign, shift)
        votes = np.zeros_like(result)
        for p, threshold, alpha in zip(self.p, self.thresholds, self.alphas, strict=True):
            votes += alpha * (squares(p, tile) >= threshold)
        result += sign * votes
        return result

    def with_vote(self, p: Vector, threshold: float, alpha: float) -> Voted:
        """Add one vote."""
        return Voted(
            self.base,
            np.vstack([self.p, p]),
            np.append(self.thresholds, threshold),
            np.append(self.alphas, alpha),
        )


def squares(p: Vector, tile: Tile) -> Vector:
    """(p_i - p_j)^2 of a tile."""
    difference = np.subtract.outer(p[tile.rows], p[tile.columns])
    difference *= difference
    return difference
