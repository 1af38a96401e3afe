"""`predict`: predictions for the rows of one table from the labelled rows of another."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nearfar.evidence.verdict import probability_text
from nearfar.frames.formats import (
    TABLES,
    WRITTEN_TABLES,
    check_output,
    kind_of,
    read_frame,
    write_frame,
)
from nearfar.frames.metric_files import load_metric, note_same_rows
from nearfar.frames.reader import named_columns, require_columns
from nearfar.frames.reading import as_rows, read_labelled, read_other, read_table
from nearfar.frames.table import NotUniqueError, Table, TableError
from nearfar.measures.neighbor_votes import DEFAULT_NEIGHBORS, Reliability
from nearfar.metrics.metric import Metric
from nearfar.metrics.training_facts import (
    class_digest,
    note_learned_rows,
    share_learned_from,
    stored_votes,
)
from nearfar.neighbors import NeighborPredictor
from nearfar.runtime.messages import counted, forwards, note, option, text_table
from nearfar.typing import Array

# Rows between two reports of progress, so that these come every second or so.
_ROWS_AT_ONCE = 1 << 14
# Votes are as reliable as when the metric was learned, if most of the voters are the same.
_SAME_ROWS = 0.5
# Of probabilities.
_DIGITS = 6
_ROWS_SHOWN = 10


@forwards(read_table, "label numbers drop ids")
def predict(
    metric: str | PathLike[str],
    train: object,
    new: object,
    *,
    keep: Sequence[str] = (),
    neighbors: int | None = None,
    level: float = 0.01,
    out: str | PathLike[str] | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    **reading: Any,
) -> Predicted:
    """Predict labels of new rows from their nearest training rows.

    The neighbours that decided are named, with the probability that they are right, as measured on
    held-out rows. Rows that are unlike all training rows are marked.

    Parameters
    ----------
    metric: Metric file, as written by `nearfar learn`.
    train: Training rows with labels: a table, an array, or a dataset.
    new: Rows to predict, in the same formats.
    keep: Columns of the new rows to copy, separated by commas.
    neighbors: Neighbours that vote; by default as many as the file says.
    level: Share of rows like the training rows that are called unlike.
    out: Table to write, with all rows.
    progress: Called with the number of rows so far, of all rows, and "rows".
    **reading: How rows are read: see `read_table`.
    """
    path, numbers, ids = Path(metric), reading.pop("numbers", None), reading.get("ids")
    training, asked_for = as_rows(train), as_rows(new)
    if out is not None:
        files = [path, *(each for each in (training, asked_for) if isinstance(each, str | Path))]
        check_output(Path(out), WRITTEN_TABLES, files)
    if not 0 <= level <= 1:
        raise ValueError(f"{option('level')} must be from 0 to 1; got {level}.")
    learned = load_metric(path)
    note_same_rows(train, new)
    try:
        known = read_labelled(training, numbers=numbers, metric=learned, **reading)
        asked = read_other(asked_for, metric=learned, **reading)
    except NotUniqueError as error:
        remedy = (
            f"To copy this column of the new rows, use {option('keep')} {shlex.quote(str(ids))}."
        )
        raise TableError(f"{error} {remedy}") from error
    neighbors = best_neighbors(path, known) if neighbors is None else neighbors
    if neighbors >= len(known):
        asked_neighbors = option("neighbors", neighbors)
        raise ValueError(f"{asked_neighbors} must be less than the {len(known)} training rows.")
    copied = pl.DataFrame()
    if keep:
        source = Path(asked_for) if isinstance(asked_for, str) else asked_for
        if kind_of(source) not in TABLES:
            raise ValueError(f"{option('keep')} copies columns of a table; {new} is none.")
        frame = read_frame(source)
        names = named_columns(keep, frame.columns)
        require_columns(source, frame.columns, names)
        copied = frame.select(names)
    note_learned_rows(path, asked.X)
    table = prediction_table(
        learned,
        known,
        asked,
        n_neighbors=neighbors,
        level=level,
        reliability=stored_reliability(path, known, neighbors),
        progress=progress,
    )
    clash = next((name for name in copied.columns if name in table.columns), None)
    if clash is not None:
        raise ValueError(f"{clash!r} is the name of a result; rename the column to keep.")
    table = copied.hstack(table) if copied.width else table
    named = ids if ids is not None and asked.ids is not None else "row"
    found = Predicted(table, asked, known, neighbors, level, named, str(out or ""))
    if out is not None:
        write_frame(found.written_table, Path(out))
    return found


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions for the rows of a table; prints as the first of them.

    Attributes
    ----------
    table: What `prediction_table` returns, after the columns that are copied.
    asked, known: New rows and training rows.
    named: What files call the names of rows.
    out: The file that has them, if any.
    """

    table: pl.DataFrame
    asked: Table
    known: Table
    neighbors: int
    level: float
    named: str = "row"
    out: str = ""

    @property
    def written_table(self) -> pl.DataFrame:
        """The table with the name that the column of row names has in the file."""
        taken = self.named in self.table.columns
        return self.table if taken else self.table.rename({"row": self.named})

    def to_dict(self) -> list[dict[str, Any]]:
        """Return all predictions, for JSON."""
        return self.written_table.to_dicts()

    def __str__(self) -> str:
        rows, unlike = counted(len(self.table), "row"), int(self.table["unlike"].sum())
        if self.out:
            lines = [f"Predictions for {rows} written to {self.out}"]
        else:
            title = f"{self.asked.name}: {rows}, predicted from {len(self.known)} rows of"
            lines = [f"{title} {self.known.name}", self._first()]
        if unlike:
            is_ = "is" if unlike == 1 else "are"
            lines.append(
                f"{unlike} of {len(self.table)} rows {is_} unlike all training rows. Of rows that "
                f"are like them, about {100 * self.level:g} % or less are called unlike."
            )
        if not self.out and len(self.table) > _ROWS_SHOWN:
            first = f"the first {_ROWS_SHOWN} of {len(self.table)} rows"
            note(f"these are {first}; {option('out')} has all.")
        return "\n".join(lines)

    def _first(self) -> str:
        """Return the first rows; neighbours with another label have it in parentheses."""
        numbers, lines = self.known.kind == "numbers", []
        for row in self.table.head(_ROWS_SHOWN).iter_rows(named=True):
            value, sure = row["prediction"], row.get("probability")
            line = [str(row["row"]), f"{value:.6g}" if numbers else str(value)]
            line[1] += ", unlike" if row["unlike"] else ""
            if not numbers and "votes" in row:
                line.append(f"{round(self.neighbors * row['votes'])} of {self.neighbors}")
            elif not numbers:
                line.append("-" if sure is None else probability_text(sure))
            names = []
            for place in range(1, self.neighbors + 1):
                name, label = row[f"neighbor_{place}"], row[f"label_{place}"]
                label = f"{label:.6g}" if numbers else label
                names.append(str(name) if label == value else f"{name} ({label})")
            lines.append([*line, ", ".join(names)])
        sure = "votes" if "votes" in self.table.columns else "probability"
        headings = ["row", "prediction", *([] if numbers else [sure]), "neighbours"]
        return text_table(headings, lines)


