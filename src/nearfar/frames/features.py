"""Features from the columns of a table: numbers unchanged, everything else by a recipe.

A table of finite numbers needs no recipe. All other tables are read with the
types that their columns have, and `Columns` says what becomes of them. What was chosen is shown in
one line, and columns that leak the label are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from nearfar.columns import Columns
from nearfar.columns.columns import ColumnExample, column_examples
from nearfar.columns.guess import CONSTANT, IDS, MANY, Number, named_like_id, numbers_like_ids
from nearfar.columns.leakage import leaking_columns, leaking_numbers
from nearfar.columns.words import Category
from nearfar.frames.formats import FORMATS, column_names, kind_of, open_table, stem_of
from nearfar.frames.judgements import rows_with_label
from nearfar.frames.reader import (
    ColumnChoice,
    Source,
    columns_named,
    listed,
    named_columns,
    require_columns,
)
from nearfar.frames.table import Frame, NotNumbersError, Table, TableError
from nearfar.metrics.metric import Metric
from nearfar.runtime.messages import counted, note, option
from nearfar.typing import Array

# A note that says how to keep columns names no more of them, so that it stays one line.
_MOST_TO_KEEP = 8
_FLOATS = (pl.Float32, pl.Float64)


def read_features(
    path: Source,
    others: tuple[str, ...],
    kinds: Mapping[str, Sequence[str] | None],
    *,
    drop: Sequence[str] | None,
    metric: Metric | None,
    label: str | None,
    shown: str | None,
    impute: bool,
) -> tuple[Table, pl.DataFrame]:
    """Read the features of a table, and other columns of the same rows as they are.

    Parameters
    ----------
    others: Columns that are not features.
    kinds: Columns that are "numeric", "categorical" or "text", as the user names them.
    metric: The metric whose features are wanted. Without one, the recipe is learned from
        the table.
    label: The column of labels, if rows without a label are to be left out.
    shown: The one of `others` that may be a feature, too, if the user says so.
    impute: Whether missing values are filled in; otherwise they are errors.
    """
    names = column_names(path)
    left_out = named_columns(drop, names)
    if metric is not None:
        return _read(path, ColumnChoice(others, left_out, metric), label)
    asked: dict[str, Any] = {kind: named_columns(each, names) for kind, each in kinds.items()}
    features = [name for columns in asked.values() for name in columns]
    require_columns(path, names, features)
    clash = next((name for name in features if name in {*others, *left_out} - {shown}), None)
    if clash is not None:
        raise TableError(f"Column {clash!r} is not a feature; name it in one option only.")
    if isinstance(path, Frame):
        taken = {*features, *others, *left_out}
        asked["categorical"] += tuple(name for name in path.declared if name not in taken)
    if not (asked["categorical"] or asked["text"]):
        try:
            numbers, cells = _read(path, ColumnChoice(others, left_out))
        except NotNumbersError:
            pass
        else:
            may_be_codes = [
                name
                for name, column in zip(numbers.feature_names or (), numbers.X.T, strict=True)
                if name not in asked["numeric"] and not (column % 1).any()
            ]
            if not _has_padded_numbers(path, may_be_codes):
                numbers, cells = _with_labels(path, numbers, cells, label)
                return _without_ids(numbers, asked["numeric"]), cells
    rest = {*others, *left_out}.difference(features)
    columns = Columns(**asked, impute=impute)
    return _fitted(path, [name for name in names if name not in rest], others, label, columns)


def _read(
    path: Source, choice: ColumnChoice, label: str | None = None
) -> tuple[Table, pl.DataFrame]:
    with open_table(path, choice) as reader:
        batch = reader.read()
    if not reader.features:
        raise TableError(f"{path} has no columns left for features.")
    table = Table(stem_of(path), batch.X, feature_names=reader.features, columns=choice.columns)
    return _with_labels(path, table, batch.others, label)


def _unchanged(path: Source, names: Sequence[str]) -> ColumnChoice:
    """Choose columns as they are, and no features."""
    used = set(names)
    rest = tuple(name for name in column_names(path) if name not in used)
    return ColumnChoice(tuple(names), rest)


def _with_labels(
    path: Source, table: Table, cells: pl.DataFrame, label: str | None
) -> tuple[Table, pl.DataFrame]:
    """Leave out rows without a label."""
    labelled = None if label is None else rows_with_label(path, cells[label])
    if labelled is None or labelled.all():
        return table, cells
    return table.take(np.flatnonzero(labelled.to_numpy())), cells.filter(labelled)


def _has_padded_numbers(path: Source, names: Sequence[str]) -> bool:
    """Tell whether a column of text has zero-padded numbers, which may be codes."""
    with open_table(path, _unchanged(path, names)) as table:
        if not names or any(kind != pl.String for kind in table.others.dtypes()):
            return False
        padded = pl.all().str.contains(r"^\s*0\d+\s*$").any()
        return any(batch.others.select(padded).to_numpy().any() for batch in table.batches())


def _without_ids(table: Table, numeric: Sequence[str]) -> Table:
    """Leave out columns of numbers that look like ids or have one value, unless they are named."""
    names, reasons = table.feature_names or (), {}
    for name, column in zip(names, table.X.T, strict=True):
        if name in numeric:
            continue
        if len(column) > 1 and (column == column[0]).all():
            reasons[name] = CONSTANT
        elif numbers_like_ids(name, column):
            reasons[name] = IDS
    if not reasons:
        return table
    groups = {why: [n for n in reasons if reasons[n] == why] for why in (IDS, CONSTANT)}
    what = " and ".join(f"{columns_named(g)} ({why})" for why, g in groups.items() if g)
    few = len(reasons) <= _MOST_TO_KEEP
    keep = (
        f"use {option('numeric', list(reasons))}" if few else f"name them with {option('numeric')}"
    )
    note(f"left out {what}. To keep, {keep}.")
    kept = [place for place, name in enumerate(names) if name not in reasons]
    if not kept:
        raise TableError(f"{table.name} has no columns left for features.")
    X = np.ascontiguousarray(table.X[:, kept])
    return replace(table, X=X, feature_names=tuple(names[place] for place in kept))


def _fitted(
    path: Source,
    features: Sequence[str],
    others: tuple[str, ...],
    label: str | None,
    columns: Columns,
) -> tuple[Table, pl.DataFrame]:
    """Learn what becomes of columns, and say so."""
    everything, vectors = tuple(dict.fromkeys([*others, *features])), []
    if FORMATS[kind_of(path)].has_lists:
        with open_table(path, _unchanged(path, everything)) as reader:
            types = {name: getattr(kind, "inner", None) for name, kind in reader.others.items()}
        vectors = [n for n, kind in types.items() if kind in _FLOATS and n not in others]
    rest = [name for name in everything if name not in vectors]
    with open_table(path, _unchanged(path, rest)) as reader:
        frame = reader.read().others
    places, labelled = None, None
    if label is not None:
        labelled = rows_with_label(path, frame[label])
        if labelled.all():
            labelled = None
        else:
            frame, places = frame.filter(labelled), np.flatnonzero(labelled.to_numpy())
    frame = frame.with_columns(_read_vectors(path, name, labelled) for name in vectors)
    try:
        X = columns.fit(frame.select(features)).apply(frame)
    except ValueError as error:
        remedy = ""
        if str(error).startswith("Column "):
            way = f"leave columns out with {option('drop')}"
            if not columns.impute:
                way = f"leave out {option('impute', False)} to fill in missing values"
            remedy = f" Correct it, or {way}."
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
    table = Table(
        stem_of(path),
        X,
        feature_names=columns.feature_names,
        columns=columns,
        places=places,
        cells=frame.select(columns.names),
    )
    return table, frame.select(others)


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


def warn_of_leakage(table: Table, labels: Array) -> tuple[str, ...]:
    """Name columns that leak the label, and return them."""
    columns = table.columns
    sources = (table.feature_names or ()) if columns is None else columns.sources
    if labels.dtype.kind == "f":
        what, suspects = "number", leaking_numbers(table.X, labels, sources)
    else:
        classes = np.unique(labels, return_inverse=True)[1]
        what, suspects = "class", leaking_columns(table.X, classes, sources)
    if suspects:
        leaks, them = ("leaks", "it") if len(suspects) == 1 else ("leak", "them")
        note(
            f"{columns_named(suspects)} {leaks} the label: one column alone tells the {what} of "
            f"nearly every row. If new rows do not have {them}, use "
            f"{option('drop', list(suspects))}.",
            warning=True,
        )
    return tuple(suspects)
