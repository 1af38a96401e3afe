"""Atomic writes, and temporary files that do not stay behind even if the process is killed.

A write goes to a temporary file, which then takes the place of the target. Where the system can,
that file has no name until it is complete (O_TMPFILE of Linux): it is gone with its process. What
needs a name is in a temporary folder, which is locked as long as its process lives; the next run
that writes to the same place deletes folders that nobody has locked. Without locks, as on Windows,
nothing is deleted.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment]

_PREFIX = ".nearfar-tmp-"
_NAME = re.compile(r"\.?nearfar-[a-z]+-[0-9a-f]{16}")
_OPEN_FILES = "/proc/self/fd/"
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
# Folders that this process has looked at.
_cleared: set[Path] = set()


@contextmanager
def atomic_write(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary file that replaces the target at the end, unless an error occurs.

    An existing file keeps its permissions, and a symbolic link stays a link. Errors of the system,
    such as a full disk, name the target.
    """
    path = Path(target).resolve()
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent}.")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file.")
    try:
        with temporary_path(path.parent, mode=0o666) as temporary:
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            if path.exists():
                temporary.chmod(stat.S_IMODE(path.stat().st_mode))
            if temporary.parent.parent == path.parent:
                temporary.replace(path)
                return
            with temporary_folder(parent=path.parent) as folder:
                # Only with a directory's descriptor does os.link follow the link in /proc.
                os.link(temporary, folder / "file", src_dir_fd=0)
                (folder / "file").replace(path)
    except OSError as error:
        # An error about the temporary file, or about no file in particular, names the target.
        ours = str(path.parent / _PREFIX), _OPEN_FILES
        if error.errno is None or not str(error.filename or _OPEN_FILES).startswith(ours):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error


@contextmanager
def temporary_path(folder: Path | None = None, *, mode: int = 0o600) -> Iterator[Path]:
    """Yield the path of an empty file, or of none yet, that is deleted at the end.

    Parameters
    ----------
    folder: Where it is; by default where `tempfile` puts files.
    mode: Permissions, less those that the process does not give.
    """
    parent = folder or Path(tempfile.gettempdir())
    with ExitStack() as stack:
        path = None
        # Not every system and file system has files without a name.
        with suppress(OSError, AttributeError):
            descriptor = os.open(parent, os.O_RDWR | os.O_TMPFILE, mode)
            stack.callback(os.close, descriptor)
            path = path_of(descriptor)
        yield path or stack.enter_context(temporary_folder(parent=parent)) / "file"


@contextmanager
def temporary_folder(prefix: str = _PREFIX, parent: Path | None = None) -> Iterator[Path]:
    """Yield a folder that is deleted at the end."""
    parent = parent or Path(tempfile.gettempdir())
    clear_abandoned(parent)
    path = parent / temporary_name(prefix)
    with always_cleaned_up(lambda: shutil.rmtree(path, ignore_errors=True)):
        lock = _create_locked(path)
        try:
            yield path
        finally:
            os.close(lock)


def temporary_name(prefix: str = _PREFIX) -> str:
    """Return a new name, which `clear_abandoned` recognises."""
    return f"{prefix}{secrets.token_hex(8)}"


def path_of(descriptor: int) -> Path | None:
    """Return a path by which this process can open its own open file, if the system has one."""
    path = Path(f"{_OPEN_FILES}{descriptor}")
    return path if path.exists() else None


def _create_locked(folder: Path) -> int:
    """Create a folder and lock it; again if another run deleted it in between."""
    while True:
        folder.mkdir(0o700)
        if fcntl is None:
            return os.open(os.devnull, os.O_RDONLY)
        with suppress(FileNotFoundError):
            descriptor = os.open(folder, _OPEN)
            # Some file systems have no locks.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if folder.exists():
                return descriptor
            os.close(descriptor)


def clear_abandoned(folder: Path) -> None:
    """Delete what killed runs have left in a folder; a process looks at each folder once."""
    if fcntl is None or folder in _cleared:
        return
    _cleared.add(folder)
    with suppress(OSError):
        for path in [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]:
            with suppress(OSError):
                descriptor = os.open(path, _OPEN)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
                finally:
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
