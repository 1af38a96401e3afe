"""Training rows with classes or numbers, and rows of another file, read as the first ones are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.metrics.metric import Metric
from nearfar.runtime.notes import note
from nearfar.runtime.option_names import option
from nearfar.tables.errors import NotClassesError
from nearfar.tables.formats import TABLES, column_names, kind_of
from nearfar.tables.reader import named_columns
from nearfar.tables.reading import read_rows
from nearfar.tables.table import Table

_MANY_CLASSES = 0.5
"""Whole numbers with more classes than this share of the rows are probably not classes."""


@dataclass(frozen=True)
class LabelledRows:
    """Rows with what is to be predicted.

    Attributes
    ----------
    rows : Table
    y : array of shape (n_rows,) or None
        Classes, or numbers as float64; None if there are no labels.
    numbers : bool
        Whether they are numbers.
    """

    rows: Table
    y: NDArray[Any] | None
    numbers: bool = False

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def name(self) -> str:
        """Name of the file or dataset."""
        return self.rows.name

    @property
    def labels(self) -> NDArray[Any]:
        """The classes or numbers, where there must be some."""
        assert self.y is not None
        return self.y


def read_labelled(
    source: str, *, numbers: bool = False, required: bool = True, **given: Any
) -> LabelledRows:
    """Read rows with their labels: classes, or numbers if asked for, or if they are decimal.

    Parameters
    ----------
    source : str
        Table, array or dataset.
    numbers : bool
        Whether labels are numbers, not classes.
    required : bool
        Whether there must be labels.
    **given
        `label`, `ids`, `drop`, `metric` and `skip_unlabelled` (by default true), as for
        `read_rows`.
    """
    given = {"skip_unlabelled": True} | given
    try:
        rows = read_rows(source, labelled=required, numeric=numbers, **given)
        numbers = numbers or _is_decimal(rows.y)
    except NotClassesError:
        rows, numbers = read_rows(source, numeric=True, **given), True
    if rows.y is None and not required:
        return LabelledRows(rows, None)
    if numbers:
        note("the labels are numbers; the mean of the neighbours predicts them.")
        return LabelledRows(rows, rows.numbers, numbers=True)
    y = rows.labels
    n_classes = len(np.unique(y))
    if np.issubdtype(y.dtype, np.number) and n_classes > _MANY_CLASSES * len(rows):
        note(
            f"the labels are {n_classes} classes of whole numbers; for numbers, use "
            f"{option('numbers')}."
        )
    return LabelledRows(rows, y)


def _is_decimal(y: NDArray[Any] | None) -> bool:
    """Whether labels are numbers that are not all whole."""
    return y is not None and np.issubdtype(y.dtype, np.floating) and bool((y % 1).any())


def warn_of_same_rows(train: str, new: str) -> None:
    """Say that new rows find themselves, if they are the training rows."""
    if Path(train).resolve() == Path(new).resolve():
        note(
            "the new rows are the training rows, so that each finds itself; evaluate without "
            "--train predicts each row from the others."
        )


def read_other(
    source: str,
    *,
    metric: Metric,
    label: str | None = None,
    ids: str | None = None,
    text: str | None = None,
    drop: Sequence[str] | None = None,
) -> Table:
    """Read rows of another file, with the labels, names and texts that they have.

    Columns that it lacks are not asked for. Labels may be missing, and are text.
    """
    if kind_of(Path(source)) not in TABLES:
        return read_rows(source, metric=metric)
    columns = column_names(Path(source))
    return read_rows(
        source,
        label=label if label in columns else None,
        ids=ids if ids in columns else None,
        text=text if text in columns else None,
        drop=[name for name in named_columns(drop, columns) if name in columns],
        metric=metric,
        complete=False,
    )
