"""Files that commands take and write: metrics and adapters to read, and paths to write to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from nearfar.cli.errors import UserError
from nearfar.metrics.metric import Metric
from nearfar.runtime.notes import note
from nearfar.runtime.tensor_file import kind_of_file
from nearfar.tables.errors import no_file
from nearfar.tables.formats import FORMATS, STREAM, kind_of
from nearfar.tables.formats import check_output as check_output

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


def warn_of_same_rows(train: str, new: str) -> None:
    """Say that new rows find themselves, if they are the training rows."""
    if Path(train).resolve() == Path(new).resolve():
        note(
            "the new rows are the training rows, so that each finds itself; evaluate without "
            "--train predicts each row from the others."
        )
