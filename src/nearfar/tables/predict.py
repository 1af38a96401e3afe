"""`predict`: predictions for the rows of one table from the labelled rows of another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nearfar.evidence.verdict import probability_text
from nearfar.frames.formats import WRITTEN_TABLES, check_output, read_frame, write_frame
from nearfar.frames.metric_files import best_neighbors, load_metric, note_same_rows
from nearfar.frames.reader import named_columns, require_columns
from nearfar.frames.reading import as_source, read_new, read_table
from nearfar.frames.table import Table
from nearfar.measures.neighbor_votes import Margins, SoftVotes
from nearfar.metrics.training_facts import (
    class_digest,
    note_learned_rows,
    share_learned_from,
    stored_votes,
)
from nearfar.neighbors import NeighborPredictor
from nearfar.runtime.messages import counted, forwards, note, option, text_table

# Rows between two reports of progress, so that these come every second or so.
_ROWS_AT_ONCE = 1 << 14
# Votes are as reliable as when the metric was learned, if most of the voters are the same.
_SAME_ROWS = 0.5
# Of probabilities.
_DIGITS = 6
_ROWS_SHOWN = 10
# Neighbours that are named.
_MOST_VOTERS = 25
# Share of intervals that hold the number.
_COVERAGE = 0.9


@forwards(read_table, "label numbers drop ids")
def predict(
    metric: str | PathLike[str],
    train: object,
    new: object,
    *,
    keep: Sequence[str] = (),
    neighbors: int | None = None,
    voters: bool = False,
    level: float = 0.01,
    out: str | PathLike[str] | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    **reading: Any,
) -> Predicted:
    """Predict labels of new rows from their nearest training rows.

    A prediction has the probability of each class, or the 90% interval of a number, as measured on
    held-out rows. Rows that are unlike all training rows are marked.

    Parameters
    ----------
    metric: Metric file, as written by `nearfar learn`.
    train: Training rows with labels: a table, or an array.
    new: Rows to predict, in the same formats.
    keep: Columns of the new rows to copy, separated by commas.
    neighbors: Neighbours with a whole vote each; by default votes are as in the file.
    voters: Name the nearest neighbours, up to 25, with their labels and distances.
    level: Share of rows like the training rows that are called unlike.
    out: Table to write, with all rows.
    progress: Called with the number of rows so far, of all rows, and "rows".
    **reading: How rows are read: see `read_table`.
    """
    path, source = Path(metric), as_source(new)
    if out is not None:
        check_output(Path(out), WRITTEN_TABLES, [metric, train, new])
    if not 0 <= level <= 1:
        raise ValueError(f"{option('level')} must be from 0 to 1; got {level}.")
    learned = load_metric(path)
    note_same_rows(train, new)
    known = read_table(train, metric=learned, **reading)
    reading.pop("numbers", None)
    asked, labels, n_known = read_new(source, learned, **reading), known.labels, len(known)
    numbers = known.kind == "numbers"
    if neighbors is not None and neighbors >= n_known:
        too_many = option("neighbors", neighbors)
        raise ValueError(f"{too_many} must be less than the {n_known} training rows.")
    copied = pl.DataFrame()
    if keep and not isinstance(source, np.ndarray):
        frame = read_frame(source)
        names = named_columns(keep, frame.columns)
        require_columns(source, frame.columns, names)
        copied = frame.select(names)
    note_learned_rows(path, asked.X)
    votes, margins, measured = _voting(path, known, neighbors)
    predictor = NeighborPredictor(
        learned, known.X, labels, votes=votes, numbers=numbers, groups=known.groups
    )
    if level < (least := predictor.strangeness.smallest):
        rows = f"with {n_known} training rows, no row can be called unlike"
        note(f"{rows} at {option('level', level)}; use {least:.2g} or more.")
    row = "row" if asked.ids is None else reading["ids"]
    parts = []
    for start in range(0, len(asked), _ROWS_AT_ONCE):
        if progress is not None:
            progress(start, len(asked), "rows")
        places = np.arange(start, min(start + _ROWS_AT_ONCE, len(asked)))
        found = predictor.predict(asked.X[places])
        unlike = found.unlike(level)
        columns: dict[str, Any] = {row: asked.row_names(places), "prediction": found.values}
        if found.probabilities is not None and measured:
            # Training rows tell nothing about rows that are unlike them, and counts of them nothing
            # about more digits.
            each = zip(predictor.classes, found.probabilities.T, strict=True)
            stated = {"probability": found.probability}
            stated |= {f"probability_{name}": own for name, own in each}
            for name, own in stated.items():
                columns[name] = pl.Series(own).round(_DIGITS).set(pl.Series(unlike), None)
        if found.spread is not None and margins is not None:
            ends = margins.intervals(found.values, found.spread, _COVERAGE)
            columns["low"], columns["high"] = ends.T
        columns["unlike"] = unlike
        for place, near in enumerate(found.indices.T[:_MOST_VOTERS] if voters else [], start=1):
            columns[f"neighbor_{place}"] = known.row_names(near)
            columns[f"label_{place}"] = labels[near]
            columns[f"distance_{place}"] = found.distances[:, place - 1]
        parts.append(pl.DataFrame(columns))
    table = pl.concat(parts)
    if clash := {*copied.columns} & {*table.columns} - {row}:
        raise ValueError(f"{min(clash)!r} is the name of a result; rename the column to keep.")
    table = table if copied.is_empty() else copied.drop(row, strict=False).hstack(table)
    if out is not None:
        write_frame(table, Path(out))
    title = f"{asked.name}: {counted(len(asked), 'row')}, predicted from {n_known} rows of"
    return Predicted(table, f"{title} {known.name}", row, level, str(out or ""))


def _voting(
    path: Path, train: Table, neighbors: int | None
) -> tuple[SoftVotes, Margins | None, bool]:
    """Return how training rows vote, how wide intervals are, and whether held-out rows told.

    They have whole votes with a number of neighbours, or, with a note, if the file does not say how
    neighbours vote, or if it was learned from other rows or classes.
    """
    votes, numbers, k = stored_votes(path), train.kind == "numbers", neighbors
    if neighbors is not None:
        why = f"{option('neighbors', neighbors)} gives each a whole vote"
    elif votes is None:
        why = f"{path} does not say how neighbours vote"
    elif votes.classes != ("" if numbers else class_digest(np.unique(train.labels))):
        why = f"{path} was learned from other classes"
    elif share_learned_from(path, train.X) < _SAME_ROWS:
        why = f"{path} was learned from other rows"
    else:
        k = min(votes.n_neighbors, len(train))
        scores, soft = np.array(votes.scores), (votes.decay, votes.prior_rows, bool(votes.linear))
        margins = Margins(votes.base, scores, votes.n_rows) if len(scores) else None
        return SoftVotes(k, *soft), margins, True
    note(f"{why}: there are no {'intervals' if numbers else 'probabilities'}.")
    return SoftVotes(k or best_neighbors(path, len(train))), None, False


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions for the rows of a table; prints as the first of them.

    Attributes
    ----------
    table: Columns that are copied, the name of the row, prediction, probability (of classes, if the
        file of the metric tells; missing where a row is unlike) and that of each class, low and
        high (of numbers: the 90% interval), unlike; for each of the nearest neighbours its name,
        label and distance, if they are asked for.
    row: The column that names rows.
    out: The file that has them, if any.
    """

    table: pl.DataFrame
    title: str
    row: str
    level: float
    out: str = ""

    def to_dict(self) -> list[dict[str, Any]]:
        """Return all predictions, for JSON."""
        return self.table.to_dicts()

    def __str__(self) -> str:
        n_rows, n_unlike = len(self.table), int(self.table["unlike"].sum())
        if self.out:
            lines = [f"Predictions for {counted(n_rows, 'row')} written to {self.out}"]
        else:
            names = [n for n in self.table.columns if n.startswith("neighbor_")]
            sure = [n for n in ("probability", "low", "high") if n in self.table.columns]
            shown = [self.row, "prediction", *sure, *names]
            first = [
                [_cell(name, row[name], unlike=row["unlike"]) for name in shown]
                for row in self.table.head(_ROWS_SHOWN).iter_rows(named=True)
            ]
            lines = [self.title, text_table([name.replace("_", " ") for name in shown], first)]
        if n_unlike:
            is_ = "is" if n_unlike == 1 else "are"
            lines.append(
                f"{n_unlike} of {n_rows} rows {is_} unlike all training rows. Of rows that are "
                f"like them, about {100 * self.level:g}% or less are called unlike."
            )
        if not self.out and n_rows > _ROWS_SHOWN:
            note(f"these are the first {_ROWS_SHOWN} of {n_rows} rows; {option('out')} has all.")
        return "\n".join(lines)


def _cell(column: str, value: Any, *, unlike: bool) -> str:
    if column == "probability":
        return "-" if value is None else probability_text(value)
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f"{text}, unlike" if column == "prediction" and unlike else text
