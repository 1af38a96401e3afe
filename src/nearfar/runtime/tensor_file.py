"""safetensors files: named arrays and text, readable in any language.

Reading a file runs no code, and safetensors checks sizes and offsets against the length of the
file before an array is allocated.

`Provenance`: when a file was made, by which version, from which data and with which verdict.

It is JSON in the metadata of the file, and has numbers and a fingerprint of the data, but nothing
of their content. The time is that in SOURCE_DATE_EPOCH, if it is set: the same data and seed then
give the same bytes.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from nearfar import __version__
from nearfar.runtime.atomic_write import atomic_write
from nearfar.runtime.messages import cut, quoted
from nearfar.typing import Array, Ints, Matrix

_FORMAT = "nearfar."
# What a file with wrong contents may raise while it is decoded.
_INVALID = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)

# Characters of what a file says, in messages.
_LONGEST_TEXT = 500
# Longer headers cannot be read; safetensors before 0.7 writes them all the same.
_MAX_HEADER_BYTES = 100_000_000


@dataclass(frozen=True)
class TensorFile:
    """An open file: arrays by name, read when asked for, and metadata."""

    tensors: Any  # safe_open has no types
    metadata: dict[str, str]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors.keys())

    def __getitem__(self, name: str) -> Matrix:
        if name not in self:
            raise ValueError(f"it has no array {name!r}")
        array: Array = self.tensors.get_tensor(name)
        with np.errstate(invalid="ignore"):  # a damaged file may have signalling NaN
            return array.astype(np.float64, casting="safe", copy=False)


def write_tensors(
    path: str | os.PathLike[str],
    kind: str,
    tensors: Mapping[str, Array],
    metadata: Mapping[str, str],
) -> None:
    """Write arrays and text; `kind` is what they are, such as "metric"."""
    # safetensors writes the memory of an array, whatever its strides.
    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    header = {"format": f"{_FORMAT}{kind}", **metadata}
    try:
        content = memoryview(save(contiguous, metadata=header))
    except SafetensorError as error:
        raise ValueError(f"{path}: the {kind} can't be saved: {error}.") from error
    parts = with_sorted_metadata(content)
    if len(parts[1]) > _MAX_HEADER_BYTES:
        raise ValueError(f"{path}: the {kind} can't be saved: header too large.")
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.writelines(parts)


def with_sorted_metadata(content: memoryview) -> tuple[bytes, bytes, memoryview]:
    """Sort the metadata, which safetensors writes in random order: equal data, equal files."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(bytes(content[8:end]))
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little"), text, content[end:]


def kind_of_file(path: str | os.PathLike[str]) -> str | None:
    """Return what a file holds, such as "metric" or "adapter"; None if it is not nearfar's."""
    name = metadata_of(path).get("format", "")
    return name.removeprefix(_FORMAT) if name.startswith(_FORMAT) else None


def metadata_of(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the text in a file of any kind; nothing if it cannot be read."""
    try:
        with safe_open(path, framework="numpy") as tensors:
            return dict(tensors.metadata() or {})
    except (SafetensorError, OSError):
        return {}


@contextmanager
def open_tensors(
    path: str | os.PathLike[str],
    kind: str,
    versions: tuple[int, ...] = (1,),
    max_bytes: float = math.inf,
) -> Iterator[TensorFile]:
    """Open a file of a kind; errors inside the context become ValueError and name the file.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is of another kind or version, is damaged, or has more than `max_bytes` bytes.
    """
    with Path(path).open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
    if size > max_bytes:
        raise ValueError(f"{path}: the file has {size} bytes, more than the limit of {max_bytes}.")
    try:
        with safe_open(path, framework="numpy") as tensors:
            metadata = tensors.metadata() or {}
            if metadata.get("format") != f"{_FORMAT}{kind}":
                raise ValueError("it is a safetensors file of another format")
            readable = [str(version) for version in versions]
            if metadata.get("version") not in readable:
                version = quoted(metadata.get("version"))
                raise ValueError(
                    f"its format version is {version}, and this nearfar reads versions "
                    f"{', '.join(readable)}"
                )
            yield TensorFile(tensors, metadata)
    except SafetensorError as error:
        raise ValueError(f"{path}: not a safetensors file, or a damaged one: {error}.") from error
    except _INVALID as error:
        reason = cut(str(error).rstrip("."), _LONGEST_TEXT)
        raise ValueError(f"{path}: not a valid {kind}: {reason}.") from error


_KEY = "provenance"
_FINGERPRINT_BYTES = 6


@dataclass(frozen=True)
class Provenance:
    """Where a file comes from; prints as one or two lines.

    Attributes
    ----------
    made: Date and time in UTC, as "2026-11-18T14:20:00Z".
    nearfar: Version of nearfar.
    data: How many rows, or queries and documents, it was learned from.
    fingerprint: The same for the same rows, in any order.
    verdict: What was found when it was compared; empty if it was not.
    """

    made: str
    nearfar: str
    data: dict[str, int]
    fingerprint: str
    verdict: str = ""

    @classmethod
    def now(cls, data: Mapping[str, int], digests: Ints, verdict: str = "") -> Self:
        """Return where a file comes from that is made now; `digests` are those of its rows."""
        seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
        made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
        content = np.sort(digests).astype("<i8").tobytes()
        fingerprint = blake2b(content, digest_size=_FINGERPRINT_BYTES).hexdigest()
        return cls(made, __version__, dict(data), fingerprint, verdict)

    @classmethod
    def read(cls, metadata: Mapping[str, str]) -> Self | None:
        """Return what the metadata of a file say; None if they do not, as in earlier files."""
        if _KEY not in metadata:
            return None
        try:
            entry = json.loads(metadata[_KEY])
            data = {str(name): int(number) for name, number in entry["data"].items()}
            # Anyone can write a file: its texts should be short enough to print.
            texts = {name: cut(entry[name], _LONGEST_TEXT) for name in entry.keys() - {"data"}}
            return cls(**texts, data=data)
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"its entry {_KEY!r} is damaged; learn it again") from error

    @property
    def metadata(self) -> dict[str, str]:
        """What a file keeps."""
        return {_KEY: json.dumps(asdict(self))}

    def __str__(self) -> str:
        *first, last = (f"{number:,} {name}" for name, number in self.data.items())
        data = f"{', '.join(first)} and {last}" if first else last
        made = f"Made {self.made} by nearfar {self.nearfar} from {data}"
        verdict = f"\nVerdict: {self.verdict}" if self.verdict else ""
        return f"{made} (fingerprint {self.fingerprint}).{verdict}"
