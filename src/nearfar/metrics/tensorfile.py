"""Named arrays and text in one safe, language-neutral file: the safetensors format.

Layout: eight bytes (little-endian length of the header), the header (JSON), the arrays' bytes::

    {"__metadata__": {"key": "text"},
     "L": {"dtype": "F64", "shape": [2, 4], "data_offsets": [0, 64]}}

Any safetensors library reads what is written here. Reading runs no code and trusts nothing: sizes,
offsets and types are checked against the length of the file before an array is allocated. Writing
goes to a temporary file that replaces the old one in one step.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nearfar.runtime.atomic_write import atomic_write

_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_MAX_HEADER_BYTES = 100_000_000
_MAX_DIMENSIONS = 8


def write_tensors(
    path: str | os.PathLike[str],
    tensors: Mapping[str, NDArray[Any]],
    metadata: Mapping[str, str],
) -> None:
    """Write arrays and text to `path`, atomic_write it only once everything is on disk.

    Parameters
    ----------
    path : path-like
        Where to write.
    tensors : mapping of str to array
        float64, float32 or int64 arrays.
    metadata : mapping of str to str
        Text kept in the header.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    parts = []
    offset = 0
    for name, tensor in tensors.items():
        little = np.ascontiguousarray(tensor, dtype=tensor.dtype.newbyteorder("<"))
        end = offset + little.nbytes
        header[name] = {
            "dtype": _NAMES[little.dtype],
            "shape": list(little.shape),
            "data_offsets": [offset, end],
        }
        parts.append(little.tobytes())
        offset = end
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _MAX_HEADER_BYTES:
        raise ValueError(f"{path}: the names do not fit into a safetensors header.")
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.writelines([len(text).to_bytes(8, "little"), text, *parts])


def read_tensors(
    path: str | os.PathLike[str], *, max_bytes: int
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Read what `write_tensors`, or any safetensors library, has written.

    Parameters
    ----------
    path : path-like
        The file.
    max_bytes : int
        The most bytes that a file may have; what is larger is refused unread.

    Returns
    -------
    tensors : dict of str to array
        The arrays, writable copies.
    metadata : dict of str to str
        The header's text.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is not a safetensors file, is truncated or too large, or its header does not fit its
        size.
    """
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise ValueError(f"{path}: {size} bytes long; no more than {max_bytes} are read.")
        header, start = _read_header(file, size, path)
        metadata = header.pop("__metadata__", {})
        if not _is_text_mapping(metadata):
            raise ValueError(f"{path}: the header's metadata is not a mapping of texts.")
        layout = {name: _entry(name, entry, path) for name, entry in header.items()}
        end = 0
        for begin, stop, _, _ in sorted(layout.values(), key=lambda part: part[:2]):
            if begin != end:
                raise ValueError(f"{path}: the arrays do not follow one another without gaps.")
            end = stop
        if start + end != size:
            raise ValueError(
                f"{path}: {size} bytes long, but its header describes {start + end}; "
                "the file is truncated or damaged."
            )
        tensors = {}
        for name, (begin, stop, dtype, shape) in layout.items():
            file.seek(start + begin)
            tensors[name] = np.frombuffer(bytearray(file.read(stop - begin)), dtype).reshape(shape)
    return tensors, metadata


def _read_header(
    file: BinaryIO, size: int, path: str | os.PathLike[str]
) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length < 2 or length > min(size - 8, _MAX_HEADER_BYTES):
        raise ValueError(f"{path}: not a safetensors file (no readable header).")
    try:
        header = json.loads(file.read(length))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a safetensors file (its header is not JSON).") from error
    if not isinstance(header, dict):
        raise ValueError(f"{path}: not a safetensors file (its header is not a JSON object).")
    return header, 8 + length


def _entry(
    name: str, entry: Any, path: str | os.PathLike[str]
) -> tuple[int, int, np.dtype[Any], tuple[int, ...]]:
    """Offsets, type and shape of one array, or an error."""
    try:
        dtype, shape = _DTYPES[entry["dtype"]], _sizes(entry["shape"])
        begin, stop = _sizes(entry["data_offsets"])
        if len(shape) > _MAX_DIMENSIONS or stop - begin != math.prod(shape) * dtype.itemsize:
            raise ValueError("shape and offsets do not agree")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: the header's entry for {name!r} makes no sense.") from error
    return begin, stop, dtype, shape


def _sizes(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(type(v) is int and v >= 0 for v in values):
        raise TypeError("not a list of sizes")
    return tuple(values)


def _is_text_mapping(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
