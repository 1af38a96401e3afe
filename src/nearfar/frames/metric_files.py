"""Files of metrics and adapters: what kind they are, and whether one can be written."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

from nearfar.frames.formats import FORMATS, STREAM, check_output, kind_of
from nearfar.frames.table import TableError, no_file
from nearfar.measures.neighbor_votes import DEFAULT_NEIGHBORS
from nearfar.metrics.metric import Metric
from nearfar.metrics.training_facts import stored_votes
from nearfar.runtime.messages import note
from nearfar.runtime.tensor_file import kind_of_file

_OTHERS = {
    "adapter": "an adapter for searches, not a metric; transform, neighbors, show, export and "
    "search-report take it",
    "sources": "a file with weights of the sources of a search, not a metric; show takes it, and "
    "SourceWeights.load in Python",
}
# What loads the other kinds; they are imported only where there is such a file.
_CLASSES = {
    "adapter": ("nearfar.search.adapter", "RetrievalAdapter"),
    "sources": ("nearfar.search.sources", "SourceWeights"),
}


def kind_of_model(path: Path) -> str:
    """Return "metric", "adapter" or "sources"; raise TableError if there is no file."""
    if not path.is_file():
        raise no_file(path)
    kind = kind_of_file(path)
    return kind if kind in _OTHERS else "metric"


def load_model(path: Path) -> Any:
    """Read a file of any kind."""
    if (kind := kind_of_model(path)) == "metric":
        return Metric.load(path)
    module, name = _CLASSES[kind]
    return getattr(import_module(module), name).load(path)


def load_metric(path: Path) -> Metric:
    """Read a metric's file."""
    if (kind := kind_of_model(path)) != "metric":
        raise TableError(f"{path} is {_OTHERS[kind]}.")
    return Metric.load(path)


def best_neighbors(path: Path, n_rows: int) -> int:
    """Return how many neighbours vote best, by a metric's file, or a few if that does not say."""
    votes = stored_votes(path)
    return min(DEFAULT_NEIGHBORS if votes is None else votes.best, max(1, n_rows - 1))


def check_metric_output(
    path: str | PathLike[str], inputs: Iterable[object] = (), checkpoint: Path | None = None
) -> None:
    """Raise TableError unless a metric can be written there."""
    path = Path(path)
    if str(path) == STREAM:
        raise TableError("A metric is written to a file, not to stdout; name it with --out.")
    check_output(path, None, inputs)
    if kind_of(path) in FORMATS:
        raise TableError(f"{path} has the name of a table; name the metric .safetensors.")
    if checkpoint is not None and checkpoint.resolve() == path.resolve():
        raise TableError("--checkpoint and --out name the same file.")


def note_same_rows(train: object, new: object) -> None:
    """Note that new rows find themselves, if they are the training rows."""
    if all(isinstance(each, str | PathLike) for each in (train, new)) and (
        Path(str(train)).resolve() == Path(str(new)).resolve()
    ):
        note(
            "the new rows are the training rows, so that each finds itself; evaluate without "
            "--train predicts each row from the others."
        )
