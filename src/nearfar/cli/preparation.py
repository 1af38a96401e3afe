"""Features from the columns of a table: numbers unchanged, everything else by a recipe.

A table of finite numbers needs no recipe. All other tables are read with the
types that their columns have, and `Columns` says what becomes of them. What was chosen is shown in
one line, and columns that leak the label are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nearfar.cli.errors import NotNumbersError, UserError
from nearfar.cli.table_formats import column_names, open_table
from nearfar.cli.tables import (
    ColumnChoice,
    columns_named,
    named_columns,
    option,
    polars_frame,
    require_columns,
)
from nearfar.cli.terminal import note
from nearfar.columns import Columns
from nearfar.columns.guess import IDS, numbers_like_ids
from nearfar.columns.leakage import leaking_columns
from nearfar.metrics.metric import Metric
from nearfar.typing import Floats


class Imputation(StrEnum):
    """What to do about missing values."""

    auto = "auto"
    none = "none"


_REMEDY = {
    Imputation.auto: "Correct it, or leave columns out with --drop.",
    Imputation.none: "Correct it, or leave out --impute none to fill in missing values.",
}


@dataclass(frozen=True)
class ColumnRules:
    """What the user says about columns.

    Attributes
    ----------
    drop, numeric, categorical : sequence of str, or None
        Columns to leave out, and columns that are numbers or categories; several names may be in
        one text, separated by commas.
    impute : Imputation
    """

    drop: Sequence[str] | None = None
    numeric: Sequence[str] | None = None
    categorical: Sequence[str] | None = None
    impute: Imputation = Imputation.auto

    @property
    def given(self) -> bool:
        """Whether any column is named."""
        return bool(self.drop or self.numeric or self.categorical)


@dataclass(frozen=True)
class Prepared:
    """Features of a table.

    Attributes
    ----------
    X : array of shape (n_rows, n_features)
    others : polars.DataFrame
        The other columns that were asked for.
    feature_names : tuple of str
    columns : Columns or None
        The recipe; None if the features are columns of numbers.
    """

    X: Floats
    others: pl.DataFrame
    feature_names: tuple[str, ...]
    columns: Columns | None = None


def prepare(
    path: Path, others: tuple[str, ...], rules: ColumnRules, metric: Metric | None = None
) -> Prepared:
    """Read the features of a table.

    Parameters
    ----------
    path : Path
    others : tuple of str
        Columns that are not features.
    rules : ColumnRules
    metric : Metric, optional
        The metric whose features are wanted. Without one, the recipe is learned from the table.
    """
    names = column_names(path)
    drop = named_columns(rules.drop, names)
    if metric is not None:
        return _read(path, ColumnChoice(others, drop, metric), metric.columns)
    numeric = named_columns(rules.numeric, names)
    categorical = named_columns(rules.categorical, names)
    require_columns(path, names, [*numeric, *categorical])
    clash = next((n for n in (*numeric, *categorical) if n in {*others, *drop}), None)
    if clash is not None:
        raise UserError(f"Column {clash!r} is not a feature; name it in one option only.")
    if not categorical:
        try:
            return _without_ids(_read(path, ColumnChoice(others, drop)), numeric)
        except NotNumbersError:
            pass
    return _fitted(path, names, others, drop, numeric, categorical, rules.impute)


def _read(path: Path, choice: ColumnChoice, columns: Columns | None = None) -> Prepared:
    with open_table(path, choice) as table:
        batch = table.read()
        features = table.features
    return Prepared(batch.X, polars_frame(batch.others), features, columns)


def _without_ids(found: Prepared, numeric: tuple[str, ...]) -> Prepared:
    """Leave out columns of numbers that look like ids."""
    names = found.feature_names
    ids = [
        name
        for place, name in enumerate(names)
        if name not in numeric and numbers_like_ids(name, found.X[:, place])
    ]
    if not ids:
        return found
    what = f"left out {columns_named(ids)} ({IDS})"
    note(f"{what}. To keep, use {option('--numeric', ids)}.")
    kept = [place for place, name in enumerate(names) if name not in ids]
    X = np.ascontiguousarray(found.X[:, kept])
    return Prepared(X, found.others, tuple(names[place] for place in kept))


def _fitted(
    path: Path,
    names: Sequence[str],
    others: tuple[str, ...],
    drop: tuple[str, ...],
    numeric: tuple[str, ...],
    categorical: tuple[str, ...],
    impute: Imputation,
) -> Prepared:
    """Learn what becomes of columns, and say so."""
    features = [name for name in names if name not in {*others, *drop}]
    everything = tuple(dict.fromkeys([*others, *features]))
    with open_table(
        path, ColumnChoice(everything, tuple(n for n in names if n not in everything))
    ) as table:
        frame = polars_frame(table.read().others)
    try:
        columns = Columns.fit(
            frame.select(features),
            numeric=numeric,
            categorical=categorical,
            impute=impute is Imputation.auto,
        )
        X = columns.apply(frame)
    except ValueError as error:
        remedy = f" {_REMEDY[impute]}" if str(error).startswith("Column ") else ""
        raise UserError(f"{path}: {error}{remedy}") from error
    note(f"took {columns}. Change this with --numeric, --categorical, --drop.")
    return Prepared(X, frame.select(others), columns.feature_names, columns)


def warn_of_leakage(found: Prepared, labels: NDArray[Any]) -> None:
    """Name columns that leak the label."""
    sources = found.feature_names if found.columns is None else found.columns.sources
    suspects = leaking_columns(found.X, np.unique(labels, return_inverse=True)[1], sources)
    if suspects:
        leaks, them = ("leaks", "it") if len(suspects) == 1 else ("leak", "them")
        note(
            f"{columns_named(suspects)} {leaks} the label: one column alone separates all "
            f"classes. If new rows do not have {them}, use {option('--drop', suspects)}."
        )
