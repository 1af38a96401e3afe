"""Files that commands take and write: metrics and adapters, and ``-`` for stdin and stdout."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TypeVar

import typer

from nearfar.frames.formats import (
    STDIN_FOLDER,
    STREAM,
    kind_of_content,
)
from nearfar.runtime.atomic_write import temporary_folder

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
