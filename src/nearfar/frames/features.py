"""Features from the columns of a table: numbers unchanged, everything else by a recipe.

A table of finite numbers needs no recipe. All other tables are read with the
types that their columns have, and `Columns` says what becomes of them. What was chosen is shown in
one line, and columns that leak the label are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from nearfar.columns import Columns
from nearfar.columns.columns import ColumnExample, column_examples
from nearfar.columns.guess import CONSTANT, IDS, MANY, Number, named_like_id, numbers_like_ids
from nearfar.columns.leakage import leaking_columns, leaking_numbers
from nearfar.columns.words import Category
from nearfar.frames.formats import FORMATS, column_names, kind_of, open_table
from nearfar.frames.judgements import rows_with_label
from nearfar.frames.reader import (
    ColumnChoice,
    Source,
    columns_named,
    listed,
    named_columns,
    require_columns,
)
from nearfar.frames.table import Frame, NotNumbersError, TableError
from nearfar.metrics.metric import Metric
from nearfar.runtime.messages import counted, note, option
from nearfar.typing import Array, Floats, Ints

# A note that says how to keep columns names no more of them, so that it stays one line.
_MOST_TO_KEEP = 8
_FLOATS = (pl.Float32, pl.Float64)


@dataclass(frozen=True)
class ColumnRules:
    """What the user says about columns.

    Attributes
    ----------
    drop, numeric, categorical, text: Columns to leave out, and columns that are numbers,
        categories or free text; several names may be in one text, separated by commas.
    impute: Whether missing values are filled in; otherwise they are errors.
    """

    drop: Sequence[str] | None = None
    numeric: Sequence[str] | None = None
    categorical: Sequence[str] | None = None
    impute: bool = True
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
    others: The other columns that were asked for.
    columns: The recipe; None if the features are columns of numbers.
    places: shape (n_rows,). Number of each row in the file, if some were left out.
    cells: What the recipe was learned from, if it was.
    """

    X: Floats
    others: pl.DataFrame
    feature_names: tuple[str, ...]
    columns: Columns | None = None
    places: Ints | None = None
    cells: pl.DataFrame | None = None


