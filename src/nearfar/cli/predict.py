"""``nearfar predict``: labels of new rows from their nearest training rows."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from nearfar.cli import options
from nearfar.cli.files import deliver, load_metric, spooled, warn_of_same_rows
from nearfar.cli.terminal import UserError, bars, command, say, show_table
from nearfar.comparison.verdict_wording import probability_text
from nearfar.metrics.learned_from import note_learned_rows
from nearfar.runtime.notes import note
from nearfar.runtime.quoting import counted
from nearfar.tables.errors import NotUniqueError
from nearfar.tables.formats import TABLES, WRITTEN_TABLES, check_output, kind_of, read_frame
from nearfar.tables.reader import named_columns, require_columns
from nearfar.tables.reading import read_labelled, read_other
from nearfar.tables.table import Table
from nearfar.workflow.prediction_table import best_neighbors, prediction_table, stored_reliability

_ROWS_SHOWN = 10


@command
def predict(
    metric: options.MetricPath,
    train: Annotated[
        str,
        typer.Argument(
            callback=spooled, help="Training rows with labels: a table, an array, or a dataset."
        ),
    ],
    new: Annotated[
        str,
        typer.Argument(callback=spooled, help="Rows to predict, in the same formats, or -."),
    ],
    label: options.Label = None,
    numbers: options.Numbers = None,
    drop: options.Drop = None,
    ids: options.Id = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN,...", help="Columns of the new rows to copy; repeatable."),
    ] = None,
    neighbors: options.BestNeighbors = None,
    level: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="Share of rows like the training rows that are called unlike."
        ),
    ] = 0.01,
    save_as: Annotated[
        Path | None, options.output("Table to write, with all rows, as has --json.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Predict labels of new rows from their nearest training rows.

    The neighbours that decided are named, with the probability that they are right, as measured on
    rows that took no part in learning. Rows that are unlike all training rows are marked.
    """
    if save_as is not None:
        check_output(save_as, WRITTEN_TABLES, [metric, train, new])
    learned = load_metric(metric)
    warn_of_same_rows(train, new)
    columns: dict[str, Any] = {"label": label, "ids": ids, "drop": drop, "metric": learned}
    try:
        known = read_labelled(train, numbers=numbers, **columns)
        asked = read_other(new, **columns)
    except NotUniqueError as error:
        remedy = f"To copy this column of the new rows, use --keep {shlex.quote(str(ids))}."
        raise UserError(f"{error} {remedy}") from error
    if neighbors is None:
        neighbors = best_neighbors(metric, known)
    if neighbors >= len(known):
        raise UserError(
            f"--neighbors {neighbors} must be less than the {len(known)} training rows."
        )
    copied = _copied_columns(new, keep)
    note_learned_rows(metric, asked.X)
    reliability = stored_reliability(metric, known, neighbors)
    with bars() as shown:
        table = prediction_table(
            learned,
            known,
            asked,
            n_neighbors=neighbors,
            level=level,
            reliability=reliability,
            progress=shown.update,
        )
    clash = next((name for name in copied.columns if name in table.columns), None)
    if clash is not None:
        raise UserError(f"{clash!r} is the name of a result; rename the column to keep.")
    table = copied.hstack(table) if copied.width else table
    # In files, the names of rows have the name that their column has.
    named = ids if ids is not None and asked.ids is not None else "row"
    written = table if named in table.columns else table.rename({"row": named})
    content = f"Predictions for {counted(len(table), 'row')}"
    if not deliver(written, save_as, content, json=json):
        _show(table, asked, known, neighbors)
    if not json:
        _say_unlike(table, level)


def _say_unlike(table: pl.DataFrame, level: float) -> None:
    number = int(table["unlike"].sum())
    if number:
        is_ = "is" if number == 1 else "are"
        say(
            f"{number} of {len(table)} rows {is_} unlike all training rows. Of rows that are like "
            f"them, about {100 * level:g} % or less are called unlike."
        )


def _copied_columns(new: str, keep: list[str] | None) -> pl.DataFrame:
    """Return the columns of the new rows to copy."""
    if not keep:
        return pl.DataFrame()
    if kind_of(Path(new)) not in TABLES:
        raise UserError(f"--keep copies columns of a table; {new} is none.")
    frame = read_frame(Path(new))
    names = named_columns(keep, frame.columns)
    require_columns(Path(new), frame.columns, names)
    return frame.select(names)


def _show(table: pl.DataFrame, asked: Table, known: Table, neighbors: int) -> None:
    """Print the first rows; neighbours with another label have it in parentheses."""
    first, numbers = table.head(_ROWS_SHOWN), known.kind == "numbers"
    lines = []
    for row in first.iter_rows(named=True):
        value, sure = row["prediction"], row.get("probability")
        line = [str(row["row"]), f"{value:.6g}" if numbers else str(value)]
        line[1] += ", unlike" if row["unlike"] else ""
        if not numbers and "votes" in row:
            line.append(f"{round(neighbors * row['votes'])} of {neighbors}")
        elif not numbers:
            line.append("-" if sure is None else probability_text(sure))
        names = []
        for place in range(1, neighbors + 1):
            name, label = row[f"neighbor_{place}"], row[f"label_{place}"]
            label = f"{label:.6g}" if numbers else label
            names.append(str(name) if label == value else f"{name} ({label})")
        lines.append([*line, ", ".join(names)])
    rows = counted(len(table), "row")
    title = f"{asked.name}: {rows}, predicted from {len(known)} rows of {known.name}"
    sure = "votes" if "votes" in table.columns else "probability"
    headings = ["row", "prediction", *([] if numbers else [sure]), "neighbours"]
    show_table(headings, lines, title=title)
    if len(table) > len(first):
        note(f"these are the first {len(first)} of {len(table)} rows; --out has all.")
