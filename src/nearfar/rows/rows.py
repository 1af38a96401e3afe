"""`Rows`: rows of X that are read in blocks.

A subclass says how many rows there are and reads some of them. Everything else is a map over blocks
and a sum of small results in a fixed order, which an executor runs:

    project(V) = X V        pull(Y) = X' Y        reduce(f) = sum of f(block)

Rows are small to pickle: a worker gets the name of a file, and reads its blocks itself.

`Moments`: sizes, means and variances of columns, in one pass over blocks.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from nearfar.runtime.progress import tracked
from nearfar.runtime.threads import Executor, current_executor
from nearfar.typing import Array, Floats, Ints, Matrix, Vector

# Bytes that are read at once: enough for a fast read, and little enough for every thread to hold.
_PIECE_BYTES = 1 << 22
# A task has several pieces, so that few results are sent, but there are tasks for all workers.
_PIECES_PER_TASK = 8
_TASKS = 16

Combine = Callable[[Any, Any], Any]


class Rows(ABC):
    """Rows that are read in blocks.

    Subclasses set `shape` and `dtype` (float32 or float64), and implement `read`.
    """

    ndim: ClassVar[int] = 2
    random_access: ClassVar[bool] = False
    """Whether reading a few rows anywhere is cheap."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    feature_names: tuple[str, ...] | None = None

    @abstractmethod
    def read(self, part: slice) -> Floats:
        """Return consecutive rows as a new array; `part` has a start and a stop."""

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: slice | ArrayLike) -> Floats:
        """Read rows: a slice, a mask or row numbers."""
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return self.read(slice(start, max(start, stop)))
            return self.take(np.arange(start, stop, step))
        chosen = np.asarray(index)
        return self.take(np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Array:
        raise TypeError("These rows are not in memory; read them in blocks.")

    def __getstate__(self) -> dict[str, object]:
        """Leave out caches."""
        return {name: v for name, v in self.__dict__.items() if not name.startswith("_")}

    @property
    def executor(self) -> Executor:
        """What runs the work on these rows."""
        return current_executor()

    @property
    def handle(self) -> Any:
        """These rows, as arguments of tasks."""
        executor = self.executor
        held = self.__dict__.get("_held")
        if held is None or held[0] is not executor:
            held = (executor, executor.hold(self))
            self.__dict__["_held"] = held
        return held[1]

    def take(self, index: Ints) -> Floats:
        """Return rows by number, in the given order; each block that has some is read once."""
        numbers, place = np.unique(np.asarray(index, dtype=np.intp), return_inverse=True)
        found = np.empty((len(numbers), self.shape[1]), dtype=self.dtype)
        for part in self.pieces:
            low, high = np.searchsorted(numbers, [part.start, part.stop])
            if low < high:
                found[low:high] = self.read(part)[numbers[low:high] - part.start]
        return found[place]

    @property
    def pieces(self) -> list[slice]:
        """Consecutive slices of a few megabytes, in which rows are read."""
        return self._pieces

    @cached_property
    def _pieces(self) -> list[slice]:
        return list(cut(0, len(self), self._piece_rows))

    @property
    def _piece_rows(self) -> int:
        return max(1, _PIECE_BYTES // max(1, self.shape[1] * self.dtype.itemsize))

    def astype(self, dtype: DTypeLike, *, copy: bool = False) -> Rows:
        """Return the same rows in another precision, converted as they are read."""
        return self if np.dtype(dtype) == self.dtype else self.mapped(_unchanged, dtype=dtype)

    def mapped(
        self,
        function: Callable[[Floats], Floats],
        n_features: int | None = None,
        dtype: DTypeLike | None = None,
    ) -> MappedRows:
        """Return rows to which a function is applied as they are read."""
        return MappedRows(self, function, n_features or self.shape[1], dtype or self.dtype)

    def __truediv__(self, size: float) -> MappedRows:
        """Return the rows divided by a number, as they are read."""
        return self.mapped(partial(_quotient, size=size))

    def __matmul__(self, V: Floats) -> MappedRows:
        """Return the rows times a matrix, as they are read; `project` computes the product."""
        return self.mapped(partial(_product, V=V), V.shape[1], np.result_type(self.dtype, V.dtype))

    def project(self, V: Floats) -> Floats:
        """X V, of shape (n_samples,) or (n_samples, k)."""
        V = V.astype(self.dtype, copy=False)
        out = np.empty((len(self), *V.shape[1:]), dtype=self.dtype)
        for parts, found in self._map(None, _product, V):
            out[parts[0].start : parts[-1].stop] = found
        return out

    def transformed(self, function: Callable[..., Array], *args: object) -> Array:
        """Return what a function makes of each block and of `args`, as one array."""
        return np.concatenate([found for _, found in self._map(None, function, *args)])

    def pull(self, Y: Floats) -> Floats:
        """X' Y, summed in float64; Y has shape (n_samples,) or (n_samples, k)."""
        return np.asarray(self.reduce(_transposed_product, along=(Y,)))

    def reduce(
        self,
        function: Callable[..., Any],
        *args: object,
        along: Sequence[Array] = (),
        combine: Combine | None = None,
    ) -> Any:
        """Combine what a function returns for each block, in the order of the blocks.

        Parameters
        ----------
        function: Called with a block, the rows of `along` that belong to it, and `args`. Like
            `combine`, a function of a module, so that it can be sent to workers.
        combine: By default the sum, of arrays or of tuples of them.
        """
        combine = combine or add
        found = self._map(combine, function, *args, along=along)
        return reduce(combine, (result for _, result in found))

    def _map(
        self,
        combine: Combine | None,
        function: Callable[..., Any],
        *args: object,
        along: Sequence[Array] = (),
    ) -> Iterator[tuple[list[slice], Any]]:
        """Yield the slices of each task, and their combined result."""
        size = max(1, min(_PIECES_PER_TASK, len(self.pieces) // _TASKS))
        groups = [self.pieces[k : k + size] for k in range(0, len(self.pieces), size)]
        work = (combine, function, *args)
        tasks = [
            (self.handle, parts, [tuple(a[p] for a in along) for p in parts], *work)
            for parts in groups
        ]
        found = self.executor.map(_run, tasks, memory=2 * _PIECE_BYTES)
        yield from tracked(zip(groups, found, strict=True), len(groups))


class ArrayRows(Rows):
    """Rows of an array, for work in blocks, which does not copy all of them."""

    random_access: ClassVar[bool] = True

    def __init__(self, X: Floats) -> None:
        self.X, self.shape, self.dtype = X, (len(X), X.shape[1]), X.dtype

    def read(self, part: slice) -> Floats:
        """Copy consecutive rows."""
        return self.X[part].copy()

    def take(self, index: Ints) -> Floats:
        """Copy rows by number."""
        return self.X[index]


class MappedRows(Rows):
    """Rows to which a function is applied as they are read.

    Parameters
    ----------
    function: Block -> block of as many rows; it can be pickled.
    n_features: Number of columns afterwards.
    dtype: Precision afterwards.
    """

    def __init__(
        self,
        source: Rows,
        function: Callable[[Floats], Floats],
        n_features: int,
        dtype: DTypeLike,
    ) -> None:
        self.source, self.function = source, function
        self.shape, self.dtype = (len(source), n_features), np.dtype(dtype)
        self.feature_names = source.feature_names

    @property
    def random_access(self) -> bool:  # type: ignore[override]
        """As the source has it."""
        return self.source.random_access

    @property
    def executor(self) -> Executor:
        """That of the source."""
        return self.source.executor

    @property
    def pieces(self) -> list[slice]:
        """Those of the source."""
        return self.source.pieces

    def read(self, part: slice) -> Floats:
        """Read and apply the function."""
        return self.function(self.source.read(part)).astype(self.dtype, copy=False)

    def take(self, index: Ints) -> Floats:
        """Read rows by number and apply the function."""
        return self.function(self.source.take(index)).astype(self.dtype, copy=False)


Points = Floats | Rows
"""Points in memory, or rows that are read in blocks."""


def cut(start: int, stop: int, size: int) -> Iterator[slice]:
    """Yield consecutive slices of at most `size`."""
    for top in range(start, stop, size):
        yield slice(top, min(top + size, stop))


def stamp_of(found: os.stat_result) -> tuple[int, ...]:
    """Return what changes if a file is written to or replaced."""
    return found.st_ino, found.st_size, found.st_mtime_ns


def check_unchanged(path: str, now: tuple[int, ...], opened: tuple[int, ...] | None) -> None:
    """Raise ValueError if a file is not what it was; a worker may have a copy, and no stamp."""
    if opened is not None and now != opened:
        raise ValueError(f"{path} has changed since it was opened; open it again.")


def add(left: Any, right: Any) -> Any:
    """Add arrays, or tuples of arrays, in float64."""
    if isinstance(left, tuple):
        return tuple(add(a, b) for a, b in zip(left, right, strict=True))
    return np.add(left, right, dtype=np.float64)


def _unchanged(block: Floats) -> Floats:
    return block


def _product(block: Floats, V: Floats) -> Floats:
    return block @ V


def _quotient(block: Floats, size: float) -> Floats:
    return block / size


def _transposed_product(block: Floats, Y: Floats) -> Floats:
    return np.asarray(block.T @ Y.astype(block.dtype, copy=False), dtype=np.float64)


def _run(
    rows: Rows,
    parts: list[slice],
    along: list[tuple[object, ...]],
    combine: Combine | None,
    function: Callable[..., Any],
    *args: object,
) -> Any:
    """Combine the results of some blocks; by default, concatenate them."""
    pairs = zip(parts, along, strict=True)
    results = (function(rows.read(part), *values, *args) for part, values in pairs)
    return np.concatenate(list(results)) if combine is None else reduce(combine, results)


@dataclass(frozen=True, eq=False)
class Moments:
    """Statistics of the columns of some rows.

    Attributes
    ----------
    n: Number of rows.
    squares: shape (n_features,). Sum of squared deviations from the mean.
    first_bad: The first row with a number that is not finite.
    """

    n: int
    smallest: Vector
    largest: Vector
    mean: Vector
    squares: Vector
    first_bad: int | None

    @classmethod
    def of(cls, rows: Rows) -> Moments:
        """Return the statistics of all rows, which are cached."""
        if "_moments" not in rows.__dict__:
            # Squares of very large numbers overflow; callers check `largest` first.
            with np.errstate(over="ignore", invalid="ignore"):
                rows.__dict__["_moments"] = rows.reduce(_of_block, combine=_merged)
        found: Moments = rows.__dict__["_moments"]
        return found

    @property
    def variance(self) -> Vector:
        """Variance of each column."""
        return self.squares / self.n

    @property
    def spread(self) -> Vector:
        """Standard deviation of each column; 1 for a constant one, whatever its rounding errors.

        The bound of rounding errors is that of scikit-learn's StandardScaler.
        """
        eps = np.finfo(np.float64).eps
        bound = self.n * eps * self.variance + (self.n * self.mean * eps) ** 2
        return np.where(self.variance <= bound, 1.0, np.sqrt(self.variance))


def column_variances(X: Points) -> Vector:
    """Return the variance of each column."""
    return Moments.of(X).variance if isinstance(X, Rows) else X.var(axis=0, dtype=np.float64)


def column_ranges(X: Points) -> Vector:
    """Return the largest less the smallest value of each column."""
    if isinstance(X, Rows):
        moments = Moments.of(X)
        return moments.largest - moments.smallest
    return np.asarray(np.ptp(X, axis=0))


def gram(X: Points) -> Matrix:
    """X' X."""
    return X.reduce(_gram) if isinstance(X, Rows) else np.asarray(X.T @ X, dtype=np.float64)


def _gram(block: Floats) -> Matrix:
    return np.asarray(block.T @ block, dtype=np.float64)


@np.errstate(over="ignore", invalid="ignore")
def _of_block(block: Floats) -> Moments:
    values = block.astype(np.float64, copy=False)
    first_bad = None
    if not np.isfinite(values.sum()) and not (finite := np.isfinite(values).all(axis=1)).all():
        first_bad = int(finite.argmin())
        values = np.zeros_like(values)
    mean, smallest, largest = values.mean(axis=0), values.min(axis=0), values.max(axis=0)
    values -= mean
    squares = np.einsum("ij,ij->j", values, values)
    return Moments(len(values), smallest, largest, mean, squares, first_bad)


def _merged(left: Moments, right: Moments) -> Moments:
    """Merge statistics of two sets of rows (Chan, Golub, LeVeque 1983)."""
    n = left.n + right.n
    step = right.mean - left.mean
    first_bad = left.first_bad
    if first_bad is None and right.first_bad is not None:
        first_bad = left.n + right.first_bad
    return Moments(
        n,
        np.minimum(left.smallest, right.smallest),
        np.maximum(left.largest, right.largest),
        left.mean + step * (right.n / n),
        left.squares + right.squares + step**2 * (left.n * right.n / n),
        first_bad,
    )
