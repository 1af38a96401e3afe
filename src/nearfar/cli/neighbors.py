"""``nearfar neighbors``: the nearest rows under a metric."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from numpy.typing import NDArray

from nearfar.cli import options
from nearfar.cli.files import check_target, load_metric, write_table
from nearfar.cli.source import TABLES, Source, SourceError, read_source, read_table
from nearfar.cli.terminal import bars, command, say, show_json, show_table
from nearfar.metrics.metric import Metric
from nearfar.neighbors import kneighbors

_SHOWN = 5
_CHUNK = 1 << 14
_WIDTH = 60


@command
def neighbors(
    metric: options.MetricPath,
    source: options.Rows,
    label: options.Label = None,
    drop: options.Drop = None,
    ids: options.Id = None,
    text: Annotated[str | None, typer.Option(help="Column to show for each row.")] = None,
    row: Annotated[
        list[str] | None,
        typer.Option(help="Row to ask for, by number (from 0) or --id; repeatable [the first 5]."),
    ] = None,
    queries: Annotated[
        str | None, typer.Option(help="Other rows to ask for, in a file like the first.")
    ] = None,
    number: Annotated[int, typer.Option("--neighbors", min=1, help="Number of neighbours.")] = 5,
    save_as: Annotated[
        Path | None,
        typer.Option("--out", help="Table to write, of all rows unless --row is given."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Find the nearest rows to some rows, to all of them, or to those of another file."""
    if save_as is not None:
        check_target(save_as, tuple(TABLES), [metric, source, queries])
    found = load_metric(metric)
    data = read_source(source, label=label, drop=drop or [], ids=ids, text=text, metric=found)
    asked = data
    if queries is not None:
        asked = read_source(queries, drop=_also(queries, label, text, drop), ids=ids, metric=found)
    rows = _chosen(row, asked, every=save_as is not None)
    most = len(data.X) - (queries is None)
    if number > most:
        raise SourceError(f"--neighbors {number} is more than the {most} rows to find.")
    distances, indices = _search(found, data, asked, rows, number)
    table = _table(data, asked, rows, distances, indices)
    if save_as is not None:
        write_table(table, save_as)
    if json:
        show_json(table.to_dicts())
    elif save_as is not None:
        say(f"Neighbours of {len(rows)} rows, {number} each, written to {save_as}")
    else:
        _show(data, asked, rows, distances, indices)


def _search(
    metric: Metric, data: Source, asked: Source, rows: NDArray[np.intp], number: int
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Find neighbours, some queries at a time, with progress."""
    parts = []
    with bars() as shown:
        for start in range(0, len(rows), _CHUNK):
            shown.update(start, len(rows), "rows")
            some = rows[start : start + _CHUNK]
            if asked is data:
                parts.append(kneighbors(metric, data.X, rows=some, n_neighbors=number))
            else:
                parts.append(kneighbors(metric, data.X, asked.X[some], n_neighbors=number))
    distances, indices = zip(*parts, strict=True)
    return np.concatenate(distances), np.concatenate(indices)


def _also(queries: str, label: str | None, text: str | None, drop: list[str] | None) -> list[str]:
    """Columns to leave out of the queries, those that they have."""
    if Path(queries).suffix.lower() not in TABLES:
        return []
    columns = read_table(Path(queries)).columns
    return [name for name in (label, text, *(drop or [])) if name in columns]


def _chosen(row: list[str] | None, asked: Source, *, every: bool) -> NDArray[np.intp]:
    if not row:
        return np.arange(len(asked.X) if every else min(_SHOWN, len(asked.X)))
    names = {asked.called(number): number for number in range(len(asked.X))}
    unknown = [name for name in row if name not in names]
    if unknown:
        which = f"0 to {len(names) - 1}" if asked.ids is None else f"{_examples(asked)}"
        raise SourceError(f"{asked.name} has no row {unknown[0]!r}; it has {which}.")
    return np.array([names[name] for name in row], dtype=np.intp)


def _examples(data: Source) -> str:
    """A few names of rows, as an example."""
    return ", ".join((data.ids or [])[:3]) + " and so on"


def _table(
    data: Source,
    asked: Source,
    rows: NDArray[np.intp],
    distances: NDArray[np.float64],
    indices: NDArray[np.intp],
) -> pl.DataFrame:
    number = indices.shape[1]
    columns: dict[str, Any] = {
        "query": [asked.called(row) for row in rows for _ in range(number)],
        "rank": np.tile(np.arange(1, number + 1), len(rows)),
        "neighbor": [data.called(row) for row in indices.ravel()],
        "distance": distances.ravel(),
    }
    if data.ids is None:
        columns["neighbor"] = indices.ravel()
    if asked.ids is None:
        columns["query"] = np.repeat(rows, number)
    if data.y is not None:
        columns["label"] = data.y[indices.ravel()]
    if data.texts is not None:
        columns["text"] = [data.texts[row] for row in indices.ravel()]
    return pl.DataFrame(columns)


def _show(
    data: Source,
    asked: Source,
    rows: NDArray[np.intp],
    distances: NDArray[np.float64],
    indices: NDArray[np.intp],
) -> None:
    extra = [name for name, known in (("label", data.y), ("text", data.texts)) if known is not None]
    for row, far, near in zip(rows, distances, indices, strict=True):
        lines = []
        for distance, neighbor in zip(far, near, strict=True):
            line = [data.called(neighbor), f"{distance:.4g}"]
            line += [] if data.y is None else [str(data.y[neighbor])]
            line += [] if data.texts is None else [_short(data.texts[neighbor])]
            lines.append(line)
        title = f"{asked.name}, row {asked.called(row)}"
        title += "" if asked.y is None else f", {asked.y[row]}"
        title += "" if asked.texts is None else f": {_short(asked.texts[row])}"
        show_table(["neighbour", "distance", *extra], lines, title=title)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
