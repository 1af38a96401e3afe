"""All pairs of points, band by band: what NCA and all-triplets boosting are made of.

Points are kept in class order. A *band* is a few rows of one class against all columns, so that the
columns of the same class are one run, `near`. For each band one matrix product gives the exponents

    T_ij = near_sign * H_ij - near_shift_i    for columns of the same class,
    T_ij =            - H_ij - far_shift_i    for the others,        exp(T_ii) = 0,

with H_ij = sum_c signs_c (P_ic - P_jc)^2 and the shifts folded into the product; then exp, in
place. Sums and products of the weights exp(T) follow. No array is larger than a band or than X;
bands are shared out among threads, and how they are cut depends on the points alone. `Voted`
distances, sums of thresholded squares, have no such product: their bands are added up vote by vote.

Rows whose class has one member have no near column; they are columns but never rows of a band.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.workers import Workers, quiet_blas

Floats = NDArray[np.floating[Any]]
Vector = NDArray[np.float64]
Ints = NDArray[np.intp]

_BAND_ELEMENTS = 1 << 18
_TASKS = 16
_SMALLEST_FLOAT32_EXPONENT = -85.0
"""Below it exp is subnormal in float32: slow, and of no weight in any sum."""


@dataclass(frozen=True)
class Band:
    """Rows of one class, and the columns of that class, as slices in class order."""

    rows: slice
    near: slice

    @property
    def height(self) -> int:
        """Number of rows."""
        return self.rows.stop - self.rows.start

    @property
    def selves(self) -> tuple[Ints, Ints]:
        """Where rows meet themselves."""
        return np.arange(self.height), np.arange(self.rows.start, self.rows.stop)

    def split_sums(self, tile: Floats) -> tuple[Vector, Vector]:
        """Sums over the columns of the class, and over the others, for each row."""
        near = tile[:, self.near].sum(axis=1, dtype=np.float64)
        before = tile[:, : self.near.start].sum(axis=1, dtype=np.float64)
        after = tile[:, self.near.stop :].sum(axis=1, dtype=np.float64)
        return near, before + after

    def parts(self, n: int) -> tuple[slice, slice, slice]:
        """Columns before, of and after the class."""
        return slice(0, self.near.start), self.near, slice(self.near.stop, n)


class ClassOrder:
    """Rows in class order, cut into bands.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Class codes.
    band_elements : int, optional
        How many entries a band has at most (at least one row).

    Attributes
    ----------
    order : array of shape (n_samples,)
        Row numbers in class order.
    bands : list of Band
    """

    def __init__(self, y: NDArray[np.integer[Any]], *, band_elements: int | None = None) -> None:
        self.order: Ints = np.argsort(y, kind="stable")
        starts = np.flatnonzero(np.diff(y[self.order], prepend=y.min() - 1 if len(y) else 0))
        self.edges = np.append(starts, len(y))
        self.n = len(y)
        height = max(1, (band_elements or _BAND_ELEMENTS) // max(1, self.n))
        self.bands = [
            Band(slice(top, min(top + height, stop)), slice(start, stop))
            for start, stop in zip(self.edges[:-1].tolist(), self.edges[1:].tolist(), strict=True)
            if stop - start > 1
            for top in range(start, stop, height)
        ]
        self.workers = Workers()

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

        size = -(-len(self.bands) // _TASKS)
        with quiet_blas():
            return reduce(_add, self.workers.map(run, len(self.bands), size))

    def laplacian(self, tile_of: Callable[[Band], Floats], T: Floats) -> Floats:
        """(Laplacian of the weights) @ T.

        Parameters
        ----------
        tile_of : callable
            Band -> signed weights w_ij of its rows; the Laplacian is that of w + w'.
        T : array of shape (n_samples, k)
            In class order.

        Returns
        -------
        array of shape (n_samples, k)
            Sum over j of (w_ij + w_ji) (T_i - T_j), for each i.
        """
        own = np.zeros_like(T)

        def work(band: Band) -> tuple[Floats, ...]:
            tile = tile_of(band)
            own[band.rows] = tile.sum(axis=1)[:, None] * T[band.rows] - tile @ T
            return tile.sum(axis=0), tile.T @ T[band.rows]

        columns, back = self.sum(work)
        return own + columns[:, None] * T - back

    def scatter(self, tile_of: Callable[[Band], Floats], X: Floats) -> Vector:
        """X' (Laplacian of the weights) X, at half the price of `laplacian` for T = X."""
        rows = np.zeros(self.n)

        def work(band: Band) -> tuple[Floats, ...]:
            tile = tile_of(band)
            rows[band.rows] = tile.sum(axis=1)
            return X[band.rows].T @ (tile @ X), tile.sum(axis=0)

        S, columns = self.sum(work)
        degree = (rows + columns).astype(X.dtype)
        return np.asarray((X * degree[:, None]).T @ X, dtype=np.float64) - S - S.T


