"""Files that commands take: metrics to read, and paths to write to."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from nearfar.cli.errors import UserError
from nearfar.cli.streams import STREAM
from nearfar.metrics.metric import Metric


def load_metric(path: Path) -> Metric:
    """Read a metric's file."""
    if not path.is_file():
        raise UserError(f"There is no file {path}.")
    return Metric.load(path)


def check_output(
    path: Path, formats: tuple[str, ...] | None, inputs: Iterable[str | Path | None] = ()
) -> None:
    """Raise UserError unless a file of one of the formats can be written, and is not an input."""
    if str(path) == STREAM and formats is not None and ".csv" in formats:
        return
    if formats is not None and path.suffix.lower() not in formats:
        raise UserError(f"{path} cannot be written in this format; use {', '.join(formats)}.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file.")
    try:
        folder = path.resolve().parent
    except (OSError, RuntimeError) as error:
        raise UserError(f"{path} is not a valid path: {error}") from error
    if not folder.is_dir():
        raise UserError(f"There is no folder {path.parent}.")
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is a device or a pipe; name a file.")
    if not os.access(folder, os.W_OK):
        raise UserError(f"The folder {folder} is not writable.")
    for given in inputs:
        if given is not None and path.exists() and Path(given).exists() and path.samefile(given):
            raise UserError(f"{path} is an input; name another file to write to.")
