"""`Table`: rows of features, and their supervision."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from nearfar.columns import Columns
from nearfar.frames.frames import Frame, TableError
from nearfar.metrics.metric import Metric
from nearfar.numerics.missing import labelled_rows
from nearfar.runtime.messages import Note, counted, note, option
from nearfar.supervision import Pairs, Triplets
from nearfar.supervision.supervision import Kind, checked_groups
from nearfar.typing import Array, Floats, Ints, Vector


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Rows of features, with their supervision; `read_table` makes it.

    Attributes
    ----------
    name : str
        Name of the file or dataset.
    X : array of shape (n_rows, n_features)
    supervision : array of shape (n_rows,), Triplets, Pairs or None
        Labels, numbers or constraints to learn from.
    feature_names : tuple of str or None
    ids : list of str or None
        Names of the rows.
    texts : list of str or None
        What to show for the rows.
    pictures : list of Path or None
        A picture of each row; None where there is none.
    columns : Columns or None
        What the columns of the table became; None if all of them are numbers.
    cells : polars.DataFrame or None
        The columns themselves, to learn again what becomes of them from some of the rows.
    groups : array of shape (n_rows,) or None
        Number of the group of each row. A group is never both learned from and tested on.
    places : array of shape (n_rows,) or None
        Number of each row in its file, if some were left out.
    leaking : tuple of str
        Columns that leak the label.
    n_copies : int
        Number of rows that are copies of others, if these are the groups.
    kind : {"labels", "numbers", "triplets", "pairs", "nothing"}
        What `supervision` is.
    notes : tuple of Note
        What was noticed while reading.
    source : str
        Path of the file, or name of the dataset; "" for frames and arrays.
    label, id_column : str or None
        Columns of the labels and of the names of the rows.
    frame : Frame or None
        The frame that it was read from, if it was one.
    """

    name: str
    X: Floats
    supervision: Array | Triplets | Pairs | None = None
    feature_names: tuple[str, ...] | None = None
    ids: list[str] | None = None
    texts: list[str] | None = None
    pictures: list[Path | None] | None = None
    columns: Columns | None = None
    groups: Ints | None = None
    places: Ints | None = None
    leaking: tuple[str, ...] = ()
    n_copies: int = 0
    kind: Kind = "nothing"
    notes: tuple[Note, ...] = ()
    source: str = ""
    label: str | None = None
    id_column: str | None = None
    frame: Frame | None = None
    cells: pl.DataFrame | None = None

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        supervision = ""
        if isinstance(self.supervision, Triplets | Pairs):
            supervision = f", {len(self.supervision)} {self.kind}"
        elif self.kind == "labels":
            supervision = f", {counted(len(np.unique(np.asarray(self.supervision))), 'class')}"
        elif self.kind == "numbers":
            supervision = ", a number for each row"
        size = f"{counted(len(self), 'row')} x {counted(self.X.shape[1], 'feature')}"
        return f"<Table {self.name}: {size}{supervision}>"

    @property
    def y(self) -> Array | None:
        """The label or number of each row, if there are some."""
        return None if isinstance(self.supervision, Triplets | Pairs) else self.supervision

    @property
    def labels(self) -> Array:
        """Labels of at least two classes, or a TableError."""
        if self.y is None:
            where = option("label", "NAME")
            raise TableError(f"{self.name} has no labels; say where they are with {where}.")
        if self.y.shape != (len(self),):
            raise TableError(f"{len(self)} rows need one label each; got {self.y.shape}.")
        if len(np.unique(self.y)) < 2:
            raise TableError("All labels are the same; at least two classes are needed.")
        return self.y

    @property
    def numbers(self) -> Vector:
        """Labels that are different numbers, or a TableError."""
        try:
            return self.labels.astype(np.float64)
        except TableError:
            raise
        except (TypeError, ValueError):
            raise TableError("The labels are not numbers, which the method needs.") from None

    def labelled(self) -> Table:
        """Return the rows whose class is not -1, which may mark unlabelled ones."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rows = labelled_rows(self.labels)
        for warning in caught:
            note(str(warning.message), warning=True)
        return self if rows is None else self.take(rows)

    def take(self, rows: Ints) -> Table:
        """Return some rows, with their labels or numbers."""
        whole = np.arange(len(self)) if self.places is None else self.places
        return replace(
            self,
            X=self.X[rows],
            supervision=None if self.y is None else self.y[rows],
            ids=self.ids and [self.ids[row] for row in rows],
            texts=self.texts and [self.texts[row] for row in rows],
            pictures=self.pictures and [self.pictures[row] for row in rows],
            groups=None if self.groups is None else checked_groups(self.groups[rows], len(rows)),
            places=whole[rows],
            cells=None if self.cells is None else self.cells[rows],
        )

    def grouped(self, names: Array, where: str) -> Table:
        """Return the rows with groups, and say how many there are."""
        names = np.asarray(names)
        if names.shape != (len(self),):
            raise TableError(f"{len(self)} rows need one group each; {where} has {names.shape}.")
        groups = checked_groups(names, len(self))
        assert groups is not None
        number = int(groups.max(initial=-1)) + 1
        if number < 2:
            raise TableError(f"All rows are in the same group ({where}); at least two are needed.")
        note(f"{number} groups of rows ({where}); no group is both learned from and tested on.")
        return replace(self, groups=groups)

    def described(self, metric: Metric) -> Metric:
        """Return a metric with the names of these features, and the columns they are from."""
        if self.columns is not None:
            return metric.with_columns(self.columns)
        return metric.named(self.feature_names)

    def row_name(self, row: int | np.integer) -> str:
        """Return the name of a row, or its number in the file."""
        return str(self.row_names(np.array([row]))[0])

    def row_names(self, rows: Ints) -> Ints | list[str]:
        """Return the names of rows, or their numbers in the file."""
        if self.ids is not None:
            return [self.ids[row] for row in rows]
        return rows if self.places is None else self.places[rows]
