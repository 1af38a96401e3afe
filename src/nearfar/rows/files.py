"""`GroupedRows`: rows that are stored in groups which must be read whole.

`NpyRows`: rows of a .npy file, read in blocks and not mapped, so that memory stays small.

`ParquetRows`: rows of Parquet files, read one row group at a time.

From what a user passes as X to `Rows`.

`DaskRows`: rows of a Dask array, computed one block at a time.

The array is a recipe: a worker gets it and computes the blocks that it needs, as it would read them
from a file. Blocks are not kept. Work runs on the array's client, if there is one.
"""

from __future__ import annotations

import os
import sys
import threading
import tokenize
from abc import abstractmethod
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from mmap import mmap
from pathlib import Path
from typing import IO, Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.lib import format as npy_format

from nearfar.rows.rows import Rows, check_unchanged, cut, stamp_of
from nearfar.runtime.messages import optional_package
from nearfar.runtime.threads import Executor, chosen_executor, current_executor
from nearfar.typing import Array, Floats, Ints


class GroupedRows(Rows):
    """Rows in groups, such as row groups of Parquet files and blocks of Dask arrays.

    Pieces do not cross groups. Each thread keeps the group that it read last, since it usually
    reads the next piece of the same group.

    Subclasses set `bounds`, of shape (n_groups + 1,): where groups start, and where the last ends.
    """

    bounds: Ints

    @abstractmethod
    def load(self, group: int) -> Floats:
        """Return the rows of a group."""

    def read(self, part: slice) -> Floats:
        """Read consecutive rows."""
        first = int(np.searchsorted(self.bounds, part.start, side="right")) - 1
        blocks: list[Floats] = [np.empty((0, self.shape[1]), dtype=self.dtype)]
        last = self._last
        for group in range(max(0, first), len(self.bounds) - 1):
            start, stop = (int(bound) for bound in self.bounds[group : group + 2])
            if start >= part.stop:
                break
            low, high = max(start, part.start), min(stop, part.stop)
            if low < high:
                if getattr(last, "group", None) != group:
                    # The rows of the last group are let go before others are read.
                    last.rows = None
                    last.rows = self.load(group)
                    last.group = group
                blocks.append(last.rows[low - start : high - start])
        return np.concatenate(blocks)

    @cached_property
    def _pieces(self) -> list[slice]:
        bounds = self.bounds.tolist()
        return [
            part for start, stop in pairwise(bounds) for part in cut(start, stop, self._piece_rows)
        ]

    @cached_property
    def _last(self) -> threading.local:
        return threading.local()


class NpyRows(Rows):
    """Rows of a file with a C-ordered two-dimensional array.

    Parameters
    ----------
    offset: Where the first row begins, in bytes.
    stored: Type of the numbers in the file. float32 stays float32; other types become
        float64.
    """

    random_access: ClassVar[bool] = True
    # What the file was when it was opened; not that of a worker, where it may be a copy.
    _stamp: tuple[int, ...] | None = None

    def __init__(
        self, path: str | Path, offset: int, shape: tuple[int, ...], stored: np.dtype[np.generic]
    ) -> None:
        self.path, self.offset, self.stored = str(Path(path).resolve()), offset, stored
        if len(shape) != 2:
            raise ValueError(f"X must be a 2-d array; {path} has shape {shape}.")
        if stored.kind not in "fiub":
            raise ValueError(f"X must be an array of numbers; {path} has {stored}.")
        self.shape = (shape[0], shape[1])
        self.dtype = np.dtype(np.float32 if stored == np.float32 else np.float64)

    @classmethod
    def open(cls, path: str | Path) -> NpyRows:
        """Read the header of a .npy file."""
        with Path(path).open("rb") as file:
            version = npy_format.read_magic(file)
            read = (
                npy_format.read_array_header_1_0
                if version == (1, 0)
                else npy_format.read_array_header_2_0
            )
            try:
                shape, fortran, stored = read(file)
            # NumPy reads the header as Python.
            except (TypeError, SyntaxError, tokenize.TokenError) as error:
                raise ValueError(f"{path} has a damaged header: {str(error)[:80]}") from error
            offset = file.tell()
            stamp = stamp_of(os.fstat(file.fileno()))
        if fortran and len(shape) == 2 and min(shape) > 1:
            raise ValueError(
                f"{path} is in Fortran order, column by column; save np.ascontiguousarray(X)."
            )
        rows = cls(path, offset, shape, stored)
        rows._stamp = stamp
        return rows

    @classmethod
    def of_memmap(cls, X: np.memmap[Any, Any]) -> NpyRows | None:
        """Return the file behind a memory-mapped array, or behind a slice of its rows."""
        root: Any = X
        while isinstance(root.base, np.memmap):
            root = root.base
        backed = isinstance(root.base, mmap) and root.filename is not None and root.mode != "c"
        if not backed or X.ndim != 2 or not X.flags.c_contiguous:
            return None
        start = X.ctypes.data - root.ctypes.data
        return cls(str(root.filename), root.offset + start, X.shape, X.dtype)

    def read(self, part: slice) -> Floats:
        """Read consecutive rows."""
        rows = np.empty((part.stop - part.start, self.shape[1]), dtype=self.stored)
        with Path(self.path).open("rb", buffering=0) as file:
            self._fill(file, rows, part.start)
        return rows.astype(self.dtype, copy=False)

    def take(self, index: Ints) -> Floats:
        """Read rows by number, runs of consecutive ones at once."""
        numbers, place = np.unique(np.asarray(index, dtype=np.intp), return_inverse=True)
        rows = np.empty((len(numbers), self.shape[1]), dtype=self.stored)
        runs = np.flatnonzero(np.diff(numbers, prepend=-2, append=-2) != 1).tolist()
        with Path(self.path).open("rb", buffering=0) as file:
            for first, last in pairwise(runs):
                self._fill(file, rows[first:last], int(numbers[first]))
        return rows.astype(self.dtype, copy=False)[place]

    def _fill(self, file: IO[bytes], rows: Array, start: int) -> None:
        """Read rows from `start` on into an array."""
        check_unchanged(self.path, stamp_of(os.fstat(file.fileno())), self._stamp)
        buffer = rows.data.cast("B") if rows.size else memoryview(b"")
        file.seek(self.offset + start * self.shape[1] * self.stored.itemsize)
        while len(buffer):
            count: int = file.readinto(buffer)  # type: ignore[attr-defined]
            if not count:
                raise ValueError(f"{self.path} is shorter than its header says.")
            buffer = buffer[count:]


