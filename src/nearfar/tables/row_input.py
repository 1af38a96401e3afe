"""Rows and their labels from the command line: from a table, an array, or a dataset by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nearfar import datasets
from nearfar.columns import Columns
from nearfar.constraints.supervision import checked_groups
from nearfar.metrics.metric import Metric
from nearfar.numerics.missing import LARGEST_VALUE
from nearfar.runtime.notes import note
from nearfar.runtime.suggestions import did_you_mean
from nearfar.tables.array_formats import array_names, load_array
from nearfar.tables.errors import TableError
from nearfar.tables.formats import (
    ARRAYS,
    FORMATS,
    TABLES,
    column_names,
    kind_of,
    open_table,
    stem_of,
)
from nearfar.tables.labels import labels_or_nothing, read_labels, words
from nearfar.tables.preparation import ColumnRules, Prepared, prepare, warn_of_leakage
from nearfar.tables.reader import ColumnChoice, columns_named, listed
from nearfar.typing import Floats, Ints, Vector


@dataclass(frozen=True)
class InputRows:
    """Rows of features, with labels, names and texts where they have them.

    Attributes
    ----------
    name : str
        Name of the file or dataset.
    X : array of shape (n_samples, n_features)
    y : array of shape (n_samples,) or None
        Labels.
    feature_names : tuple of str or None
    ids : list of str or None
        Names of the rows.
    texts : list of str or None
        What to show for the rows.
    columns : Columns or None
        What the columns of the table became; None if all of them are numbers.
    groups : array of shape (n_samples,) or None
        Number of the group of each row.
    places : array of shape (n_samples,) or None
        Number of each row in its file, if some were left out.
    leaking : tuple of str
        Columns that leak the label.
    n_copies : int
        Number of rows that are copies of others, if these are the groups.
    """

    name: str
    X: Floats
    y: NDArray[Any] | None = None
    feature_names: tuple[str, ...] | None = None
    ids: list[str] | None = None
    texts: list[str] | None = None
    columns: Columns | None = None
    groups: Ints | None = None
    places: Ints | None = None
    leaking: tuple[str, ...] = ()
    n_copies: int = 0

    def __len__(self) -> int:
        return len(self.X)

    @property
    def labels(self) -> NDArray[Any]:
        """Labels of at least two classes, or a TableError."""
        if self.y is None:
            raise TableError(f"{self.name} has no labels; say where they are with --label NAME.")
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
        except (TypeError, ValueError):
            raise TableError("The labels are not numbers, which the method needs.") from None

    def grouped(self, names: Any, where: str) -> InputRows:
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

    def row_name(self, row: int | np.integer[Any]) -> str:
        """Return the name of a row, or its number in the file."""
        return str(self.row_names(np.array([row]))[0])

    def row_names(self, rows: Ints) -> Ints | list[str]:
        """Return the names of rows, or their numbers in the file."""
        if self.ids is not None:
            return [self.ids[row] for row in rows]
        return rows if self.places is None else self.places[rows]


def read_rows(
    source: str,
    *,
    label: str | None = None,
    drop: Sequence[str] | None = None,
    ids: str | None = None,
    group: str | None = None,
    text: str | None = None,
    metric: Metric | None = None,
    rules: ColumnRules | None = None,
    labelled: bool = False,
    numeric: bool = False,
    complete: bool = True,
    skip_unlabelled: bool = False,
) -> InputRows:
    """Read rows.

    Parameters
    ----------
    source : str
        Path of a table or an array, or a dataset's name.
    label, ids, group, text : str, optional
        Columns with labels, names, groups and texts of the rows. In an .npz file `label` is an
        array ("y" by default), for an .npy file it is the path of another; `group` likewise.
    drop : sequence of str, optional
        Columns to leave out.
    rules : ColumnRules, optional
        What else is said about columns; instead of `drop`.
    metric : Metric, optional
        The metric whose features are wanted, by name if it has feature names.
    labelled : bool
        Whether a table must have labels.
    numeric : bool
        Whether labels are numbers, not classes.
    complete : bool
        Whether every row must have its label; otherwise labels that are missing are empty text.
    skip_unlabelled : bool
        Whether rows of a table without a label are left out, with a note.
    """
    path = Path(source)
    kind = kind_of(path)
    rules = rules or ColumnRules(drop)
    if kind in TABLES:
        if labelled and label is None:
            columns = listed(column_names(path))
            raise TableError(f"Name the column of labels with --label; {path} has {columns}.")
        roles = (label, ids, group, text)
        others = tuple(dict.fromkeys(name for name in roles if name is not None))
        skipped = label if skip_unlabelled else None
        found = prepare(path, others, rules, metric, label=skipped, shown=text)
        rows = _from_table(path, roles, found, metric, numeric, complete)
    elif rules.given or ids or text:
        raise TableError(f"Only tables ({', '.join(TABLES)}) have columns; {source} does not.")
    elif kind in ARRAYS:
        rows = _from_array(path, label, metric)
        if group is not None and len(rows):
            rows = rows.grouped(_array_beside(path, group, "groups"), group)
    elif path.is_file():
        raise TableError(f"{source} is not in a supported format: {', '.join(FORMATS)}.")
    else:
        rows = _from_dataset(source, metric)
        for option, given in {"--label": label, "--group": group}.items():
            if given is not None:
                raise TableError(f"{option} is for files, not for the dataset {source}.")
    if len(rows) == 0:
        raise TableError(f"{source} has no rows.")
    return rows


def _from_table(
    path: Path,
    roles: tuple[str | None, str | None, str | None, str | None],
    found: Prepared,
    metric: Metric | None,
    numeric: bool,
    complete: bool,
) -> InputRows:
    label, ids, group, text = roles
    if not found.feature_names:
        raise TableError(f"{path} has no columns left for features.")
    _check_size(found.X, found.feature_names, path)
    frame = found.others
    y = None
    if label is not None:
        column = frame[label]
        y = (
            read_labels(column, path, numeric=numeric)
            if complete
            else labels_or_nothing(column, path)
        )
    leaking: tuple[str, ...] = ()
    if y is not None and metric is None and not numeric:
        leaking = warn_of_leakage(found, y)
    rows = InputRows(
        stem_of(path),
        found.X,
        y,
        found.feature_names,
        None if ids is None else row_names(frame[ids], path),
        None if text is None else words(frame[text]).to_list(),
        found.columns,
        places=found.places,
        leaking=leaking,
    )
    if group is None or len(rows) == 0:
        return rows
    if n_missing := frame[group].null_count():
        raise TableError(f"{n_missing} rows of {path} have no group in column {group}. Fill it in.")
    return rows.grouped(frame[group].to_numpy(), f"column {group}")


def _check_size(X: Floats, features: Sequence[str], path: Path) -> None:
    # Without an array of absolute values, which would take as much memory as X.
    largest = np.maximum(X.max(axis=0, initial=0), -X.min(axis=0, initial=0))
    large = [
        name for name, size in zip(features, largest, strict=True) if float(size) > LARGEST_VALUE
    ]
    if large:
        names = columns_named(large)
        raise TableError(f"{path} has values beyond {LARGEST_VALUE:g} in {names}; rescale them.")


def row_names(names: pl.Series, path: Path) -> list[str]:
    """Return the names of rows, or raise TableError unless they tell rows apart."""
    if names.null_count() or names.n_unique() != len(names):
        raise TableError(f"The ids in column {names.name} of {path} are missing or not unique.")
    return [str(name) for name in names.to_list()]


def _from_array(path: Path, label: str | None, metric: Metric | None) -> InputRows:
    with open_table(path, ColumnChoice(metric=metric)) as table:
        X, features = table.read().X, table.features
    _check_size(X, features, path)
    if label is None and kind_of(path) == ".npz" and "y" in array_names(path):
        label = "y"
    return InputRows(path.stem, X, None if label is None else _array_beside(path, label, "labels"))


def _array_beside(path: Path, name: str, what: str) -> NDArray[Any]:
    """Return another array of an .npz file, or the .npy file that has it."""
    if kind_of(path) == ".npz":
        names = array_names(path)
        if name not in names:
            hint = did_you_mean(name, names)
            raise TableError(f"{path} has no array {name!r}; it has {listed(names)}.{hint}")
        return load_array(path, name)
    if Path(name).suffix.lower() != ".npy":
        raise TableError(f"The {what} of an .npy file are in another .npy file; got {name!r}.")
    return load_array(Path(name))


def _from_dataset(name: str, metric: Metric | None) -> InputRows:
    try:
        data = datasets.load(name)
    except (ValueError, ConnectionError) as error:
        hint = did_you_mean(name, [*datasets.available(), *map(str, Path().glob("*.*"))])
        why = "" if "There is no dataset" in str(error) else f" ({str(error).rstrip('.')})"
        raise TableError(
            f"{name} is neither a file nor a dataset{why}.{hint} "
            f"Datasets: {', '.join(datasets.available())}."
        ) from error
    if metric is not None and data.X.shape[1] != metric.n_features:
        raise TableError(
            f"The metric needs {metric.n_features} features, but {name} has {data.X.shape[1]}."
        )
    return InputRows(name, data.X, data.y, data.feature_names)
