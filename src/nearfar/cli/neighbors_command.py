"""``nearfar neighbors``: nearest rows by a metric, or best documents by an adapter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from nearfar.cli import options
from nearfar.cli.errors import UserError
from nearfar.cli.metric_files import check_output, is_adapter, load_adapter, load_metric
from nearfar.cli.search_input import Kind, VectorTable, read_vectors
from nearfar.cli.streams import shown_name, shown_target, spooled, write_table
from nearfar.cli.terminal import bars, command, say, show_json, show_table
from nearfar.metrics.metric import Metric
from nearfar.neighbors import kneighbors
from nearfar.retrieval import RetrievalAdapter, search
from nearfar.retrieval.vectors import as_vectors
from nearfar.runtime.notes import note
from nearfar.runtime.quoting import named
from nearfar.tables.formats import WRITTEN_TABLES, stem_of
from nearfar.tables.row_input import InputRows, read_rows
from nearfar.tables.training_input import read_other
from nearfar.typing import Floats, Ints

_ROWS_SHOWN = 5
_QUERIES_AT_ONCE = 1 << 14
_TEXT_WIDTH = 60


class PlainDistance(StrEnum):
    """Distances that need no metric file."""

    euclidean = "euclidean"
    cosine = "cosine"


@command
def neighbors(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="[METRIC] SOURCE",
            callback=spooled,
            help="Metric or adapter file, unless --distance is given; then a table, an array, the "
            "name of a dataset, or - for stdin.",
        ),
    ],
    distance: Annotated[
        PlainDistance | None,
        typer.Option(help="Search by this distance on unscaled rows, without a metric."),
    ] = None,
    label: options.Label = None,
    drop: options.Drop = None,
    ids: options.Id = None,
    show: options.ShowOrText = None,
    row: Annotated[
        list[str] | None,
        typer.Option(
            help="Query row, by number (from 0) or by --id; repeatable [default: the first 5]."
        ),
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", callback=spooled, help="Take the query rows from another file."
        ),
    ] = None,
    vector: options.VectorColumn = None,
    number: Annotated[int, typer.Option("--neighbors", min=1, help="Number of neighbours.")] = 5,
    save_as: Annotated[
        Path | None,
        options.output("Table to write. It has all rows unless --row is given, as has --json."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Find the nearest rows of some rows, of all rows, or of the rows of another file.

    With an adapter, find the documents with the best scores for queries.
    """
    metric, source = _metric_and_source(inputs, distance)
    if save_as is not None:
        check_output(save_as, WRITTEN_TABLES, [*inputs, queries])
    columns = _Columns(label, drop, ids, show, vector)
    if metric is not None and is_adapter(metric):
        found = _adapter_search(load_adapter(metric), source, queries, columns)
    else:
        found = _metric_search(metric, source, queries, columns, distance)
    query_rows = _query_rows(row, found.asked, every=json or save_as is not None)
    most = len(found.gallery) - (found.asked is found.gallery)
    if number > most:
        raise UserError(f"--neighbors {number} is more than the {most} rows to search.")
    values, indices = _in_chunks(found, query_rows, number)
    table = _table(found, query_rows, values, indices)
    if save_as is not None:
        write_table(table, save_as)
    if json:
        show_json(table.to_dicts())
    elif save_as is not None:
        where = shown_target(save_as)
        say(f"Neighbours of {len(query_rows)} rows, {number} each, written to {where}")
    else:
        _show(found, query_rows, values, indices)
        if not row and len(query_rows) < len(found.asked):
            note(
                f"these are the first {len(query_rows)} of {len(found.asked)} rows; --out has all."
            )


@dataclass(frozen=True)
class _Columns:
    """What columns are said to be."""

    label: str | None
    drop: list[str] | None
    ids: str | None
    text: str | None
    vector: str | None


@dataclass(frozen=True)
class _Search:
    """Rows to search, and rows that are asked about.

    Attributes
    ----------
    gallery, asked : InputRows
    find : callable
        Row numbers of `asked` and how many neighbours -> what orders them, and their row numbers.
    measure : str
        What orders them.
    """

    gallery: InputRows
    asked: InputRows
    find: Callable[[Ints, int], tuple[Floats, Ints]]
    measure: str = "distance"


def _metric_search(
    path: Path | None,
    source: str,
    queries: str | None,
    columns: _Columns,
    distance: PlainDistance | None,
) -> _Search:
    """Search by a metric, or by a plain distance."""
    if columns.vector is not None:
        raise UserError("--vector is for adapters.")
    metric = None if path is None else load_metric(path)
    named: dict[str, Any] = {
        "label": columns.label,
        "drop": columns.drop,
        "ids": columns.ids,
        "text": columns.text,
    }
    gallery = read_rows(source, metric=metric, complete=False, **named)
    cosine = distance is PlainDistance.cosine
    if metric is None:
        metric = gallery.described(Metric(np.eye(gallery.X.shape[1]), unit_rows=cosine))
    used: Metric = metric
    asked = gallery if queries is None else read_other(queries, metric=used, **named)

    def find(rows: Ints, number: int) -> tuple[Floats, Ints]:
        own = asked is gallery
        among: dict[str, Any] = {"rows": rows} if own else {"queries": asked.X[rows]}
        distances, indices = kneighbors(used, gallery.X, n_neighbors=number, **among)
        # Rows of unit length: |x - y|^2 = 2 (1 - cos).
        return distances**2 / 2 if cosine else distances, indices

    return _Search(gallery, asked, find)


