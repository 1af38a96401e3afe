"""Atomic writes: write to a temporary file, which then takes the place of the target.

Where the system can, the file has no name until it is complete (O_TMPFILE of Linux), so that a
killed process leaves nothing behind.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearfar.runtime.temporary_files import (
    always_cleaned_up,
    clear_abandoned,
    create_locked,
    lock_file,
    path_of,
    temporary_name,
)

_OPEN_FILES = "/proc/self/fd/"


@contextmanager
def atomic_write(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary file that replaces the target at the end, unless an error occurs.

    An existing file keeps its permissions, and a symbolic link stays a link. Errors of the system,
    such as a full disk, name the target.

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
    clear_abandoned(path.parent)
    name = path.with_name(temporary_name())
    with always_cleaned_up(lambda: name.unlink(missing_ok=True)), _naming(target, name):
        descriptor, temporary = _created(name)
        try:
            yield temporary
            _sync(temporary)
            if path.exists():
                temporary.chmod(stat.S_IMODE(path.stat().st_mode))
            if temporary == name:
                name.replace(path)
            else:
                _link(descriptor, temporary, name, path)
        finally:
            os.close(descriptor)


def _created(name: Path) -> tuple[int, Path]:
    """Create a file, without a name if possible; return its descriptor, and a path to open it."""
    if hasattr(os, "O_TMPFILE"):
        try:
            descriptor = os.open(name.parent, os.O_RDWR | os.O_TMPFILE, 0o666)
        except OSError:
            # Not on this file system; or the other way fails too, and says why.
            return create_locked(name), name
        lock_file(descriptor)
        temporary = path_of(descriptor)
        if temporary is not None:
            return descriptor, temporary
        os.close(descriptor)
    return create_locked(name), name


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _link(descriptor: int, temporary: Path, name: Path, path: Path) -> None:
    """Give a file without a name that of the target."""
    # Only with a directory's descriptor does os.link follow the link in /proc.
    try:
        os.link(temporary, path, src_dir_fd=descriptor)
    except FileExistsError:
        os.link(temporary, name, src_dir_fd=descriptor)
        name.replace(path)


@contextmanager
def _naming(target: str | os.PathLike[str], name: Path) -> Iterator[None]:
    """Name the target in errors about a temporary file, or about no file in particular."""
    try:
        yield
    except OSError as error:
        about = str(error.filename or name)
        if error.errno is None or not about.startswith((str(name), _OPEN_FILES)):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error
