"""`Scratch`: arrays in a temporary file, for what is needed now and then and is too long to keep.

The file has no name and is gone with the process. It is made where `tempfile` puts files, which the
environment variable TMPDIR changes.
"""

from __future__ import annotations

import tempfile
import threading
import weakref

import numpy as np
from numpy.typing import DTypeLike

from nearfar.typing import Array


class Scratch:
    """A temporary file that holds arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.numerics.stored_array import Scratch
    >>> stored = Scratch().store(np.arange(10))
    >>> len(stored), stored[3:5]
    (10, array([3, 4]))
    """

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