def _adapter_search(
    adapter: RetrievalAdapter, source: str, queries: str | None, columns: _Columns
) -> _Search:
    """Search for queries among documents, by the score of an adapter."""
    if queries is None:
        raise UserError("An adapter searches documents for queries; give them with --queries FILE.")
    if columns.label is not None or columns.drop:
        raise UserError("--label and --drop are for metrics; an adapter takes vectors.")
    named = {"ids": columns.ids, "text": columns.text, "vector": columns.vector}
    sides: dict[Kind, str] = {"document": source, "query": queries}
    gallery, asked = (
        _as_rows(read_vectors(file, kind, **named), file) for kind, file in sides.items()
    )
    documents = adapter.transform_documents(gallery.X)

    def find(rows: Ints, number: int) -> tuple[Floats, Ints]:
        ranking = search(adapter.transform_queries(asked.X[rows]), documents, number)
        return ranking.scores, ranking.documents

    return _Search(gallery, asked, find, "score")


def _as_rows(table: VectorTable, source: str) -> InputRows:
    X = as_vectors(table.vectors, shown_name(source))
    return InputRows(stem_of(Path(source)), X, ids=table.ids, texts=table.texts)


def _metric_and_source(
    inputs: list[str], distance: PlainDistance | None
) -> tuple[Path | None, str]:
    """Return the metric file, if there is one, and where the rows come from."""
    if distance is None and len(inputs) == 2:
        return Path(inputs[0]), inputs[1]
    if distance is not None and len(inputs) == 1:
        return None, inputs[0]
    if distance is None:
        raise UserError("Give a metric file and a table, or a table and --distance.")
    raise UserError(f"With --distance {distance}, give a table and no metric file.")


def _in_chunks(asking: _Search, rows: Ints, number: int) -> tuple[Floats, Ints]:
    """Search in chunks, with progress."""
    parts = []
    with bars() as shown:
        for start in range(0, len(rows), _QUERIES_AT_ONCE):
            shown.update(start, len(rows), "rows")
            parts.append(asking.find(rows[start : start + _QUERIES_AT_ONCE], number))
    values, indices = zip(*parts, strict=True)
    return np.concatenate(values), np.concatenate(indices)


def _query_rows(row: list[str] | None, asked: InputRows, *, every: bool) -> Ints:
    if not row:
        return np.arange(len(asked) if every else min(_ROWS_SHOWN, len(asked)))
    numbers = {asked.row_name(number): number for number in range(len(asked))}
    unknown = next((name for name in row if name not in numbers), None)
    if unknown is not None:
        known = f"rows 0 to {len(asked) - 1}"
        if asked.ids is not None:
            known = f"{', '.join(map(named, asked.ids[:3]))}, ..."
        raise UserError(f"{asked.name} has no row {unknown!r}; it has {known}.")
    return np.array([numbers[name] for name in row], dtype=np.intp)


def _table(asking: _Search, rows: Ints, values: Floats, indices: Ints) -> pl.DataFrame:
    gallery, asked = asking.gallery, asking.asked
    number = indices.shape[1]
    columns: dict[str, Any] = {
        "query": asked.row_names(np.repeat(rows, number)),
        "rank": np.tile(np.arange(1, number + 1), len(rows)),
        "neighbor": gallery.row_names(indices.ravel()),
        asking.measure: values.ravel(),
    }
    if asked is not gallery and asked.y is not None:
        columns["query_label"] = np.repeat(asked.y[rows], number)
    if asked is not gallery and asked.texts is not None:
        columns["query_text"] = [asked.texts[row] for row in rows for _ in range(number)]
    if gallery.y is not None:
        columns["label"] = gallery.y[indices.ravel()]
    if gallery.texts is not None:
        columns["text"] = [gallery.texts[row] for row in indices.ravel()]
    return pl.DataFrame(columns)


def _show(asking: _Search, rows: Ints, values: Floats, indices: Ints) -> None:
    gallery, asked = asking.gallery, asking.asked
    extra = [
        name for name, known in (("label", gallery.y), ("text", gallery.texts)) if known is not None
    ]
    for row, far, near in zip(rows, values, indices, strict=True):
        lines = []
        for value, neighbor in zip(far, near, strict=True):
            line = [gallery.row_name(neighbor), f"{value:.4g}"]
            line += [] if gallery.y is None else [str(gallery.y[neighbor])]
            line += [] if gallery.texts is None else [_short(gallery.texts[neighbor])]
            lines.append(line)
        title = f"{asked.name}, row {asked.row_name(row)}"
        title += "" if asked.y is None or asked.y[row] == "" else f", {asked.y[row]}"
        title += "" if asked.texts is None else f": {_short(asked.texts[row])}"
        show_table(["neighbour", asking.measure, *extra], lines, title=title)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_WIDTH else f"{line[: _TEXT_WIDTH - 1]}…"
