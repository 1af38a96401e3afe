"""Files that commands take and write: metrics and adapters, and ``-`` for stdin and stdout."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from nearfar.frames.formats import (
    STDIN_FOLDER,
    STREAM,
    kind_of_content,
)
from nearfar.frames.metric_files import kind_of_model
from nearfar.old_commands.terminal import UserError, copy_to_stdout
from nearfar.runtime.atomic_write import temporary_folder

if TYPE_CHECKING:
    from nearfar.search import RetrievalAdapter

_FIRST_BYTES = 1 << 12

Source = TypeVar("Source", str, Path, str | None, list[str])


def spooled(context: typer.Context, source: Source) -> Source:
    """Copy stdin to a temporary file if a source is ``-``; it is deleted after the command.

    A pipe can be read only once, and not from the middle.
    """
    if isinstance(source, list):
        return [spooled(context, each) for each in source]
    if str(source) != STREAM:
        return source
    folder = context.with_resource(temporary_folder(STDIN_FOLDER))
    first = sys.stdin.buffer.read(_FIRST_BYTES)
    path = folder / f"stdin{kind_of_content(first)}"
    with path.open("wb") as file:
        file.write(first)
        shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
    return path if isinstance(source, Path) else str(path)


@contextmanager
def stdout_file(path: Path) -> Iterator[Path]:
    """Give a path to write to; if it is ``-``, that of a .csv file that then goes to stdout."""
    if str(path) != STREAM:
        yield path
        return
    with temporary_folder() as folder:
        temporary = folder / "stdout.csv"
        yield temporary
        with temporary.open("rb") as file:
            copy_to_stdout(file)


def load_adapter(path: Path) -> RetrievalAdapter:
    """Read an adapter's file."""
    from nearfar.search import RetrievalAdapter

    if kind_of_model(path) != "adapter":
        raise UserError(f"{path} is not an adapter, as `nearfar adapt` writes it.")
    return RetrievalAdapter.load(path)
