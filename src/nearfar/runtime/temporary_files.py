"""Temporary files that do not stay behind, even if the process is killed.

A file without a name is gone with its process. What needs a name is locked as long as its process
lives: the next run that writes to the same folder deletes names that nobody has locked. Without
locks, as on Windows, nothing is deleted.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment]

_PREFIX = ".nearfar-tmp-"
_NAME = re.compile(r"\.?nearfar-[a-z]+-[0-9a-f]{16}")
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_cleared: set[str] = set()
"""Folders that this process has looked at."""


def temporary_name(prefix: str = _PREFIX) -> str:
    """Return a new name, which `clear_abandoned` knows."""
    return f"{prefix}{secrets.token_hex(8)}"


@contextmanager
def temporary_path(folder: Path | None = None) -> Iterator[Path]:
    """Yield the path of an empty file that is deleted at the end.

    Parameters
    ----------
    folder : Path, optional
        Where it is; by default where `tempfile` puts files.

    Examples
    --------
    >>> from nearfar.runtime.temporary_files import temporary_path
    >>> with temporary_path() as path:
    ...     _ = path.write_text("some")
    ...     path.read_text()
    'some'
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        path = path_of(file.fileno())
        if path is not None:
            yield path
            return
    with temporary_folder(parent=folder) as parent:
        yield parent / "file"


@contextmanager
def temporary_folder(prefix: str = _PREFIX, parent: Path | None = None) -> Iterator[Path]:
    """Yield a folder that is deleted at the end.

    Examples
    --------
    >>> from nearfar.runtime.temporary_files import temporary_folder
    >>> with temporary_folder() as folder:
    ...     folder.is_dir()
    True
    >>> folder.exists()
    False
    """
    parent = parent or Path(tempfile.gettempdir())
    clear_abandoned(parent)
    path = parent / temporary_name(prefix)
    with always_cleaned_up(lambda: shutil.rmtree(path, ignore_errors=True)):
        lock = _locked(path, lambda: path.mkdir(0o700))
        try:
            yield path
        finally:
            os.close(lock)


def create_locked(path: Path) -> int:
    """Create an empty file and return a descriptor for it, which holds its lock."""

    def create() -> None:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))

    return _locked(path, create)


def path_of(descriptor: int) -> Path | None:
    """Return a path by which this process can open its own open file, if the system has one."""
    path = Path(f"/proc/self/fd/{descriptor}")
    return path if path.exists() else None


def lock_file(descriptor: int) -> None:
    """Lock an open file, so that no other run deletes it."""
    if fcntl is not None:
        # Some file systems have no locks.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)


def clear_abandoned(folder: Path) -> None:
    """Delete what killed runs have left in a folder; a process looks at each folder once."""
    if fcntl is None or str(folder) in _cleared:
        return
    _cleared.add(str(folder))
    with suppress(OSError):
        for path in folder.iterdir():
            if _NAME.fullmatch(path.name):
                _delete_abandoned(path)


def _delete_abandoned(path: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(path, _OPEN)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        finally:
            os.close(descriptor)


def _locked(path: Path, create: Callable[[], None]) -> int:
    """Create a file or folder and lock it; again if another run deleted it in between."""
    while True:
        create()
        if fcntl is None:
            return os.open(os.devnull, os.O_RDONLY)
        try:
            descriptor = os.open(path, _OPEN)
        except FileNotFoundError:
            continue
        lock_file(descriptor)
        if path.exists():
            return descriptor
        os.close(descriptor)


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