def best_neighbors(path: Path, train: Table) -> int:
    """Return how many neighbours vote best, by its file, or a few if that does not say."""
    votes = stored_votes(path)
    return min(DEFAULT_NEIGHBORS if votes is None else votes.best, max(1, len(train) - 1))


def stored_reliability(path: Path, train: Table, n_neighbors: int) -> Reliability | None:
    """Return how often votes of these training rows are right, by the file of a metric.

    None, with a note, if the file does not say, or if it was learned from other rows or classes.
    """
    votes, why = stored_votes(path), ""
    if train.kind == "numbers":
        return None
    classes = np.unique(train.labels)
    if votes is None:
        why = f"{path} does not say how often votes are right"
    elif class_digest(classes) != votes.classes:
        why = f"{path} was learned from other classes"
    elif share_learned_from(path, train.X) < _SAME_ROWS:
        why = f"{path} was learned from other rows"
    elif n_neighbors > len(votes.counted):
        why = f"{path} has probabilities for at most {len(votes.counted)} neighbours"
    else:
        k = n_neighbors - 1
        return Reliability(np.array(votes.counted[k]), np.array(votes.right[k]), len(classes))
    note(f"{why}: votes, not calibrated, instead of probabilities.")
    return None


def prediction_table(
    metric: Metric,
    train: Table,
    new: Table,
    *,
    n_neighbors: int = 3,
    level: float = 0.01,
    reliability: Reliability | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> pl.DataFrame:
    """Predict the labels of new rows from their nearest training rows.

    Parameters
    ----------
    level: Of rows that are like the training rows, about this share or less is called
        unlike.
    reliability: What probabilities come from; without it, there are shares of votes.
    progress: Called with the number of rows so far, of all rows, and "rows".

    Returns
    -------
    polars.DataFrame
        Columns row, prediction, actual (if the new rows have labels), probability (of classes;
        missing where a row is unlike) or votes, p_value, unlike, and for each neighbour its name,
        label and distance.
    """
    if n_neighbors >= len(train):
        raise ValueError(f"{n_neighbors} neighbours need more than {len(train)} training rows.")
    numbers, labels = train.kind == "numbers", train.labels
    predictor = NeighborPredictor(
        metric,
        train.X,
        labels,
        n_neighbors=n_neighbors,
        numbers=numbers,
        reliability=reliability,
    )
    parts = []
    for start in range(0, len(new), _ROWS_AT_ONCE):
        if progress is not None:
            progress(start, len(new), "rows")
        rows = np.arange(start, min(start + _ROWS_AT_ONCE, len(new)))
        predicted = predictor.predict(new.X[rows])
        unlike = predicted.unlike(level)
        columns: dict[str, Array | list[str] | pl.Series] = {
            "row": new.row_names(rows),
            "prediction": predicted.values,
        }
        if new.y is not None and (new.y.astype(str) != "").any():
            columns["actual"] = new.y[rows]
        if predicted.probability is not None:
            # Training rows tell nothing about rows that are unlike them, and counts of them nothing
            # about more digits.
            stated = pl.Series(predicted.probability).round(_DIGITS)
            columns["probability"] = stated.set(pl.Series(unlike), None)
        elif predicted.votes is not None:
            columns["votes"] = predicted.votes
        columns |= {"p_value": predicted.p_value, "unlike": unlike}
        for place, near in enumerate(predicted.indices.T):
            columns[f"neighbor_{place + 1}"] = train.row_names(near)
            columns[f"label_{place + 1}"] = labels[near]
            columns[f"distance_{place + 1}"] = predicted.distances[:, place]
        parts.append(pl.DataFrame(columns))
    least = predictor.strangeness.smallest
    if level < least:
        note(
            f"with {len(train)} training rows, no row can be called unlike at --level {level:g}; "
            f"use {least:.2g} or more."
        )
    return pl.concat(parts)