# Bytes that are decoded at once, and of the buffer of a column.
_BATCH_BYTES, _BUFFER_BYTES = 1 << 22, 1 << 16


class ParquetRows(GroupedRows):
    """Rows of a Parquet file, or of the files of a folder in the order of their names.

    Parameters
    ----------
    columns: The features: numbers, or lists of numbers of one length. By default the only
        column of lists, if there is one; otherwise all columns, which must be numbers. They
        are float32 if all columns are.
    """

    def __init__(self, path: str | Path, columns: Iterable[str] | None = None) -> None:
        pq = _pyarrow_parquet()
        from pyarrow import types

        files = [Path(path)]
        if files[0].is_dir():
            files = sorted([*files[0].glob("*.parquet"), *files[0].glob("*.pq")])
            if not files:
                raise ValueError(f"{path} has no Parquet files.")
        schema = pq.read_schema(files[0])
        is_list = (types.is_list, types.is_large_list, types.is_fixed_size_list)

        def number_of(kind: Any) -> Any:
            return kind.value_type if any(each(kind) for each in is_list) else kind

        lists = [field.name for field in schema if number_of(field.type) is not field.type]
        if columns is None and len(lists) > 1:
            raise ValueError(
                f"{files[0]} has several columns of lists: {', '.join(lists)}. Choose with "
                "nearfar.rows.files.ParquetRows(path, columns=[...])."
            )
        names = [str(name) for name in (columns or lists or schema.names)]
        self.groups: list[tuple[str, int]] = []
        sizes = []
        for file in files:
            with pq.ParquetFile(file) as opened:
                for name in names:
                    if name not in opened.schema_arrow.names:
                        raise ValueError(f"{file} has no column {name!r}.")
                    kind = opened.schema_arrow.field(name).type
                    number = number_of(kind)
                    if not (types.is_floating(number) or types.is_integer(number)):
                        raise ValueError(f"Column {name!r} of {file} has no numbers, but {kind}.")
                for group in range(opened.metadata.num_row_groups):
                    self.groups.append((str(file.resolve()), group))
                    sizes.append(opened.metadata.row_group(group).num_rows)
        self.columns = names
        # Lists have as many numbers as the first one.
        self.widths: dict[str, int] = {}
        with pq.ParquetFile(files[0]) as opened:
            for name in set(lists).intersection(names):
                for batch in opened.iter_batches(1, columns=[name]):
                    self.widths[name] = len(batch.column(0)[0].as_py() or ())
                    break
        self.bounds = np.concatenate([[0], np.cumsum(sizes, dtype=np.intp)]).astype(np.intp)
        self.feature_names = tuple(
            f"{name}[{entry}]" if name in lists else name
            for name in names
            for entry in range(self.widths.get(name, 1))
        )
        self.shape = (int(self.bounds[-1]), len(self.feature_names))
        narrow = all(str(number_of(schema.field(name).type)) == "float" for name in names)
        self.dtype = np.dtype(np.float32 if narrow else np.float64)
        self._stamps = {file: stamp_of(Path(file).stat()) for file, _ in self.groups}

    def load(self, group: int) -> Floats:
        """Read a row group."""
        from pyarrow import compute as pc

        file, number = self.groups[group]
        opened = self.__dict__.get("_stamps", {}).get(file)
        check_unchanged(file, stamp_of(Path(file).stat()), opened)
        start, stop = self.bounds[group : group + 2]
        rows = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        # A few rows at a time, so that a group is not in memory twice.
        options = {"pre_buffer": False, "buffer_size": _BUFFER_BYTES}
        with _pyarrow_parquet().ParquetFile(file, **options) as source:
            top = 0
            size = max(1, _BATCH_BYTES // max(1, rows.itemsize * rows.shape[1]))
            for batch in source.iter_batches(size, [number], self.columns, use_threads=False):
                part, left = rows[top : top + len(batch)], 0
                top += len(batch)
                for name in self.columns:
                    column, width = batch.column(name), self.widths.get(name)
                    if width is None:
                        part[:, left] = column.to_numpy(zero_copy_only=False)
                        left += 1
                        continue
                    if pc.list_value_length(column).unique().to_pylist() != [width]:
                        raise ValueError(
                            f"Column {name!r} of {file} has missing lists or lists of several "
                            f"lengths; the first has {width} numbers."
                        )
                    numbers = column.flatten().to_numpy(zero_copy_only=False)
                    part[:, left : left + width] = numbers.reshape(-1, width)
                    left += width
        return rows


def _pyarrow_parquet() -> Any:
    return optional_package("pyarrow.parquet", "A Parquet file", "nearfar[parquet]")


# Memory-mapped arrays up to this size are read whole, as arrays.
_SMALL_BYTES = 1 << 26


def open_rows(X: object) -> Rows:
    """Open a file, a folder or a Dask array as rows that are read in blocks.

    Parameters
    ----------
    X : path, memory-mapped array, Dask array or Rows
        A ``.npy`` file, a Parquet file, or a folder of Parquet files in the order of their names.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from nearfar.rows import open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "X.npy")
    ...     np.save(path, np.ones((1000, 3), dtype=np.float32))
    ...     rows = open_rows(path)
    ...     rows.shape, rows.project(np.ones(3))[:2]
    ((1000, 3), array([3., 3.], dtype=float32))
    """
    rows = _opened(X, small=0)
    if rows is None:
        raise TypeError(
            "Rows are a .npy file, Parquet files, a memory-mapped or a Dask array; "
            f"got {type(X).__name__}."
        )
    return rows


def as_rows(X: object) -> Rows | None:
    """Return X as rows that are read in blocks, or None if it belongs in memory."""
    return _opened(X, small=_SMALL_BYTES)


def _opened(X: object, *, small: int) -> Rows | None:
    if isinstance(X, Rows):
        return X
    if isinstance(X, str | Path):
        path = Path(X)
        if path.suffix == ".npy":
            return NpyRows.open(path)
        if path.is_dir() or path.suffix in (".parquet", ".pq"):
            from nearfar.rows.files import ParquetRows

            return ParquetRows(path)
        raise ValueError(f"X must be a .npy file, a Parquet file or a folder of them; got {path}.")
    if isinstance(X, np.memmap):
        return NpyRows.of_memmap(X) if X.nbytes > small else None
    if type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "chunks"):
        from nearfar.rows.files import DaskRows

        return DaskRows(X)
    return None


