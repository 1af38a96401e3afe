"""All pairs of points, band by band: the kernel of NCA, MLKR and all-triplets boosting.

Points are kept in class order. A *band* is a run of rows against all columns; in it, the pairs of
one class (*near* pairs) are a few blocks, all others are *far*. One matrix product gives

    T_ij = -H_ij - far_shift_i,     H_ij = sum_c signs_c (P_ic - P_jc)^2

for a whole band, with the shifts folded into the product; then exp in place, and the sums and
products of the weights while the band is in the cache. A row is complete within its band, so that
weights which depend on the sums of their row need no second pass. Threads share the bands, which
depend on the points alone. Votes, thresholded squares, have no such product and are summed one by
one.

Rows whose class has one member have no near pair; they are columns but never rows of a band. Where
there are no classes, all points are of one class, and the weights of all pairs are of one kind
(`Embedded.soft_weights`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.numerics.nearest_rows import ClassOrder
from nearfar.runtime.threads import Threads
from nearfar.typing import Floats, Matrix, Vector

# Pairs of a band: 4 or 8 megabytes of weights, which should stay in the cache.
_BAND_ELEMENTS = 1 << 20
# Smallest and largest number of rows of a band.
_BAND_ROWS = (32, 256)

# So few pairs are not worth a second thread.
_SERIAL_ELEMENTS = 1 << 20
# Tasks of a pass over all bands, whatever the number of threads: sums are in a fixed order.
_TASKS = 16
# By bytes of the type: below it exp is subnormal, which is slow and has no weight in any sum.
_SMALLEST_EXPONENT = {4: -85.0, 8: -np.inf}

# A block of squared distances has 4 megabytes.
_BLOCK_ROWS = 256
_BLOCK_COLUMNS = 2048


@dataclass(frozen=True)
class Band:
    """A run of rows against all columns.

    Attributes
    ----------
    rows: In class order.
    near: Blocks of near pairs: rows of the band, counted from its first, and columns.
    """

    rows: slice
    near: tuple[tuple[slice, slice], ...]

    @property
    def height(self) -> int:
        """Number of rows."""
        return self.rows.stop - self.rows.start


@dataclass(frozen=True)
class BandWeights:
    """Weights of the pairs of a band.

    Attributes
    ----------
    far: shape (height, n_samples). 0 for near pairs. It lives in a buffer of its thread,
        until the thread fills it again.
    near: One for each near block of the band; 0 for the pair of a row with itself.
    """

    band: Band
    far: Floats
    near: list[Floats]

    def row_sums(self) -> tuple[Vector, Vector]:
        """Sums over near and over far pairs, for each row."""
        near = np.empty(self.band.height)
        for (rows, _), block in zip(self.band.near, self.near, strict=True):
            near[rows] = block.sum(axis=1)
        return near, self.far.sum(axis=1).astype(np.float64)

    def products(self, T: Floats) -> tuple[Matrix, Matrix]:
        """Products of near and of far weights with T, for each row."""
        near = np.empty((self.band.height, T.shape[1]))
        for (rows, columns), block in zip(self.band.near, self.near, strict=True):
            near[rows] = block @ T[columns]
        return near, np.asarray(self.far @ T, dtype=np.float64)

    def merged(
        self, near_factor: Vector | float = -1.0, far_factor: Vector | None = None
    ) -> Floats:
        """All weights in one array, with a factor for each row."""
        if far_factor is not None:
            np.multiply(self.far, far_factor.astype(self.far.dtype)[:, None], out=self.far)
        factor = np.broadcast_to(near_factor, self.band.height).astype(self.far.dtype)
        for (rows, columns), block in zip(self.band.near, self.near, strict=True):
            np.multiply(block, factor[rows, None], out=self.far[rows, columns])
        return self.far


WeightsOf = Callable[[Band], Floats]
"""Band -> weights of its pairs; the result may be overwritten."""


class PairTiles(ClassOrder):
    """All pairs of rows in class order, cut into bands.

    Parameters
    ----------
    y: shape (n_samples,). Class codes.
    anchors: shape (n_samples,). Which rows are in a band; by default all.

    Attributes
    ----------
    counted: shape (n_samples,). Which rows are in a band, in class order.
    """

    def __init__(self, y: NDArray[np.integer], anchors: NDArray[np.bool_] | None = None) -> None:
        super().__init__(y)
        self.counted = self.size_of_each > 1
        if anchors is not None:
            self.counted &= anchors[self.order]
        self.bands = list(self._bands())
        self.threads = Threads()

    def _bands(self) -> Iterator[Band]:
        """Yield runs of rows that are counted."""
        low, high = _BAND_ROWS
        height = max(low, min(high, _BAND_ELEMENTS // max(1, self.n)))
        changes = np.flatnonzero(np.diff(self.counted.astype(np.int8), prepend=0, append=0))
        for start, stop in changes.reshape(-1, 2).tolist():
            for top in range(start, stop, height):
                bottom = min(top + height, stop)
                near = []
                for code in range(int(self.codes[top]), int(self.codes[bottom - 1]) + 1):
                    first, end = int(self.edges[code]), int(self.edges[code + 1])
                    rows = slice(max(first, top) - top, min(end, bottom) - top)
                    near.append((rows, slice(first, end)))
                yield Band(slice(top, bottom), tuple(near))

    def for_each(self, work: Callable[[Band], None]) -> None:
        """Apply `work` to every band, on all cores."""

        def nothing_to_add(band: Band) -> tuple[Floats, ...]:
            work(band)
            return ()

        self.sum(nothing_to_add)

    def sum(self, work: Callable[[Band], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Add up what `work` returns for every band, on all cores and in a fixed order."""

        def run(part: slice) -> tuple[Any, ...]:
            return reduce(_add, (work(band) for band in self.bands[part]))

        if not self.bands:
            raise ValueError("No class has two members: there are no near pairs.")
        few = self.n * self.n <= _SERIAL_ELEMENTS
        size = len(self.bands) if few else -(-len(self.bands) // _TASKS)
        return reduce(_add, self.threads.map(run, len(self.bands), size))

    def laplacian(self, weights_of: WeightsOf, T: Floats) -> Floats:
        """(Laplacian of the weights) @ T, for weights whose rows sum to zero.

        Parameters
        ----------
        weights_of: Band -> weights w_ij of its rows; the Laplacian is that of w + w'.
        T: shape (n_samples, k). In class order.

        Returns
        -------
        array of shape (n_samples, k)
            Sum over j of (w_ij + w_ji) (T_i - T_j), for each i.
        """
        own = np.zeros((self.n, T.shape[1]))

        def work(band: Band) -> tuple[Floats, ...]:
            weights = weights_of(band)
            own[band.rows] = weights @ T
            return column_sums(weights), weights.T @ T[band.rows]

        columns, back = self.sum(work)
        return np.asarray(columns[:, None] * T - own - back)

    def scatter_matrix(self, weights_of: WeightsOf, X: Floats) -> Matrix:
        """X' (Laplacian of the weights) X, for weights whose rows sum to zero."""

        def work(band: Band) -> tuple[Floats, ...]:
            weights = weights_of(band)
            return X[band.rows].T @ (weights @ X), column_sums(weights)

        return laplacian_form(X, *self.sum(work))


def laplacian_form(X: Floats, S: Matrix, columns: Vector) -> Matrix:
    """X' (Laplacian of w + w') X from S = X' w X and column sums, if rows of w sum to zero."""
    weighted = X * columns.astype(X.dtype)[:, None]
    return np.asarray(weighted.T @ X, dtype=np.float64) - S - S.T


def column_sums(weights: Floats) -> Floats:
    """Sum over the rows; a product is faster than a reduction along the slow axis."""
    return np.ones(len(weights), dtype=weights.dtype) @ weights


def _add(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(np.add(a, b, dtype=np.float64) for a, b in zip(left, right, strict=True))


_buffers = threading.local()


def largest_squared_distance(X: Floats) -> float:
    """Largest squared distance between two rows of X, block by block."""
    P = X - X.mean(axis=0)
    norms = np.einsum("ij,ij->i", P, P, dtype=np.float64)
    largest = 0.0
    for top in range(0, len(P), _BLOCK_ROWS):
        rows = slice(top, top + _BLOCK_ROWS)
        for left in range(0, top + 1, _BLOCK_COLUMNS):
            columns = slice(left, left + _BLOCK_COLUMNS)
            tile = norms[rows, None] + norms[columns] - 2.0 * (P[rows] @ P[columns].T)
            largest = max(largest, float(tile.max()))
    return largest


@dataclass(frozen=True, eq=False)
class Embedded:
    """Squared distances between embedded points, in class order; makes weights of bands.

    Attributes
    ----------
    P: shape (n_samples, k). Coordinates.
    signs: shape (k,). +1, or -1 for coordinates that count negatively.
    votes: Projections p, a threshold and a weight: ``weight * [(p_i - p_j)^2 >= threshold]`` is
        added to the distances.
    """

    P: Floats
    signs: Vector
    votes: tuple[tuple[Vector, float, float], ...] = ()

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """Type of the coordinates and of the weights."""
        return self.P.dtype

    @cached_property
    def _right(self) -> Floats:
        ones = np.ones(len(self.P), dtype=self.dtype)
        return np.column_stack([self.P, ones, self._norms.astype(self.dtype)])

    @cached_property
    def _norms(self) -> Vector:
        return np.einsum("ij,ij,j->i", self.P, self.P, self.signs, dtype=np.float64)

    def negative(self, band: Band, shift: Vector | float, number: int) -> Floats:
        """-H - shift of all pairs of a band, from one matrix product; the shift is of its rows."""
        k = self.P.shape[1]
        left = np.empty((band.height, k + 2), dtype=self.dtype)
        left[:, :k] = self.P[band.rows] * (2.0 * self.signs)
        left[:, k] = -self._norms[band.rows] - shift
        left[:, k + 1] = -1.0
        # Each thread has buffers of its own, which stay in the cache.
        size, name = band.height * len(self.P), f"{self.dtype.name}.{number}"
        buffer = getattr(_buffers, name, None)
        if buffer is None or buffer.size < size:
            buffer = np.empty(size, dtype=self.dtype)
            setattr(_buffers, name, buffer)
        result = np.matmul(left, self._right.T, out=buffer[:size].reshape(band.height, -1))
        if self.votes:
            total = np.zeros_like(result)
            for p, threshold, alpha in self.votes:
                total += alpha * (squares(p, band) >= threshold)
            result -= total
        return result

    def extended(self, p: Vector, weight: float) -> Embedded:
        """Add ``weight * (p_i - p_j)^2`` to the squared distances."""
        column = (np.sqrt(abs(weight)) * p).astype(self.dtype)
        signs = np.append(self.signs, np.copysign(1.0, weight))
        return Embedded(np.column_stack([self.P, column]), signs, self.votes)

    def with_vote(self, p: Vector, threshold: float, alpha: float) -> Embedded:
        """Add ``alpha * [(p_i - p_j)^2 >= threshold]``."""
        return replace(self, votes=(*self.votes, (p, threshold, alpha)))

    def weights(
        self,
        band: Band,
        near_shift: Vector | float = 0.0,
        far_shift: Vector | float = 0.0,
        *,
        near_sign: float = 1.0,
        number: int = 0,
    ) -> BandWeights:
        """exp(near_sign H - near_shift) of near pairs, exp(-H - far_shift) of far ones.

        Parameters
        ----------
        number: Which of the thread's buffers to fill.
        """
        far, near = self._exponents(band, near_shift, far_shift, near_sign, number)
        smallest = _SMALLEST_EXPONENT[self.dtype.itemsize]
        if smallest > -np.inf:
            np.maximum(far, smallest, out=far)
        # Pairs that do not count are excluded before exp, which their exponents could overflow, and
        # after it. An exponent of -inf would do both, but it is slow.
        for (rows, columns), block in zip(band.near, near, strict=True):
            far[rows, columns] = 0.0
            np.maximum(block, smallest, out=block)
            _exclude_own(band, rows, columns, block, 0.0)
            np.exp(block, out=block)
            _exclude_own(band, rows, columns, block, 0.0)
        np.exp(far, out=far)
        for rows, columns in band.near:
            far[rows, columns] = 0.0
        return BandWeights(band, far, near)

    def soft_weights(self, band: Band) -> Floats:
        """exp(-H) of all pairs, whatever their classes, and 0 for the pair of a row with itself.

        Each row is divided by its largest weight, so that no sum underflows.
        """
        weights = self.negative(band, 0.0, 0)
        rows = slice(0, band.height), slice(0, weights.shape[1])
        _exclude_own(band, *rows, weights, -np.inf)
        weights -= weights.max(axis=1, keepdims=True)
        np.maximum(weights, _SMALLEST_EXPONENT[self.dtype.itemsize], out=weights)
        np.exp(weights, out=weights)
        _exclude_own(band, *rows, weights, 0.0)
        return weights

    def log_sums(
        self, band: Band, *, near_sign: float = 1.0, number: int = 0
    ) -> tuple[Vector, Vector]:
        """Logarithms of the row sums of the weights without shifts, whatever their size."""
        far, near = self._exponents(band, 0.0, 0.0, near_sign, number)
        log_near = np.empty(band.height)
        for (rows, columns), block in zip(band.near, near, strict=True):
            far[rows, columns] = -np.inf
            _exclude_own(band, rows, columns, block, -np.inf)
            log_near[rows] = _log_sum_exp(block)
        return log_near, _log_sum_exp(far)

    def _exponents(
        self,
        band: Band,
        near_shift: Vector | float,
        far_shift: Vector | float,
        near_sign: float,
        number: int,
    ) -> tuple[Floats, list[Floats]]:
        """Exponents of all pairs as if they were far, and of the near blocks."""
        near_shift, far_shift = _of_rows(near_shift, band), _of_rows(far_shift, band)
        far = self.negative(band, far_shift, number)
        # H = -T - far_shift, so that the exponent is near_sign H - near_shift.
        offset = np.broadcast_to(-near_sign * far_shift - near_shift, band.height)
        near = []
        for rows, columns in band.near:
            block = far[rows, columns] * self.dtype.type(-near_sign)
            block += offset[rows, None].astype(self.dtype)
            near.append(block)
        return far, near


def _of_rows(shift: Vector | float, band: Band) -> Vector | float:
    return shift[band.rows] if isinstance(shift, np.ndarray) else shift


def _exclude_own(band: Band, rows: slice, columns: slice, block: Floats, value: float) -> None:
    """Overwrite the pair of each row with itself."""
    inside = np.arange(rows.stop - rows.start)
    block[inside, inside + band.rows.start + rows.start - columns.start] = value


def _log_sum_exp(exponents: Floats) -> Vector:
    """Log of the row sums of exp; overwrites its argument."""
    top = np.maximum(exponents.max(axis=1), np.finfo(exponents.dtype).min)
    exponents -= top[:, None]
    np.maximum(exponents, _SMALLEST_EXPONENT[exponents.dtype.itemsize], out=exponents)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(np.exp(exponents, out=exponents).sum(axis=1)), dtype=float)


def squares(p: Vector, band: Band) -> Matrix:
    """(p_i - p_j)^2 of the pairs of a band."""
    difference = np.subtract.outer(p[band.rows], p)
    difference *= difference
    return difference
