"""Features from the columns of a table: numbers unchanged, everything else by a recipe.

A table of finite numbers needs no recipe. All other tables are read with the
types that their columns have, and `Columns` says what becomes of them. What was chosen is shown in
one line, and columns that leak the label are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from nearfar.columns import Columns
from nearfar.columns.category import Category
from nearfar.columns.examples import ColumnExample, column_examples
from nearfar.columns.guess import CONSTANT, IDS, MANY, named_like_id, numbers_like_ids
from nearfar.columns.leakage import leaking_columns
from nearfar.metrics.metric import Metric
from nearfar.runtime.notes import note
from nearfar.tables.errors import NotNumbersError, TableError
from nearfar.tables.formats import column_names, open_table
from nearfar.tables.labels import rows_with_label
from nearfar.tables.reader import (
    ColumnChoice,
    columns_named,
    named_columns,
    option,
    polars_frame,
    require_columns,
)
from nearfar.typing import Floats, Ints


class Imputation(StrEnum):
    """What to do about missing values."""

    auto = "auto"
    none = "none"


_MOST_TO_KEEP = 8
_REMEDY = {
    Imputation.auto: "Correct it, or leave columns out with --drop.",
    Imputation.none: "Correct it, or leave out --impute none to fill in missing values.",
}


@dataclass(frozen=True)
class ColumnRules:
    """What the user says about columns.

    Attributes
    ----------
    drop, numeric, categorical, text : sequence of str, or None
        Columns to leave out, and columns that are numbers, categories or free text; several names
        may be in one text, separated by commas.
    impute : Imputation
    """

    drop: Sequence[str] | None = None
    numeric: Sequence[str] | None = None
    categorical: Sequence[str] | None = None
    impute: Imputation = Imputation.auto
    text: Sequence[str] | None = None

    @property
    def given(self) -> bool:
        """Whether any column is named."""
        return bool(self.drop or self.numeric or self.categorical or self.text)


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
    places : array of shape (n_rows,) or None
        Number of each row in the file, if some were left out.
    """

    X: Floats
    others: pl.DataFrame
    feature_names: tuple[str, ...]
    columns: Columns | None = None
    places: Ints | None = None


