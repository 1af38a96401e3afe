"""``nearfar neighbors``: nearest rows by a metric, or best documents by an adapter."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from nearfar.cli import options
from nearfar.cli.files import deliver, is_adapter, load_adapter, load_metric, spooled
from nearfar.cli.terminal import UserError, bars, command, show_table
from nearfar.metrics.metric import Metric
from nearfar.retrieval import RetrievalAdapter
from nearfar.retrieval.ranking import as_vectors
from nearfar.retrieval.search_input import Kind, read_vectors
from nearfar.runtime.notes import note
from nearfar.runtime.quoting import counted, plain
from nearfar.tables.formats import WRITTEN_TABLES, check_output, shown_name, stem_of
from nearfar.tables.reading import read_other, read_rows
from nearfar.tables.table import Table
from nearfar.workflow.neighbor_table import NeighborTable, find_rows, nearest_rows

_ROWS_SHOWN = 5
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
    if metric is not None and is_adapter(metric):
        if label is not None or drop:
            raise UserError("--label and --drop are for metrics; an adapter takes vectors.")
        sides = _with_adapter(metric, source, queries, ids=ids, text=show, vector=vector)
    elif vector is not None:
        raise UserError("--vector is for adapters.")
    else:
        columns = {"label": label, "drop": drop, "ids": ids, "text": show}
        sides = _with_metric(metric, source, queries, distance, columns)
    asked = sides[2]
    every = json or save_as is not None
    rows = find_rows(asked, row, most=None if every else _ROWS_SHOWN)
    cosine = distance is PlainDistance.cosine
    with bars() as shown:
        nearest = nearest_rows(*sides, rows, number, cosine=cosine, progress=shown.update)
    if np.isfinite(nearest.cutoff):
        n_answers = np.count_nonzero(nearest.values >= nearest.cutoff, axis=1)
        none, most = (np.count_nonzero(n_answers == each) for each in (0, number))
        of_all = f"of {len(rows)} queries get"
        if none:
            note(f"{none} {of_all} no answer: no score is {nearest.cutoff:.4g} or more.")
        if most:
            note(f"{most} {of_all} {number} answers (--neighbors), and may have more.")
    each = f"{'at most ' * bool(np.isfinite(nearest.cutoff))}{number} each"
    content = f"Neighbours of {counted(len(rows), 'row')}, {each},"
    if not deliver(nearest.frame(), save_as, content, json=json):
        _show(nearest, every=bool(row))


_Searched = tuple[Metric | RetrievalAdapter, Table, Table]


def _with_metric(
    path: Path | None,
    source: str,
    queries: str | None,
    distance: PlainDistance | None,
    columns: dict[str, Any],
) -> _Searched:
    """Read a metric, or make that of a plain distance, and the rows."""
    metric = None if path is None else load_metric(path)
    gallery = read_rows(source, metric=metric, complete=False, **columns)
    if metric is None:
        unit = distance is PlainDistance.cosine
        metric = gallery.described(Metric(np.eye(gallery.X.shape[1]), unit_rows=unit))
    asked = gallery if queries is None else read_other(queries, metric=metric, **columns)
    return metric, gallery, asked


def _with_adapter(path: Path, source: str, queries: str | None, **columns: Any) -> _Searched:
    """Read an adapter, documents and queries."""
    if queries is None:
        raise UserError("An adapter searches documents for queries; give them with --queries FILE.")
    sides: dict[Kind, str] = {"document": source, "query": queries}
    tables = []
    for kind, file in sides.items():
        vectors = read_vectors(file, kind, **columns)
        X = as_vectors(vectors.vectors, shown_name(file))
        tables.append(Table(stem_of(Path(file)), X, ids=vectors.ids, texts=vectors.texts))
    gallery, asked = tables
    return load_adapter(path), gallery, asked


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


def _show(nearest: NeighborTable, *, every: bool) -> None:
    gallery, asked = nearest.gallery, nearest.asked
    headings = ["neighbour", nearest.measure]
    headings += [] if gallery.y is None else ["label"]
    headings += [] if gallery.texts is None else ["text"]
    for row, values, indices in zip(nearest.rows, nearest.values, nearest.indices, strict=True):
        lines = []
        for value, neighbor in zip(values, indices[values >= nearest.cutoff], strict=False):
            line = [gallery.row_name(neighbor), plain(value)]
            line += [] if gallery.y is None else [str(gallery.y[neighbor])]
            line += [] if gallery.texts is None else [_short(gallery.texts[neighbor])]
            lines.append(line)
        title = f"{asked.name}, row {asked.row_name(row)}"
        title += "" if asked.y is None or asked.y[row] == "" else f", {asked.y[row]}"
        title += "" if asked.texts is None else f": {_short(asked.texts[row])}"
        show_table(headings, lines or [["no answer"]], title=title)
    if not every and len(nearest.rows) < len(asked):
        note(f"these are the first {len(nearest.rows)} of {len(asked)} rows; --out has all.")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_WIDTH else f"{line[: _TEXT_WIDTH - 1]}…"