_executors: WeakKeyDictionary[Any, Executor] = WeakKeyDictionary()


class DaskRows(GroupedRows):
    """Rows of a Dask array."""

    def __init__(self, array: Any) -> None:
        if getattr(array, "ndim", 0) != 2 or array.dtype.kind not in "fiub":
            raise ValueError("X must be a two-dimensional Dask array of numbers.")
        if np.isnan(array.shape).any():
            raise ValueError("The Dask array has unknown sizes; call compute_chunk_sizes() first.")
        # Blocks that are futures can be resolved on their cluster only.
        future = getattr(sys.modules.get("distributed"), "Future", ())
        if any(isinstance(value, future) for value in dict(array.dask).values()):
            raise ValueError(
                "The Dask array is persisted; pass the array before persist(), so that workers "
                "can compute blocks again."
            )
        self.array = array
        self.bounds = np.concatenate([[0], np.cumsum(array.chunks[0])]).astype(np.intp)
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = np.dtype(np.float32 if array.dtype == np.float32 else np.float64)

    @property
    def executor(self) -> Executor:
        """The chosen executor, or the default client."""
        if (chosen := chosen_executor()) is not None:
            return chosen
        try:
            from distributed import Client

            client = Client.current()
        except (ImportError, ValueError):
            return current_executor()
        if client not in _executors:
            from nearfar.runtime.threads import DaskExecutor

            _executors[client] = DaskExecutor(client)
        return _executors[client]

    def load(self, group: int) -> Floats:
        """Compute a block of rows."""
        block = self.array.blocks[group, :].compute(scheduler="synchronous")
        return np.asarray(block, dtype=self.dtype)
