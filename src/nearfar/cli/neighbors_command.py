"""``nearfar neighbors``: nearest rows by a metric."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from nearfar.cli import options
from nearfar.cli.errors import UserError
from nearfar.cli.metric_files import check_output, load_metric
from nearfar.cli.row_input import InputRows, read_rows
from nearfar.cli.streams import shown_target, spooled
from nearfar.cli.table_formats import (
    TABLES,
    WRITTEN_TABLES,
    column_names,
    kind_of,
    write_frame,
)
from nearfar.cli.tables import named_columns
from nearfar.cli.terminal import bars, command, note, say, show_json, show_table
from nearfar.metrics.metric import Metric
from nearfar.neighbors import kneighbors
from nearfar.typing import Ints, Matrix

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
            help="Metric file, unless --distance is given; then a table, an array, the name of a "
            "dataset, or - for stdin.",
        ),
    ],
    distance: Annotated[
        PlainDistance | None,
        typer.Option(help="Search by this distance on unscaled rows, without a metric."),
    ] = None,
    label: options.Label = None,
    drop: options.Drop = None,
    ids: options.Id = None,
    text: options.Text = None,
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
    number: Annotated[int, typer.Option("--neighbors", min=1, help="Number of neighbours.")] = 5,
    save_as: Annotated[
        Path | None,
        options.output("Table to write. It has all rows unless --row is given, as has --json."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Find the nearest rows of some rows, of all rows, or of the rows of another file."""
    metric, source = _metric_and_source(inputs, distance)
    if save_as is not None:
        check_output(save_as, WRITTEN_TABLES, [*inputs, queries])
    found = None if metric is None else load_metric(metric)
    gallery = read_rows(source, label=label, drop=drop, ids=ids, text=text, metric=found)
    if found is None:
        cosine = distance is PlainDistance.cosine
        found = gallery.described(Metric(np.eye(gallery.X.shape[1]), unit_rows=cosine))
    asked = gallery
    if queries is not None:
        asked = _read_queries(queries, found, label, text, ids, drop)
    query_rows = _query_rows(row, asked, every=json or save_as is not None)
    most = len(gallery) - (queries is None)
    if number > most:
        raise UserError(f"--neighbors {number} is more than the {most} rows to search.")
    distances, indices = _search(found, gallery, asked, query_rows, number)
    if distance is PlainDistance.cosine:
        # Rows of unit length: |x - y|^2 = 2 (1 - cos).
        distances = distances**2 / 2
    table = _table(gallery, asked, query_rows, distances, indices)
    if save_as is not None:
        write_frame(table, save_as)
    if json:
        show_json(table.to_dicts())
    elif save_as is not None:
        where = shown_target(save_as)
        say(f"Neighbours of {len(query_rows)} rows, {number} each, written to {where}")
    else:
        _show(gallery, asked, query_rows, distances, indices)
        if not row and len(query_rows) < len(asked):
            note(f"these are the first {len(query_rows)} of {len(asked)} rows; --out has all.")


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


def _search(
    metric: Metric, gallery: InputRows, asked: InputRows, rows: Ints, number: int
) -> tuple[Matrix, Ints]:
    """Search in chunks, with progress."""
    parts = []
    with bars() as shown:
        for start in range(0, len(rows), _QUERIES_AT_ONCE):
            shown.update(start, len(rows), "rows")
            some = rows[start : start + _QUERIES_AT_ONCE]
            if asked is gallery:
                parts.append(kneighbors(metric, gallery.X, rows=some, n_neighbors=number))
            else:
                parts.append(kneighbors(metric, gallery.X, asked.X[some], n_neighbors=number))
    distances, indices = zip(*parts, strict=True)
    return np.concatenate(distances), np.concatenate(indices)


def _read_queries(
    queries: str,
    metric: Metric,
    label: str | None,
    text: str | None,
    ids: str | None,
    drop: list[str] | None,
) -> InputRows:
    """Read queries, with the labels and texts that they have."""
    if kind_of(Path(queries)) not in TABLES:
        return read_rows(queries, metric=metric)
    columns = column_names(Path(queries))
    return read_rows(
        queries,
        label=label if label in columns else None,
        text=text if text in columns else None,
        ids=ids,
        drop=[name for name in named_columns(drop, columns) if name in columns],
        metric=metric,
        complete=False,
    )


def _query_rows(row: list[str] | None, asked: InputRows, *, every: bool) -> Ints:
    if not row:
        return np.arange(len(asked) if every else min(_ROWS_SHOWN, len(asked)))
    numbers = {asked.row_name(number): number for number in range(len(asked))}
    unknown = next((name for name in row if name not in numbers), None)
    if unknown is not None:
        known = f"rows 0 to {len(asked) - 1}"
        if asked.ids is not None:
            known = f"{', '.join(asked.ids[:3])}, ..."
        raise UserError(f"{asked.name} has no row {unknown!r}; it has {known}.")
    return np.array([numbers[name] for name in row], dtype=np.intp)


def _table(
    gallery: InputRows,
    asked: InputRows,
    rows: Ints,
    distances: Matrix,
    indices: Ints,
) -> pl.DataFrame:
    number = indices.shape[1]
    columns: dict[str, Any] = {
        "query": [asked.row_name(row) for row in rows for _ in range(number)],
        "rank": np.tile(np.arange(1, number + 1), len(rows)),
        "neighbor": [gallery.row_name(row) for row in indices.ravel()],
        "distance": distances.ravel(),
    }
    if gallery.ids is None:
        columns["neighbor"] = indices.ravel()
    if asked.ids is None:
        columns["query"] = np.repeat(rows, number)
    if asked is not gallery and asked.y is not None:
        columns["query_label"] = np.repeat(asked.y[rows], number)
    if asked is not gallery and asked.texts is not None:
        columns["query_text"] = [asked.texts[row] for row in rows for _ in range(number)]
    if gallery.y is not None:
        columns["label"] = gallery.y[indices.ravel()]
    if gallery.texts is not None:
        columns["text"] = [gallery.texts[row] for row in indices.ravel()]
    return pl.DataFrame(columns)


def _show(
    gallery: InputRows,
    asked: InputRows,
    rows: Ints,
    distances: Matrix,
    indices: Ints,
) -> None:
    extra = [
        name for name, known in (("label", gallery.y), ("text", gallery.texts)) if known is not None
    ]
    for row, far, near in zip(rows, distances, indices, strict=True):
        lines = []
        for distance, neighbor in zip(far, near, strict=True):
            line = [gallery.row_name(neighbor), f"{distance:.4g}"]
            line += [] if gallery.y is None else [str(gallery.y[neighbor])]
            line += [] if gallery.texts is None else [_short(gallery.texts[neighbor])]
            lines.append(line)
        title = f"{asked.name}, row {asked.row_name(row)}"
        title += "" if asked.y is None or asked.y[row] == "" else f", {asked.y[row]}"
        title += "" if asked.texts is None else f": {_short(asked.texts[row])}"
        show_table(["neighbour", "distance", *extra], lines, title=title)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_WIDTH else f"{line[: _TEXT_WIDTH - 1]}…"