def prepare(
    path: Source,
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
    others: Columns that are not features.
    metric: The metric whose features are wanted. Without one, the recipe is learned from
        the table.
    label: The column of labels, if rows without a label are to be left out.
    shown: The one of `others` that may be a feature, too, if the rules say so.
    """
    names = column_names(path)
    drop = named_columns(rules.drop, names)
    if metric is not None:
        return _read(path, ColumnChoice(others, drop, metric), label)
    kinds = {
        "numeric": named_columns(rules.numeric, names),
        "categorical": named_columns(rules.categorical, names),
        "text": named_columns(rules.text, names),
    }
    features = [name for columns in kinds.values() for name in columns]
    require_columns(path, names, features)
    clash = next((name for name in features if name in {*others, *drop} - {shown}), None)
    if clash is not None:
        raise TableError(f"Column {clash!r} is not a feature; name it in one option only.")
    if isinstance(path, Frame):
        taken = {*features, *others, *drop}
        kinds["categorical"] += tuple(name for name in path.declared if name not in taken)
    if not (kinds["categorical"] or kinds["text"]):
        try:
            numbers = _read(path, ColumnChoice(others, drop))
        except NotNumbersError:
            pass
        else:
            may_be_codes = [
                name
                for name, column in zip(numbers.feature_names, numbers.X.T, strict=True)
                if name not in kinds["numeric"] and not (column % 1).any()
            ]
            if not has_padded_numbers(path, may_be_codes):
                return without_ids(_with_labels(path, numbers, label), kinds["numeric"])
    rest = {*others, *drop}.difference(features)
    features = [name for name in names if name not in rest]
    return _fitted(path, features, others, label, kinds, rules.impute)


def _read(path: Source, choice: ColumnChoice, label: str | None = None) -> Prepared:
    with open_table(path, choice) as table:
        batch = table.read()
        prepared = Prepared(batch.X, batch.others, table.features, choice.columns)
    return _with_labels(path, prepared, label)


def _unchanged(path: Source, names: Sequence[str]) -> ColumnChoice:
    """Choose columns as they are, and no features."""
    used = set(names)
    rest = tuple(name for name in column_names(path) if name not in used)
    return ColumnChoice(tuple(names), rest)


def _with_labels(path: Source, prepared: Prepared, label: str | None) -> Prepared:
    """Leave out rows without a label."""
    if label is None:
        return prepared
    labelled = rows_with_label(path, prepared.others[label])
    if labelled.all():
        return prepared
    places = np.flatnonzero(labelled.to_numpy())
    others = prepared.others.filter(labelled)
    return replace(prepared, X=prepared.X[places], others=others, places=places)


def has_padded_numbers(path: Source, names: Sequence[str]) -> bool:
    """Tell whether a column of text has zero-padded numbers, which may be codes."""
    with open_table(path, _unchanged(path, names)) as table:
        if not names or any(kind != pl.String for kind in table.others.dtypes()):
            return False
        padded = pl.all().str.contains(r"^\s*0\d+\s*$").any()
        return any(batch.others.select(padded).to_numpy().any() for batch in table.batches())


def without_ids(prepared: Prepared, numeric: Sequence[str]) -> Prepared:
    """Leave out columns of numbers that look like ids or have one value, unless they are named."""
    names = prepared.feature_names
    reasons = {}
    for name, column in zip(names, prepared.X.T, strict=True):
        if name in numeric:
            continue
        if len(column) > 1 and (column == column[0]).all():
            reasons[name] = CONSTANT
        elif numbers_like_ids(name, column):
            reasons[name] = IDS
    if not reasons:
        return prepared
    groups = {why: [n for n in reasons if reasons[n] == why] for why in (IDS, CONSTANT)}
    what = " and ".join(f"{columns_named(g)} ({why})" for why, g in groups.items() if g)
    few = len(reasons) <= _MOST_TO_KEEP
    keep = (
        f"use {option('numeric', list(reasons))}" if few else f"name them with {option('numeric')}"
    )
    note(f"left out {what}. To keep, {keep}.")
    kept = [place for place, name in enumerate(names) if name not in reasons]
    X = np.ascontiguousarray(prepared.X[:, kept])
    return replace(prepared, X=X, feature_names=tuple(names[place] for place in kept))


def _fitted(
    path: Source,
    features: Sequence[str],
    others: tuple[str, ...],
    label: str | None,
    kinds: dict[str, Any],
    impute: bool,
) -> Prepared:
    """Learn what becomes of columns, and say so."""
    everything = tuple(dict.fromkeys([*others, *features]))
    vectors = [name for name in _vector_columns(path, everything) if name not in others]
    rest = [name for name in everything if name not in vectors]
    with open_table(path, _unchanged(path, rest)) as table:
        frame = table.read().others
    places = None
    if label is not None:
        labelled = rows_with_label(path, frame[label])
        if not labelled.all():
            frame, places = frame.filter(labelled), np.flatnonzero(labelled.to_numpy())
    has_label = None if places is None else labelled
    frame = frame.with_columns(_read_vectors(path, name, has_label) for name in vectors)
    try:
        columns = Columns(**kinds, impute=impute).fit(frame.select(features))
        X = columns.apply(frame)
    except ValueError as error:
        remedy = ""
        if str(error).startswith("Column "):
            remedy = f" Correct it, or leave columns out with {option('drop')}."
            if not impute:
                remedy = (
                    f" Correct it, or leave out {option('impute none')} to fill in missing values."
                )
        raise TableError(f"{path}: {error}{remedy}") from error
    n_features = counted(len(columns.feature_names), "feature")
    said = [f"read {counted(len(columns.names), 'column')} as {n_features}"]
    if columns.left_out_:
        reasons: dict[str, list[str]] = {}
        for name, why in columns.left_out_.items():
            reasons.setdefault(why, []).append(name or "the column without a name")
        said.append("left out " + ", ".join(f"{listed(n)} ({why})" for why, n in reasons.items()))
    lost = [k for k in columns.kinds_ if isinstance(k, Number) and k.notation.gaps]
    if lost:
        cells_lost = counted(sum(k.notation.n_gaps for k in lost), "cell")
        gaps = listed([f"{k.name}: {k.notation.gaps[0]!r}" for k in lost])
        said.append(f"{cells_lost} unreadable ({gaps})")
    change = ", ".join(option(name) for name in ("numeric", "categorical", "text", "drop"))
    note(
        f"{'; '.join(said)}. See how with `nearfar show METRIC --columns`; change it with {change}."
    )
    names = [kind.name for kind in columns.kinds_ if isinstance(kind, Category)]
    names += [name for name, why in columns.left_out_.items() if why == MANY]
    repeated = [name for name in names if named_like_id(name)]
    if repeated:
        note(
            f"the ids in {columns_named(repeated)} repeat. If rows with the same id belong "
            f"together, use {option('group', repeated[0])}."
        )
    cells = frame.select(columns.names)
    return Prepared(X, frame.select(others), columns.feature_names, columns, places, cells)


def _vector_columns(path: Source, names: Sequence[str]) -> list[str]:
    """Return the columns of lists of float32 or float64 in formats that have such columns."""
    if not FORMATS[kind_of(path)].has_lists:
        return []
    with open_table(path, _unchanged(path, names)) as table:
        types = table.others
    return [name for name, kind in types.items() if getattr(kind, "inner", None) in _FLOATS]


def _read_vectors(path: Source, name: str, labelled: pl.Series | None) -> pl.Series:
    """Read lists of one length into one array, without rows that have no label."""
    choice = _unchanged(path, [name])
    with open_table(path, choice) as table:
        X, n_rows, n_read = None, 0, 0
        for batch in table.batches():
            lists = batch.others.to_series()
            if labelled is not None:
                lists = lists.filter(labelled.slice(n_read, len(lists)))
            n_read += len(batch)
            if isinstance(lists.dtype, pl.Array):
                lists = lists.arr.to_list()
            widths = lists.list.len().drop_nulls().unique().to_list()
            if X is None and len(widths) == 1 and widths[0] > 0:
                total = batch.total if labelled is None else int(labelled.sum())
                single = lists.dtype == pl.List(pl.Float32)
                X = np.empty((total, widths[0]), np.float32 if single else np.float64)
            if X is None or widths not in ([], [X.shape[1]]):
                break
            part, known = X[n_rows : n_rows + len(lists)], lists.is_not_null().to_numpy()
            part[known] = lists.drop_nulls().explode().to_numpy().reshape(-1, X.shape[1])
            part[~known] = np.nan
            n_rows += len(lists)
        else:
            if X is not None:
                return pl.Series(name, X)
    with open_table(path, choice) as table:
        column = table.read().others[name]
    return column if labelled is None else column.filter(labelled)


def read_examples(path: Source, columns: Columns | None) -> list[ColumnExample]:
    """Return what the columns of a table became, with examples from its first rows."""
    if columns is None:
        return []
    with open_table(path, _unchanged(path, columns.names)) as table:
        batch = next(table.batches(), None)
    return [] if batch is None else column_examples(columns, batch.others)


def warn_of_leakage(prepared: Prepared, labels: Array) -> tuple[str, ...]:
    """Name columns that leak the label, and return them."""
    columns = prepared.columns
    sources = prepared.feature_names if columns is None else columns.sources
    if labels.dtype.kind == "f":
        what, suspects = "number", leaking_numbers(prepared.X, labels, sources)
    else:
        classes = np.unique(labels, return_inverse=True)[1]
        what, suspects = "class", leaking_columns(prepared.X, classes, sources)
    if suspects:
        leaks, them = ("leaks", "it") if len(suspects) == 1 else ("leak", "them")
        note(
            f"{columns_named(suspects)} {leaks} the label: one column alone tells the {what} of "
            f"nearly every row. If new rows do not have {them}, use "
            f"{option('drop', list(suspects))}.",
            warning=True,
        )
    return tuple(suspects)