def _add(left: tuple[Floats, ...], right: tuple[Floats, ...]) -> tuple[Floats, ...]:
    return tuple(np.add(a, b, dtype=np.float64) for a, b in zip(left, right, strict=True))


def largest_squared_distance(X: Floats) -> float:
    """Largest squared distance between two rows of X, block by block.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.pairwise import largest_squared_distance
    >>> largest_squared_distance(np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0]]))
    25.0
    """
    P = X - X.mean(axis=0)
    norms = np.einsum("ij,ij->i", P, P, dtype=np.float64)
    height = max(1, _BAND_ELEMENTS // max(1, len(P)))
    largest = 0.0
    for top in range(0, len(P), height):
        rows = slice(top, top + height)
        tile = norms[rows, None] + norms - 2.0 * (P[rows] @ P.T)
        largest = max(largest, float(tile.max()))
    return largest


class PairForm(ABC):
    """Distances between all points, in class order, from which bands of weights are made."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Type of the bands."""

    @abstractmethod
    def exponents(
        self,
        band: Band,
        near_shift: Vector | float = 0.0,
        far_shift: Vector | float = 0.0,
        *,
        near_sign: float = 1.0,
    ) -> Floats:
        """T of a band; shifts are those of the band's rows. T_ii is left undefined."""

    def weights(
        self,
        band: Band,
        near_shift: Vector | float = 0.0,
        far_shift: Vector | float = 0.0,
        *,
        near_sign: float = 1.0,
    ) -> Floats:
        """exp(T) of a band; 0 where a row meets itself."""
        tile = self.exponents(band, near_shift, far_shift, near_sign=near_sign)
        if tile.dtype == np.float32:
            np.maximum(tile, _SMALLEST_FLOAT32_EXPONENT, out=tile)
        np.exp(tile, out=tile)
        tile[band.selves] = 0.0
        return tile


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

    def exponents(
        self,
        band: Band,
        near_shift: Vector | float = 0.0,
        far_shift: Vector | float = 0.0,
        *,
        near_sign: float = 1.0,
    ) -> Floats:
        """T of a band, from one matrix product."""
        tile = np.empty((band.height, len(self.P)), dtype=self.dtype)
        before, near, after = band.parts(len(self.P))
        far_left = self._left(band, -1.0, far_shift)
        near_left = self._left(band, near_sign, near_shift)
        for columns, left in ((before, far_left), (near, near_left), (after, far_left)):
            np.matmul(left, self._right[columns].T, out=tile[:, columns])
        return tile

    def extended(self, p: Vector, weight: float) -> Embedded:
        """Add ``weight * (p_i - p_j)^2`` to the squared distances."""
        column = (np.sqrt(abs(weight)) * p).astype(self.dtype)
        return Embedded(
            np.column_stack([self.P, column]), np.append(self.signs, np.copysign(1.0, weight))
        )

    def _left(self, band: Band, sign: float, shift: Vector | float) -> Floats:
        k = self.P.shape[1]
        left = np.empty((band.height, k + 2), dtype=self.dtype)
        left[:, :k] = self.P[band.rows] * (-2.0 * sign * self.signs)
        left[:, k] = sign * self._norms[band.rows] - shift
        left[:, k + 1] = sign
        return left


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

    def exponents(
        self,
        band: Band,
        near_shift: Vector | float = 0.0,
        far_shift: Vector | float = 0.0,
        *,
        near_sign: float = 1.0,
    ) -> Floats:
        """T of a band, vote by vote."""
        tile = self.base.exponents(band, near_shift, far_shift, near_sign=near_sign)
        votes = np.zeros_like(tile)
        for p, threshold, alpha in zip(self.p, self.thresholds, self.alphas, strict=True):
            votes += alpha * (np.subtract.outer(p[band.rows], p) ** 2 >= threshold)
        votes[:, band.near] *= -near_sign
        tile -= votes
        return tile

    def extended(self, p: Vector, threshold: float, alpha: float) -> Voted:
        """Add one vote."""
        return Voted(
            self.base,
            np.vstack([self.p, p]),
            np.append(self.thresholds, threshold),
            np.append(self.alphas, alpha),
        )
