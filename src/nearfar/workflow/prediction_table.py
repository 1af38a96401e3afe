"""Predictions for the rows of one table from the labelled rows of another, as a table."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from nearfar.metrics.metric import Metric
from nearfar.neighbors import NeighborPredictor
from nearfar.runtime.notes import note
from nearfar.tables.table import Table
from nearfar.typing import Array

# Rows between two reports of progress, so that these come every second or so.
_ROWS_AT_ONCE = 1 << 14


def prediction_table(
    metric: Metric,
    train: Table,
    new: Table,
    *,
    n_neighbors: int = 3,
    level: float = 0.01,
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
        Of rows that are like the training rows, at most this share is called unlike.
    progress : callable, optional
        Called with the number of rows so far, of all rows, and "rows".

    Returns
    -------
    polars.DataFrame
        Columns row, prediction, actual (if the new rows have labels), probability (of classes;
        missing where a row is unlike), p_value, unlike, and for each neighbour its name, label and
        distance.
    """
    if n_neighbors >= len(train):
        raise ValueError(f"{n_neighbors} neighbours need more than {len(train)} training rows.")
    numbers, labels = train.kind == "numbers", train.labels
    predictor = NeighborPredictor(metric, train.X, labels, n_neighbors=n_neighbors, numbers=numbers)
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
            # Training rows tell nothing about rows that are unlike them.
            columns["probability"] = pl.Series(predicted.probability).set(pl.Series(unlike), None)
        columns |= {"p_value": predicted.p_value, "unlike": unlike}
        for place, near in enumerate(predicted.indices.T):
            columns[f"neighbor_{place + 1}"] = train.row_names(near)
            columns[f"label_{place + 1}"] = labels[near]
            columns[f"distance_{place + 1}"] = predicted.distances[:, place]
        parts.append(pl.DataFrame(columns))
    least = 1 / (len(train) + 1)
    if level < least:
        note(
            f"with {len(train)} training rows, no row can be called unlike at --level {level:g}; "
            f"use {least:.2g} or more."
        )
    return pl.concat(parts)
