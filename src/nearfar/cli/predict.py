"""``nearfar predict``: labels of new rows from their nearest training rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from nearfar.cli import options
from nearfar.cli.errors import UserError
from nearfar.cli.metric_files import check_output, load_metric
from nearfar.cli.row_input import InputRows
from nearfar.cli.streams import shown_target, spooled
from nearfar.cli.table_formats import TABLES, WRITTEN_TABLES, kind_of, read_frame, write_frame
from nearfar.cli.tables import named_columns, require_columns
from nearfar.cli.terminal import bars, command, note, say, show_json, show_table
from nearfar.cli.training_input import (
    LabelledRows,
    read_labelled,
    read_other,
    warn_of_same_rows,
)
from nearfar.comparison.wording import probability_text
from nearfar.neighbors import NeighborPredictor, Prediction

_ROWS_SHOWN = 10
_ROWS_AT_ONCE = 1 << 14


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
    numbers: options.Numbers = False,
    drop: options.Drop = None,
    ids: options.Id = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN,...", help="Columns of the new rows to copy; repeatable."),
    ] = None,
    neighbors: options.Neighbors = 3,
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

    The neighbours that decided are named, with the probability that they are right. Rows that are
    unlike all training rows are marked.
    """
    if save_as is not None:
        check_output(save_as, WRITTEN_TABLES, [metric, train, new])
    found = load_metric(metric)
    warn_of_same_rows(train, new)
    known = read_labelled(train, numbers=numbers, label=label, ids=ids, drop=drop, metric=found)
    asked = read_other(new, metric=found, label=label, ids=ids, drop=drop)
    if neighbors >= len(known):
        raise UserError(
            f"--neighbors {neighbors} must be less than the {len(known)} training rows."
        )
    kept = _kept(new, keep)
    predictor = NeighborPredictor(
        found, known.rows.X, known.labels, n_neighbors=neighbors, numbers=known.numbers
    )
    parts = []
    with bars() as shown:
        for start in range(0, len(asked), _ROWS_AT_ONCE):
            shown.update(start, len(asked), "rows")
            rows = np.arange(start, min(start + _ROWS_AT_ONCE, len(asked)))
            parts.append(_table(predictor.predict(asked.X[rows]), rows, asked, known, level))
    table = _joined(kept, pl.concat(parts))
    if save_as is not None:
        write_frame(table, save_as)
    if json:
        show_json(table.to_dicts())
    elif save_as is not None:
        say(f"Predictions for {len(table)} rows written to {shown_target(save_as)}")
    else:
        _show(table, asked, known, neighbors)
    _say_unlike(table, len(known), level, quiet=json)


def _kept(new: str, keep: list[str] | None) -> pl.DataFrame:
    """Return the columns of the new rows to copy."""
    if not keep:
        return pl.DataFrame()
    if kind_of(Path(new)) not in TABLES:
        raise UserError(f"--keep copies columns of a table; {new} is none.")
    frame = read_frame(Path(new))
    names = named_columns(keep, frame.columns)
    require_columns(Path(new), frame.columns, names)
    return frame.select(names)


def _table(
    found: Prediction, rows: Any, asked: InputRows, known: LabelledRows, level: float
) -> pl.DataFrame:
    """Return what was found as a table, with three columns for each neighbour."""
    train = known.rows
    columns: dict[str, Any] = {
        "row": asked.row_names(rows),
        "prediction": found.values,
    }
    if asked.y is not None and (asked.y.astype(str) != "").any():
        columns["actual"] = asked.y[rows]
    unlike = found.unlike(level)
    if found.probability is not None:
        # Training rows tell nothing about rows that are unlike them.
        known_rates = pl.Series(found.probability)
        columns["probability"] = known_rates.set(pl.Series(unlike), None)
    columns |= {"p_value": found.p_value, "unlike": unlike}
    for place in range(found.indices.shape[1]):
        near = found.indices[:, place]
        columns[f"neighbor_{place + 1}"] = train.row_names(near)
        columns[f"label_{place + 1}"] = known.labels[near]
        columns[f"distance_{place + 1}"] = found.distances[:, place]
    return pl.DataFrame(columns)


def _joined(kept: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
    clash = next((name for name in kept.columns if name in table.columns), None)
    if clash is not None:
        raise UserError(f"{clash!r} is the name of a result; rename the column to keep.")
    return kept.hstack(table) if kept.width else table


def _show(table: pl.DataFrame, asked: InputRows, known: LabelledRows, neighbors: int) -> None:
    """Print the first rows; neighbours with another label have it in parentheses."""
    first = table.head(_ROWS_SHOWN)
    names = ["row", "prediction", *([] if known.numbers else ["probability"]), "neighbours"]
    lines = [_line(row, known, neighbors) for row in first.iter_rows(named=True)]
    title = f"{asked.name}: {len(table)} rows, predicted from {len(known)} rows of {known.name}"
    show_table(names, lines, title=title)
    if len(table) > len(first):
        note(f"these are the first {len(first)} of {len(table)} rows; --out has all.")


def _line(row: dict[str, Any], known: LabelledRows, neighbors: int) -> list[str]:
    value, sure = row["prediction"], row.get("probability")
    places = range(1, neighbors + 1)
    who = [(str(row[f"neighbor_{place}"]), row[f"label_{place}"]) for place in places]
    return [
        str(row["row"]),
        (f"{value:.6g}" if known.numbers else str(value)) + (", unlike" if row["unlike"] else ""),
        *([] if known.numbers else ["-" if sure is None else probability_text(sure)]),
        ", ".join(name if label == value else f"{name} ({label})" for name, label in who),
    ]


def _say_unlike(table: pl.DataFrame, n_train: int, level: float, *, quiet: bool) -> None:
    """Say how many rows are unlike the training rows, or that none can be called so."""
    if level < 1 / (n_train + 1):
        note(
            f"with {n_train} training rows, no row can be called unlike at --level {level:g}; "
            f"use {1 / (n_train + 1):.2g} or more."
        )
        return
    number = int(table["unlike"].sum())
    if number and not quiet:
        is_ = "is" if number == 1 else "are"
        say(
            f"{number} of {len(table)} rows {is_} unlike all training rows. Of rows that are like "
            f"them, at most {100 * level:g} % are called unlike."
        )