def prepare(
    path: Path,
    others: tuple[str, ...],
    rules: ColumnRules,
    metric: Metric | None = None,
    *,
    label: str | None = None,
    shown: str | None = None,
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
    label : str, optional
        The column of labels, if rows without a label are to be left out.
    shown : str, optional
        The one of `others` that may be a feature, too, if the rules say so.
    """
    names = column_names(path)
    drop = named_columns(rules.drop, names)
    if metric is not None:
        found = _read(path, ColumnChoice(others, drop, metric), metric.columns)
        return _labelled(path, found, label)
    kinds = {
        "numeric": named_columns(rules.numeric, names),
        "categorical": named_columns(rules.categorical, names),
        "text": named_columns(rules.text, names),
    }
    said = [name for columns in kinds.values() for name in columns]
    require_columns(path, names, said)
    clash = next((name for name in said if name in {*others, *drop} - {shown}), None)
    if clash is not None:
        raise TableError(f"Column {clash!r} is not a feature; name it in one option only.")
    if not (kinds["categorical"] or kinds["text"]):
        try:
            found = _read(path, ColumnChoice(others, drop))
            if not _has_codes(path, names, found, kinds["numeric"]):
                return _without_ids(_labelled(path, found, label), kinds["numeric"])
        except NotNumbersError:
            pass
    features = [name for name in names if name in said or name not in {*others, *drop}]
    return _fitted(path, features, others, label, kinds, rules.impute)


def _read(path: Path, choice: ColumnChoice, columns: Columns | None = None) -> Prepared:
    with open_table(path, choice) as table:
        batch = table.read()
        features = table.features
    return Prepared(batch.X, polars_frame(batch.others), features, columns)


def _without_ids(found: Prepared, numeric: tuple[str, ...]) -> Prepared:
    """Leave out columns of numbers that look like ids, and those with one value."""
    names = found.feature_names
    reasons = {}
    for name, column in zip(names, found.X.T, strict=True):
        if name in numeric:
            continue
        if len(column) > 1 and (column == column[0]).all():
            reasons[name] = CONSTANT
        elif numbers_like_ids(name, column):
            reasons[name] = IDS
    if not reasons:
        return found
    groups = {why: [n for n in reasons if reasons[n] == why] for why in (IDS, CONSTANT)}
    what = " and ".join(f"{columns_named(g)} ({why})" for why, g in groups.items() if g)
    few = len(reasons) <= _MOST_TO_KEEP
    keep = f"use {option('--numeric', list(reasons))}" if few else "name them with --numeric"
    note(f"left out {what}. To keep, {keep}.")
    kept = [place for place, name in enumerate(names) if name not in reasons]
    X = np.ascontiguousarray(found.X[:, kept])
    return replace(found, X=X, feature_names=tuple(names[place] for place in kept))


def _has_codes(path: Path, names: Sequence[str], found: Prepared, numeric: tuple[str, ...]) -> bool:
    """Tell whether a column of whole numbers has zero-padded ones, which may be codes."""
    whole = tuple(
        name
        for name, column in zip(found.feature_names, found.X.T, strict=True)
        if name not in numeric and not (column % 1).any()
    )
    rest = tuple(name for name in names if name not in whole)
    with open_table(path, ColumnChoice(whole, rest)) as table:
        if not whole or any(kind != pa.string() for kind in table.others.types):
            return False
        padded = pl.all().str.contains(r"^\s*0\d+\s*$").any()
        return any(
            polars_frame(batch.others).select(padded).to_numpy().any() for batch in table.batches()
        )


def _fitted(
    path: Path,
    features: Sequence[str],
    others: tuple[str, ...],
    label: str | None,
    kinds: dict[str, tuple[str, ...]],
    impute: Imputation,
) -> Prepared:
    """Learn what becomes of columns, and say so."""
    everything = tuple(dict.fromkeys([*others, *features]))
    rest = tuple(name for name in column_names(path) if name not in everything)
    with open_table(path, ColumnChoice(everything, rest)) as table:
        frame = polars_frame(table.read().others)
    places = None
    if label is not None:
        known = rows_with_label(path, frame[label])
        frame, places = frame.filter(known), _places(known)
    try:
        columns = Columns.fit(frame.select(features), **kinds, impute=impute is Imputation.auto)
        X = columns.apply(frame)
    except ValueError as error:
        remedy = f" {_REMEDY[impute]}" if str(error).startswith("Column ") else ""
        raise TableError(f"{path}: {error}{remedy}") from error
    more = " See all with `nearfar show METRIC --columns`." if columns.summary_is_short else ""
    change = "Change this with --numeric, --categorical, --text, --drop."
    note(f"took {columns.summary}. {change}{more}")
    _suggest_groups(columns)
    if columns.conversions:
        note(f"{columns.conversions}.")
    return Prepared(X, frame.select(others), columns.feature_names, columns, places)


def _suggest_groups(columns: Columns) -> None:
    """Say that ids which repeat may be groups."""
    names = [kind.name for kind in columns.kinds if isinstance(kind, Category)]
    names += [name for name, why in columns.left_out.items() if why == MANY]
    repeated = [name for name in names if named_like_id(name)]
    if repeated:
        note(
            f"the ids in {columns_named(repeated)} repeat. If rows with the same id belong "
            f"together, use {option('--group', repeated[:1])}."
        )


def _labelled(path: Path, found: Prepared, label: str | None) -> Prepared:
    """Leave out rows without a label."""
    if label is None:
        return found
    known = rows_with_label(path, found.others[label])
    if known.all():
        return found
    places = _places(known)
    return replace(found, X=found.X[places], others=found.others.filter(known), places=places)


def _places(known: pl.Series) -> Ints | None:
    """Return the numbers of the rows that are kept; None if all are."""
    return None if known.all() else np.flatnonzero(known.to_numpy())


def read_examples(path: Path, columns: Columns | None) -> list[ColumnExample]:
    """Return what the columns of a table became, with examples from its first rows."""
    if columns is None:
        return []
    used = columns.names
    rest = tuple(name for name in column_names(path) if name not in used)
    with open_table(path, ColumnChoice(used, rest)) as table:
        batch = next(table.batches(), None)
    return [] if batch is None else column_examples(columns, polars_frame(batch.others))


def warn_of_leakage(found: Prepared, labels: NDArray[Any]) -> tuple[str, ...]:
    """Name columns that leak the label, and return them."""
    sources = found.feature_names if found.columns is None else found.columns.sources
    suspects = leaking_columns(found.X, np.unique(labels, return_inverse=True)[1], sources)
    if suspects:
        leaks, them = ("leaks", "it") if len(suspects) == 1 else ("leak", "them")
        note(
            f"{columns_named(suspects)} {leaks} the label: one column alone tells the class of "
            f"nearly every row. If new rows do not have {them}, use {option('--drop', suspects)}.",
            warning=True,
        )
    return tuple(suspects)
