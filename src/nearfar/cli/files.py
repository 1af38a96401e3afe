"""Files that commands take and write: metrics and adapters, and ``-`` for stdin and stdout."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import polars as pl
import typer

from nearfar.cli.terminal import UserError, copy_to_stdout, say, show_json
from nearfar.metrics.metric import Metric
from nearfar.runtime.atomic_write import temporary_folder
from nearfar.runtime.notes import note
from nearfar.runtime.tensor_file import kind_of_file
from nearfar.tables.errors import no_file
from nearfar.tables.formats import (
    FORMATS,
    STDIN_FOLDER,
    STREAM,
    check_output,
    kind_of,
    kind_of_content,
    write_frame,
)

if TYPE_CHECKING:
    from nearfar.retrieval import RetrievalAdapter

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


def shown_target(path: Path) -> str:
    """Return where a table is written, in words.

    Examples
    --------
    >>> from pathlib import Path
    >>> from nearfar.cli.files import shown_target
    >>> shown_target(Path("-")), shown_target(Path("out.csv"))
    ('stdout', 'out.csv')
    """
    return "stdout" if str(path) == STREAM else str(path)


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


def write_table(frame: pl.DataFrame, path: Path) -> None:
    """Write a whole table; ``-`` is .csv to stdout."""
    with stdout_file(path) as target:
        write_frame(frame, target)


def deliver(table: pl.DataFrame, path: Path | None, content: str, *, json: bool) -> bool:
    """Write a table to a file, and as JSON to stdout, if either is wanted; tell whether it is.

    Parameters
    ----------
    table : polars.DataFrame
    path : Path or None
    content : str
        What the table has, for the line that says where it was written.
    json : bool
    """
    if path is not None:
        write_table(table, path)
    if json:
        show_json(table.to_dicts())
    elif path is not None:
        say(f"{content} written to {shown_target(path)}")
    return json or path is not None


def load_metric(path: Path) -> Metric:
    """Read a metric's file."""
    if is_adapter(path):
        raise UserError(
            f"{path} is an adapter for searches, not a metric; transform, neighbors, show, export "
            "and search-report take it."
        )
    if kind_of_file(path) == "sources":
        raise UserError(
            f"{path} has weights of the sources of a search, and is not a metric; show takes it, "
            "and SourceWeights.load in Python."
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


def check_metric_output(
    path: Path, inputs: Iterable[str | Path | None] = (), checkpoint: Path | None = None
) -> None:
    """Raise UserError unless a metric can be written there, beside a checkpoint."""
    if str(path) == STREAM:
        raise UserError("A metric is written to a file, not to stdout; name it with --out.")
    check_output(path, None, inputs)
    if kind_of(path) in FORMATS:
        raise UserError(f"{path} has the name of a table; name the metric .safetensors.")
    if checkpoint is not None and checkpoint.resolve() == path.resolve():
        raise UserError("--checkpoint and --out name the same file.")


def warn_of_same_rows(train: str, new: str) -> None:
    """Say that new rows find themselves, if they are the training rows."""
    if Path(train).resolve() == Path(new).resolve():
        note(
            "the new rows are the training rows, so that each finds itself; evaluate without "
            "--train predicts each row from the others."
        )
