"""Predictions for the rows of one table from the labelled rows of another, as a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from nearfar.evaluate.neighbor_votes import DEFAULT_NEIGHBORS, Reliability
from nearfar.metrics.learned_from import class_digest, share_learned_from, stored_votes
from nearfar.metrics.metric import Metric
from nearfar.neighbors import NeighborPredictor
from nearfar.runtime.notes import note
from nearfar.tables.table import Table
from nearfar.typing import Array

# Rows between two reports of progress, so that these come every second or so.
_ROWS_AT_ONCE = 1 << 14
# Votes are as reliable as when the metric was learned, if most of the voters are the same.
_SAME_ROWS = 0.5
# Of probabilities.
_DIGITS = 6


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
    metric : Metric
    train : Table
    new : Table
    n_neighbors : int
    level : float
        Of rows that are like the training rows, about this share or less is called unlike.
    reliability : Reliability, optional
        What probabilities come from; without it, there are shares of votes.
    progress : callable, optional
        Called with the number of rows so far, of all rows, and "rows".

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
