"""Files that commands take and write: metrics and adapters to read, and paths to write to."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from nearfar.cli.errors import UserError
from nearfar.metrics.metric import Metric
from nearfar.runtime.tensor_file import kind_of_file
from nearfar.tables.errors import no_file
from nearfar.tables.formats import FORMATS, STREAM, kind_of

if TYPE_CHECKING:
    from nearfar.retrieval import RetrievalAdapter


def load_metric(path: Path) -> Metric:
    """Read a metric's file."""
    if is_adapter(path):
        raise UserError(
            f"{path} is an adapter for searches, not a metric; transform, neighbors, show, export "
            "and search-report take it."
        )
    return Metric.load(path)


def is_adapter(path: Path) -> bool:
    """Tell whether a file is an adapter for searches; raise UserError if there is none."""
    if not path.is_file():
        raise no_file(path)
    return kind_of_file(path) == "adapter"


def load_adapter(path: Path) -> RetrievalAdapter:
    """Read an adapter's file."""
    from nearfar.retrieval import RetrievalAdapter

    if not is_adapter(path):
        raise UserError(f"{path} is not an adapter, as `nearfar adapt` writes it.")
    return RetrievalAdapter.load(path)


def check_metric_output(path: Path, inputs: Iterable[str | Path | None] = ()) -> None:
    """Raise UserError unless a metric can be written there."""
    if str(path) == STREAM:
        raise UserError("A metric is written to a file, not to stdout; name it with --out.")
    check_output(path, None, inputs)
    if kind_of(path) in FORMATS:
        raise UserError(f"{path} has the name of a table; name the metric .safetensors.")


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
        resolved = path.resolve()
    except (OSError, RuntimeError) as error:
        raise UserError(f"{path} is not a valid path: {error}") from error
    if resolved.is_symlink():
        raise UserError(f"{path} is not a valid path: it is a link that leads to itself.")
    folder = resolved.parent
    if not folder.is_dir():
        link = f", which {path} is a link to" if path.is_symlink() else ""
        raise UserError(f"There is no folder {folder if link else path.parent}{link}.")
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is a device or a pipe; name a file.")
    if not os.access(folder, os.W_OK):
        raise UserError(f"The folder {folder} is not writable.")
    for given in inputs:
        if given is not None and path.exists() and Path(given).exists() and path.samefile(given):
            raise UserError(f"{path} is an input; name another file to write to.")
