"""An append-only file of records, each of them checked: what a journal is kept in.

The file is a line that says what it is, then records::

    section  uint32   what the record belongs to; the next new number begins a section
    label    uint32   the caller's own
    length   uint64   of the payload
    crc      uint32   of the payload
    crc      uint32   of the numbers above
    payload           of a section's first record: its key; of others: numbers and arrays

A process may be killed at any moment: what was written up to about a second before is read again.
Reading runs no code, and lengths are compared with that of the file before anything is allocated.
From the first record that is torn or damaged on, the file is cut off.
"""

from __future__ import annotations

import math
import os
import struct
import threading
import time
import zlib
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

KEY_BYTES = 32

_MAGIC = b"nearfar journal 1\n"
_NUMBERS = struct.Struct("<IIQI")
_CHECK = struct.Struct("<I")
_HEAD_BYTES = _NUMBERS.size + _CHECK.size
_DTYPES = {code: np.dtype(code).newbyteorder("<") for code in "dfqI?"}
_FORTRAN = 0x80
_CHUNK = 1 << 20
_SECONDS_BETWEEN_FLUSHES = 1.0


class Records:
    """The file: an index of its sound records, and what is to be appended.

    Parameters
    ----------
    path : Path
        Made if it is not there.

    Raises
    ------
    ValueError
        If the file is something else (it is left as it is), or in use.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from nearfar.records import KEY_BYTES, Records
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     records = Records(Path(folder) / "file")
    ...     section = records.section(bytes(KEY_BYTES))
    ...     records.append(section, 7, (2.5, True))
    ...     records.read(section, 0)
    ...     records.close()
    (7, (2.5, True))
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._pending = bytearray()
        self._flushed = time.monotonic()
        self._keys: dict[bytes, int] = {}
        self._places: list[array[int]] = []
        self._owner = os.getpid()
        with path.open("ab"):
            pass
        self._file: BinaryIO = path.open("r+b", buffering=0)
        try:
            self._claim()
            self._end = self._begin()
            self._scan()
        except BaseException:
            self._file.close()
            raise

    def section(self, key: bytes) -> int:
        """Return the number of the section with this key, a new one if there is none."""
        with self._lock:
            if key not in self._keys:
                number, places = len(self._places), array("Q")
                record = _record(number, 0, key)
                self._pending += record
                self._keys[key] = number
                self._places.append(places)
                self._flush_in_time()
            return self._keys[key]

    @property
    def keys(self) -> set[bytes]:
        """Keys of all sections."""
        return set(self._keys)

    def count(self, section: int) -> int:
        """Return how many records a section has."""
        return len(self._places[section])

    def read(self, section: int, number: int) -> tuple[int, tuple[Any, ...]]:
        """Return the label and the items of a section's record."""
        with self._lock:
            self._flush()
            self._file.seek(self._places[section][number])
            _, label, length, _ = _NUMBERS.unpack(self._read(_HEAD_BYTES)[: _NUMBERS.size])
            payload = self._read(length)
        return label, _decode(payload, self.path)

    def append(self, section: int, label: int, items: Sequence[Any]) -> None:
        """Add a record of numbers and contiguous arrays to a section."""
        payload = _encode(items)
        with self._lock:
            if self._file.closed:
                raise ValueError(f"{self.path}: the journal is closed.")
            record, index = _record(section, label, payload), self._places[section].append
            place = self._end + len(self._pending)
            # No call between these two, so that an interrupt leaves both or none of them.
            self._pending += record
            index(place)
            self._flush_in_time()

    def close(self) -> None:
        """Write what is pending; a process that was forked off leaves the file alone."""
        with self._lock:
            try:
                if os.getpid() == self._owner:
                    self._flush()
                    os.fsync(self._file.fileno())
            finally:
                self._file.close()

    def _flush_in_time(self) -> None:
        late = time.monotonic() - self._flushed >= _SECONDS_BETWEEN_FLUSHES
        if late or len(self._pending) >= _CHUNK:
            self._flush()

    def _flush(self) -> None:
        # By position, so that bytes that are written twice, after an interrupt, do no harm.
        while self._pending:
            self._file.seek(self._end)
            written = self._file.write(self._pending)
            self._end, self._pending = self._end + written, self._pending[written:]
        self._flushed = time.monotonic()

    def _claim(self) -> None:
        """Keep others from the file while it is open."""
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(f"{self.path}: the journal is in use by another process.") from error

    def _begin(self) -> int:
        """Check the first line, or write it to a file that has none; return where records begin."""
        line = self._read(len(_MAGIC))
        if line == _MAGIC:
            return len(_MAGIC)
        if not _MAGIC.startswith(line):
            name = _MAGIC[: _MAGIC.rindex(b" ")]
            kind = "a journal of another version" if line.startswith(name) else "not a journal"
            raise ValueError(f"{self.path}: {kind}; it is left as it is.")
        self._file.seek(0)
        self._file.write(_MAGIC)
        return len(_MAGIC)

    def _scan(self) -> None:
        """Index the sound records, and cut off what follows them."""
        size = os.fstat(self._file.fileno()).st_size
        self._file.seek(self._end)
        while (end := self._next_record(self._end, size)) is not None:
            self._end = end
        self._file.truncate(self._end)

    def _next_record(self, place: int, size: int) -> int | None:
        """Index the record at a place, and return where it ends; None if it is not sound."""
        head = self._read(min(_HEAD_BYTES, size - place))
        if len(head) < _HEAD_BYTES:
            return None
        numbers = head[: _NUMBERS.size]
        section, _, length, crc = _NUMBERS.unpack(numbers)
        end = place + _HEAD_BYTES + length
        new = section == len(self._places)
        sound = _CHECK.unpack_from(head, _NUMBERS.size)[0] == zlib.crc32(numbers)
        if not sound or end > size or section > len(self._places) or (new and length != KEY_BYTES):
            return None
        found, key = 0, b""
        for start in range(0, length, _CHUNK):
            key = self._read(min(_CHUNK, length - start))
            found = zlib.crc32(key, found)
        if found != crc:
            return None
        if new:
            self._keys[key] = section
            self._places.append(array("Q"))
        else:
            self._places[section].append(place)
        return end

    def _read(self, length: int) -> bytes:
        """Read as many bytes as there are, up to a length that the file is known to have."""
        parts = []
        while length > 0 and (part := self._file.read(length)):
            parts.append(part)
            length -= len(part)
        return b"".join(parts)


