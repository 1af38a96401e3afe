"""`NpyRows`: rows of a .npy file, read in blocks and not mapped, so that memory stays small."""

from __future__ import annotations

import os
from itertools import pairwise
from mmap import mmap
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from numpy.lib import format as npy_format

from nearfar.rows.base import Rows, check_unchanged, stamp_of
from nearfar.typing import Array, Floats, Ints


class NpyRows(Rows):
    """Rows of a file with a C-ordered two-dimensional array.

    Parameters
    ----------
    path : path
    offset : int
        Where the first row begins, in bytes.
    shape : tuple of int
    stored : dtype
        Type of the numbers in the file. float32 stays float32; other types become float64.
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
        """Read the header of a .npy file.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import numpy as np
        >>> from nearfar.rows.npy import NpyRows
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "X.npy")
        ...     np.save(path, np.arange(6.0).reshape(3, 2))
        ...     NpyRows.open(path)[[2, 0]]
        array([[4., 5.],
               [0., 1.]])
        """
        with Path(path).open("rb") as file:
            version = npy_format.read_magic(file)
            read = (
                npy_format.read_array_header_1_0
                if version == (1, 0)
                else npy_format.read_array_header_2_0
            )
            shape, fortran, stored = read(file)
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
