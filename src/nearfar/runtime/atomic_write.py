"""Atomic writes: write to a temporary file, then rename it."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary file that replaces the target at the end, unless an error occurs.

    An existing file keeps its permissions, and a symbolic link stays a link.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from nearfar.runtime.atomic_write import atomic_write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "file"
    ...     with atomic_write(path) as temporary:
    ...         _ = temporary.write_text("new")
    ...     path.read_text()
    'new'
    """
    path = Path(target).resolve()
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent}.")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file.")
    temporary = path.with_name(f".nearfar-{secrets.token_hex(8)}")
    with always_cleaned_up(lambda: temporary.unlink(missing_ok=True)):
        try:
            temporary.touch(exist_ok=False)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(target)) from error
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        if path.exists():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)


@contextmanager
def always_cleaned_up(cleanup: Callable[[], None]) -> Iterator[None]:
    """Clean up at the end, twice: an interrupt may arrive during the first time."""
    try:
        try:
            yield
        finally:
            cleanup()
    finally:
        cleanup()