def _record(section: int, label: int, payload: bytes) -> bytes:
    numbers = _NUMBERS.pack(section, label, len(payload), zlib.crc32(payload))
    return numbers + _CHECK.pack(zlib.crc32(numbers)) + payload


def _encode(items: Sequence[Any]) -> bytes:
    """Numbers and arrays as bytes: type, order and dimensions, shape, elements."""
    parts: list[bytes] = []
    for item in items:
        values = np.asarray(item)
        code = values.dtype.char.replace("l", "q")
        order = 0 if values.flags.c_contiguous else _FORTRAN
        if code not in _DTYPES or not (values.flags.c_contiguous or values.flags.f_contiguous):
            raise TypeError(f"Not to be recorded: {values.dtype} with strides {values.strides}.")
        little = values.astype(_DTYPES[code], copy=False)
        parts.append(struct.pack("<cB", code.encode(), values.ndim | order))
        parts.append(struct.pack(f"<{values.ndim}Q", *values.shape))
        parts.append(little.tobytes("A"))
    return b"".join(parts)


def _decode(payload: bytes, path: Path) -> tuple[Any, ...]:
    """Return what was encoded, arrays in memory of their own and in the order they had."""
    items: list[Any] = []
    place = 0
    try:
        while place < len(payload):
            code, layout = struct.unpack_from("<cB", payload, place)
            shape = struct.unpack_from(f"<{layout & ~_FORTRAN}Q", payload, place + 2)
            place += 2 + 8 * len(shape)
            dtype, count = _DTYPES[code.decode()], math.prod(shape)
            values = np.frombuffer(payload, dtype, count, place) if count else np.empty(0, dtype)
            place += values.nbytes
            values = values.reshape(shape, order="F" if layout & _FORTRAN else "C")
            native = values.astype(dtype.newbyteorder("="), order="K")
            items.append(native if shape else native.item())
    except (struct.error, KeyError, ValueError, OverflowError) as error:
        raise ValueError(f"{path}: a record makes no sense.") from error
    return tuple(items)
