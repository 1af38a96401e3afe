"""`read_table`: rows from a file, a frame, an array or a dataset, with supervision."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from nearfar import datasets
from nearfar.frames.features import read_features, warn_of_leakage
from nearfar.frames.formats import (
    ARRAYS,
    TABLES,
    array_names,
    column_names,
    kind_of,
    load_array,
    open_table,
    read_frame,
    unsupported,
)
from nearfar.frames.judgements import (
    copies_together,
    people_together,
    read_judgements,
    read_labels,
    read_pairs,
    read_triplets,
    refuse_judgements,
    words,
)
from nearfar.frames.reader import ColumnChoice, Source, columns_named, listed, named_columns
from nearfar.frames.table import (
    Frame,
    NotUniqueError,
    Table,
    TableError,
    no_file,
    pictures_named,
)
from nearfar.metrics.metric import Metric
from nearfar.numerics.missing import LARGEST_VALUE, labelled_rows, refuse_missing
from nearfar.runtime.messages import (
    collecting_notes,
    counted,
    did_you_mean,
    forwards,
    note,
    option,
)
from nearfar.supervision import Pairs, Triplets
from nearfar.supervision.supervision import Kind, are_numbers
from nearfar.typing import Array


def read_table(
    source: object,
    *,
    label: str | Array | None = None,
    pairs: object = None,
    triplets: object = None,
    group: str | Array | None = None,
    ids: str | None = None,
    drop: Sequence[str] | None = None,
    numeric: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    text: Sequence[str] | None = None,
    show: str | None = None,
    image: str | None = None,
    pictures: str | PathLike[str] | None = None,
    impute: bool = True,
    numbers: bool | None = None,
    metric: Metric | None = None,
    required: bool = False,
    keep_unlabelled: bool = False,
) -> Table:
    """Read rows, and labels, pairs or triplets to learn from.

    Columns of numbers are features as they are. Numbers as people write them (38%, €1,234.5, 804
    cm), dates, categories, lists and missing values become features, too; ids and free text are
    left out. `Table.notes` says what was done. Rows without a label are left out, and copies of
    rows, and the answers of a person, are kept on one side of every split.

    Parameters
    ----------
    source : path, str, DataFrame or array
        A file (.csv, .tsv, .parquet, .feather, .arrow, .jsonl, .xlsx, .npy, .npz), the name of a
        dataset, a DataFrame of pandas, polars or pyarrow, or a 2-d array.
    label : str or array, optional
        Column of labels, or the labels of an array or a frame. In an .npz file this is an array
        ("y" by default), for an .npy file the path of another.
    pairs : path, DataFrame or Pairs, optional
        Table of pairs: a, b, similar [, weight, person]. Rows count from 0, or are named by `ids`.
    triplets : path, DataFrame or Triplets, optional
        Table of triplets: anchor, near, far [, weight, person]. Rows count from 0, or are named by
        `ids`.
    group : str or array, optional
        Column of groups, such as persons, or the groups of an array. No group is in training rows
        and in test rows.
    ids : str, optional
        Column of row names, for constraints and results.
    drop : sequence of str, optional
        Columns to leave out, separated by commas.
    numeric : sequence of str, optional
        Columns that are numbers, not ids, separated by commas.
    categorical : sequence of str, optional
        Columns that are categories, separated by commas.
    text : sequence of str, optional
        Columns of free text to use, as TF-IDF reduced by an SVD, separated by commas.
    show : str, optional
        Column to show for each row.
    image : str, optional
        Column with paths of pictures, for reports.
    pictures : path, optional
        Folder of the pictures, by default that of the table. Without `image`, the names of the
        pictures are those of the rows.
    impute : bool, default=True
        Fill in missing values; otherwise they are errors.
    numbers : bool, optional
        The labels are numbers to predict, or classes. By default they are numbers if some are not
        whole, or if there are more than 30 values, most with fewer than five rows; integers in an
        array are classes.
    metric : Metric, optional
        The metric whose features are wanted.
    required : bool, default=False
        Whether there must be something to learn from.
    keep_unlabelled : bool, default=False
        Whether rows without a label stay. All labels are text then, and missing ones are empty.

    Returns
    -------
    Table

    Raises
    ------
    TableError
        If the source cannot be read as asked. It is a ValueError.

    Examples
    --------
    >>> import pandas as pd
    >>> from nearfar import read_table
    >>> frame = pd.DataFrame({"size": ["1 m", "2 m", "80 cm"], "kind": ["a", "b", "a"]})
    >>> table = read_table(frame, label="kind")
    >>> table
    <Table table: 3 rows x 1 feature, 2 classes>
    >>> table.X.ravel()
    array([1. , 2. , 0.8])
    >>> table.notes[0].text
    'Read 1 column as 1 feature. See how with `nearfar show METRIC --columns`; ...'
    """
    if sum(each is not None for each in (label, triplets, pairs)) > 1:
        all_of = [option(each) for each in ("label", "triplets", "pairs")]
        raise TableError(f"Give only one of {all_of[0]}, {all_of[1]} and {all_of[2]}.")
    kinds = {"numeric": numeric, "categorical": categorical, "text": text}
    judgements = pairs if triplets is None else triplets
    kind: Kind = "pairs" if triplets is None else "triplets"
    # Rows that a metric is only used on are not split.
    splits = (required or metric is None) and not keep_unlabelled
    with collecting_notes() as notes:
        where = as_source(source)
        if isinstance(where, Frame):
            where, label = where.with_column("label", label)
            where, group = where.with_column("group", group)
        if label is None and not isinstance(where, np.ndarray):
            refuse_judgements(where, judgements, kind)
        if isinstance(where, np.ndarray) or kind_of(where) not in TABLES:
            if any([drop, *kinds.values(), ids, show, image, pictures]):
                what = "An array" if isinstance(where, np.ndarray) else where
                tables = f"tables ({', '.join(TABLES)}) and frames"
                raise TableError(f"{what} has no named columns. Only {tables} have them.")
            table = _without_columns(where, label, group, metric)
        else:
            if not (isinstance(label, str | None) and isinstance(group, str | None)):
                raise TableError(f"Labels and groups of {where} are columns; give their names.")
            if required and label is None and judgements is None:
                wanted = f"Name the column of labels with {option('label')}"
                raise TableError(f"{wanted}; {where} has {listed(column_names(where))}.")
            others = tuple(
                dict.fromkeys(n for n in (label, ids, group, show, image) if n is not None)
            )
            table, cells = read_features(
                where,
                tuple(others),
                kinds,
                drop=drop,
                metric=metric,
                label=None if keep_unlabelled else label,
                shown=show,
                impute=impute,
            )
            if label is not None:
                y = read_labels(cells[label], where, numeric=numbers, partly=keep_unlabelled)
                leaking = () if metric is not None else warn_of_leakage(table, y)
                table = replace(table, supervision=y, leaking=leaking)
            names = None if ids is None else row_names(cells[ids], where)
            texts = None if show is None else words(cells[show]).to_list()
            table = replace(table, ids=names, texts=texts)
            if image is not None or pictures is not None:
                named = names if image is None else words(cells[image]).to_list()
                table = replace(table, pictures=_pictures(where, named, pictures))
            if group is not None:
                if n_missing := cells[group].null_count():
                    rows = f"{counted(n_missing, 'row')} of {where}"
                    raise TableError(f"{rows} without a group in column {group}. Fill it in.")
                table = table.grouped(cells[group].to_numpy(), f"column {group}")
        _check_values(table, source if isinstance(where, Path) else where)
        if judgements is not None:
            table = _judged(table, judgements, kind)
        elif keep_unlabelled:
            table = replace(table, kind="nothing" if table.y is None else "labels")
        elif required or table.y is not None:
            table = _of_kind(table, table.labels if splits else np.asarray(table.y), numbers)
        if splits and table.supervision is not None:
            if isinstance(table.supervision, Triplets | Pairs):
                together = people_together(table.supervision, table)
                table = replace(table, supervision=together)
            table = copies_together(table)
    return replace(
        table,
        notes=tuple(notes),
        source=str(source) if isinstance(source, str | PathLike) else "",
        label=label if isinstance(label, str) else None,
        id_column=ids,
        frame=where if isinstance(where, Frame) else None,
    )


def as_source(source: object, name: str = "table") -> Source | Array:
    """Return a path (or a dataset's name as one), a DataFrame as a frame, or a 2-d array."""
    if isinstance(source, Frame):
        return source
    if isinstance(source, str | PathLike):
        return Path(source)
    if nw.dependencies.is_into_dataframe(source):
        return Frame.of(source, name)
    array = np.asarray(source)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "fiub":
        raise TableError(
            "Rows are a file, a dataset, a frame or a 2-d array of numbers; got "
            f"{type(source).__name__} {array.dtype} {array.shape}."
        )
    return array if array.dtype == np.float32 else array.astype(np.float64)


@forwards(read_table, "label ids drop show")
def read_new(source: object, metric: Metric, **columns: Any) -> Table:
    """Read rows of another file, with the labels, names and texts that they have.

    Columns that it lacks are not asked for. Labels may be missing, and are text.
    """
    where = as_source(source)
    known = (
        [] if isinstance(where, np.ndarray) or kind_of(where) not in TABLES else column_names(where)
    )
    drop = [name for name in named_columns(columns.pop("drop", None), known) if name in known]
    there = {role: name for role, name in columns.items() if name in known}
    return read_table(where, metric=metric, keep_unlabelled=True, drop=drop, **there)


def _without_columns(
    where: Source | Array,
    label: str | Array | None,
    group: str | Array | None,
    metric: Metric | None,
) -> Table:
    """Return rows, labels and groups of an array, of a file of arrays, or of a dataset."""
    if isinstance(where, np.ndarray):
        if label is not None:
            refuse_missing(label, option("label"))
        table = Table("array", where, None if label is None else np.asarray(label))
        return table if group is None else table.grouped(np.asarray(group), option("group"))
    assert isinstance(where, Path)
    if kind_of(where) in ARRAYS:
        with open_table(where, ColumnChoice(metric=metric)) as reader:
            X = reader.read().X
        if label is None and kind_of(where) == ".npz" and "y" in array_names(where):
            label = "y"
        y = None if label is None else _array_beside(where, str(label), "labels")
        table = Table(where.stem, X, y)
        if group is not None and len(table):
            table = table.grouped(_array_beside(where, str(group), "groups"), str(group))
        return table
    if where.is_file():
        raise unsupported(where)
    name = str(where)
    try:
        data = datasets.load(name)
    except ValueError as error:
        if where.is_dir():
            raise no_file(where) from error
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
    for parameter, value in {"label": label, "group": group}.items():
        if value is not None:
            raise TableError(f"{option(parameter)} is for files, not for the dataset {name}.")
    return Table(name, data.X, data.y, data.feature_names)


def _array_beside(path: Path, name: str, what: str) -> Array:
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


def _pictures(
    path: Source, named: list[str] | None, folder: str | PathLike[str] | None
) -> list[Path | None]:
    """Return the pictures in a folder that rows name; None for rows that name none."""
    if named is None:
        ways = f"{option('ids')}, or {option('image')}"
        raise TableError(f"Name the column of {path} that has the names of pictures with {ways}.")
    beside = path.parent if isinstance(path, Path) else Path()
    given = [name for name in named if name]
    found = dict(zip(given, pictures_named(Path(folder or beside), given), strict=True))
    return [found.get(name) for name in named]


def _judged(table: Table, judgements: object, kind: Kind) -> Table:
    """Return the table with triplets or pairs, from wherever they are."""
    if not isinstance(judgements, Triplets | Pairs):
        file = as_source(judgements, kind)
        assert not isinstance(file, np.ndarray)
        read = read_triplets if kind == "triplets" else read_pairs
        frame = read_frame(file) if isinstance(file, Frame) else read_judgements(file, kind)
        judgements = read(frame, file, table)
    return replace(table, supervision=judgements, kind=kind)


def _of_kind(table: Table, y: Array, numbers: bool | None) -> Table:
    """Return the table with its labels as classes or as numbers, and say so of numbers.

    Rows whose class is -1, which may mark unlabelled ones, are left out.
    """
    if not (are_numbers(y) if numbers is None else numbers):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rows = labelled_rows(y)
        for warning in caught:
            note(str(warning.message), warning=True)
        table = replace(table, kind="labels")
        return table if rows is None else table.take(rows)
    may_be_classes = numbers is None and not (y % 1).any()
    else_ = f"; if they are classes, use {option('numbers', False)}" if may_be_classes else ""
    note(f"took the labels as numbers to predict: {len(np.unique(y))} different values{else_}.")
    return replace(table, supervision=table.numbers, kind="numbers")


def _check_values(table: Table, where: object) -> None:
    """Refuse a table without rows, and values that overflow when they are squared."""
    if len(table) == 0:
        raise TableError(f"{where} has no rows.")
    # Without an array of absolute values, which would take as much memory as X.
    largest = np.maximum(table.X.max(axis=0, initial=0), -table.X.min(axis=0, initial=0))
    names = table.feature_names or tuple(map(str, range(table.X.shape[1])))
    large = [name for name, size in zip(names, largest, strict=True) if float(size) > LARGEST_VALUE]
    if large:
        beyond = f"values beyond {LARGEST_VALUE:g} in {columns_named(large)}"
        raise TableError(f"{where} has {beyond}; rescale them.")


def row_names(names: pl.Series, path: Source) -> list[str]:
    """Return the names of rows, or raise TableError unless they tell rows apart."""
    if names.null_count() or names.n_unique() != len(names):
        raise NotUniqueError(f"The ids in column {names.name} of {path} are missing or not unique.")
    return [str(name) for name in names.to_list()]
