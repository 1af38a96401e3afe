"""Compressed files: copies of what is inside, and how much they may grow.

A few bytes can become many gigabytes. Files that grow more than those of real tables are refused
before they are in memory or on the disk.
"""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from nearfar.runtime.atomic_write import temporary_path
from nearfar.runtime.quoting import amount
from nearfar.tables.errors import TableError

_CHUNK_BYTES = 1 << 20
# What is no larger than this may be compressed as well as it can be.
_ALWAYS_BYTES = 1 << 28
# Real numbers and text grow less, even if most of them are zeros.
_MOST_GROWTH = 300


def check_growth(path: object, packed: int, unpacked: int) -> None:
    """Raise TableError if a file would grow too much; sizes are in bytes."""
    if unpacked > max(_ALWAYS_BYTES, _MOST_GROWTH * packed):
        raise TableError(
            f"{path} has {amount(unpacked)} or more in {amount(packed)}, as only damaged or "
            "malicious files do. If the data are real, save them uncompressed."
        )


def check_archive(path: Path, name: str) -> None:
    """Raise TableError if a file in a .zip or .npz file would grow too much."""
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(name)
        check_growth(path, member.compress_size, member.file_size)


@contextmanager
def unpacked_copy(
    path: Path, source: IO[bytes] | gzip.GzipFile, folder: Path | None
) -> Iterator[Path]:
    """Copy what is in a file to a temporary one, which can be read from the middle."""
    packed, unpacked = path.stat().st_size, 0
    with temporary_path(folder) as target:
        with target.open("wb") as file:
            while chunk := source.read(_CHUNK_BYTES):
                unpacked += len(chunk)
                check_growth(path, packed, unpacked)
                file.write(chunk)
        yield target
