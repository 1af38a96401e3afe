"""`read_table`: rows from a file, a frame, an array or a dataset, with supervision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from nearfar import datasets
from nearfar.frames.features import ColumnRules, prepare, warn_of_leakage
from nearfar.frames.formats import (
    ARRAYS,
    TABLES,
    array_names,
    column_names,
    kind_of,
    load_array,
    open_table,
    read_frame,
    stem_of,
    unsupported,
)
from nearfar.frames.judgements import (
    check_vectors,
    copies_together,
    labels_or_nothing,
    people_together,
    read_labels,
    read_pairs,
    read_triplets,
    words,
)
from nearfar.frames.reader import ColumnChoice, Source, columns_named, listed, named_columns
from nearfar.frames.table import Frame, NotUniqueError, Table, TableError, no_file, pictures_named
from nearfar.metrics.metric import Metric
from nearfar.numerics.missing import LARGEST_VALUE, refuse_missing
from nearfar.runtime.messages import collecting_notes, counted, did_you_mean, note, option
from nearfar.supervision import Pairs, Triplets
from nearfar.supervision.supervision import Kind, are_numbers
from nearfar.typing import Array, Floats


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
    name: str | None = None,
    required: bool = False,
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
    name : str, optional
        What to call a frame or an array.
    required : bool, default=False
        Whether there must be something to learn from.

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
    judgements = triplets if triplets is not None else pairs
    kind: Kind = "triplets" if triplets is not None else "pairs"
    with collecting_notes() as notes:
        where = as_source(source, name)
        if isinstance(where, np.ndarray):
            if drop or numeric or categorical or text or ids or show or image or pictures:
                raise TableError("An array has no named columns; give a frame to name columns.")
            if label is not None:
                refuse_missing(label, option("label"))
            table = Table(name or "array", where, None if label is None else np.asarray(label))
            table = table if group is None else table.grouped(np.asarray(group), option("group"))
        else:
            if isinstance(where, Frame):
                where, label = where.with_column("label", label)
                where, group = where.with_column("group", group)
            elif not (isinstance(label, str | None) and isinstance(group, str | None)):
                raise TableError(f"Labels and groups of {where} are columns; give their names.")
            if label is None:
                check_vectors(where, judgements, kind, left_out=(ids, group, image), drop=drop)
            table = read_rows(
                where,
                label=label,
                ids=ids,
                group=group,
                text=show,
                image=image,
                pictures=None if pictures is None else Path(pictures),
                metric=metric,
                rules=ColumnRules(drop, numeric, categorical, impute, text),
                labelled=required and judgements is None,
                numeric=numbers,
                skip_unlabelled=True,
            )
        if judgements is not None:
            if not isinstance(judgements, Triplets | Pairs):
                file = as_source(judgements, kind)
                assert not isinstance(file, np.ndarray)
                file = Path(file) if isinstance(file, str) else file
                read = read_triplets if kind == "triplets" else read_pairs
                judgements = read(read_frame(file), file, table)
            table = replace(table, supervision=people_together(judgements, table), kind=kind)
        elif required or table.y is not None:
            table = _of_kind(table, numbers)
            table = table.labelled() if table.kind == "labels" else table
        if table.supervision is not None:
            table = copies_together(table)
    return replace(
        table,
        notes=tuple(notes),
        source=str(source) if isinstance(source, str | PathLike) else "",
        label=label if isinstance(label, str) else None,
        id_column=ids,
        frame=where if isinstance(where, Frame) else None,
    )


def as_source(source: object, name: str | None = None) -> str | Path | Frame | Array:
    """Return a path or the name of a dataset, a frame or a 2-d array of numbers.

    Parameters
    ----------
    name: What to call a DataFrame.
    """
    if isinstance(source, str | Frame):
        return source
    if isinstance(source, PathLike):
        return Path(source)
    if nw.dependencies.is_into_dataframe(source):
        return Frame.of(source, name or "table")
    array = np.asarray(source)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "fiub":
        raise TableError(
            "Rows are a file, a dataset, a frame or a 2-d array of numbers; got "
            f"{type(source).__name__} {array.dtype} {array.shape}."
        )
    return array if array.dtype == np.float32 else array.astype(np.float64)


def as_rows(source: object) -> str | Source:
    """Return a path or the name of a dataset, or a frame; refuse an array, which has no columns."""
    given = as_source(source)
    if isinstance(given, np.ndarray):
        raise TableError("An array has no named columns; give a frame to name columns.")
    return given


def read_rows(
    source: str | Source,
    *,
    label: str | None = None,
    drop: Sequence[str] | None = None,
    ids: str | None = None,
    group: str | None = None,
    text: str | None = None,
    image: str | None = None,
    pictures: Path | None = None,
    metric: Metric | None = None,
    rules: ColumnRules | None = None,
    labelled: bool = False,
    numeric: bool | None = None,
    complete: bool = True,
    skip_unlabelled: bool = False,
) -> Table:
    """Read rows with their labels, unchecked.

    Parameters
    ----------
    source: Path of a table or an array, or a dataset's name.
    label, ids, group, text: Columns with labels, names, groups and texts of the rows. In an
        .npz file `label` is an array ("y" by default), for an .npy file it is the path of
        another; `group` likewise.
    image, pictures: Column with paths of pictures, and their folder; as for `read_table`.
    drop: Columns to leave out.
    rules: What else is said about columns; instead of `drop`.
    metric: The metric whose features are wanted, by name if it has feature names.
    labelled: Whether a table must have labels.
    numeric: Whether labels are numbers, not classes; as for `read_table`.
    complete: Whether every row must have its label; otherwise labels that are missing are
        empty text.
    skip_unlabelled: Whether rows of a table without a label are left out, with a note.
    """
    path = Path(source) if isinstance(source, str) else source
    rules = rules or ColumnRules(drop)
    if kind_of(path) not in TABLES:
        if rules.given or ids or text or image or pictures:
            raise TableError(f"Only tables ({', '.join(TABLES)}) have columns; {source} does not.")
        assert isinstance(path, Path)
        table = _without_columns(path, label, group, metric)
        if len(table) == 0:
            raise TableError(f"{source} has no rows.")
        return table
    if labelled and label is None:
        columns = listed(column_names(path))
        raise TableError(f"Name the column of labels with {option('label')}; {path} has {columns}.")
    others = tuple(
        dict.fromkeys(name for name in (label, ids, group, text, image) if name is not None)
    )
    skipped = label if skip_unlabelled else None
    prepared = prepare(path, others, rules, metric, label=skipped, shown=text)
    X, frame = prepared.X, prepared.others
    if not prepared.feature_names:
        raise TableError(f"{path} has no columns left for features.")
    _check_size(X, prepared.feature_names, path)
    y = None
    if label is not None and complete:
        y = read_labels(frame[label], path, numeric=numeric)
    elif label is not None:
        y = labels_or_nothing(frame[label], path)
    names = None if ids is None else row_names(frame[ids], path)
    shown: list[Path | None] | None = None
    if image is not None:
        folder = pictures or (path.parent if isinstance(path, Path) else Path())
        cells = words(frame[image]).to_list()
        given = [cell for cell in cells if cell]
        found = dict(zip(given, pictures_named(folder, given), strict=True))
        shown = [found.get(cell) for cell in cells]
    elif pictures is not None:
        if names is None:
            raise TableError(
                f"Name the column of {path} that has the names of pictures with {option('ids')}, "
                f"or {option('image')}."
            )
        shown = [*pictures_named(pictures, names)]
    numbers = y is not None and y.dtype.kind == "f"
    leaking = () if y is None or metric is not None else warn_of_leakage(prepared, y)
    table = Table(
        stem_of(path),
        X,
        y,
        prepared.feature_names,
        names,
        None if text is None else words(frame[text]).to_list(),
        shown,
        prepared.columns,
        places=prepared.places,
        cells=prepared.cells,
        leaking=leaking,
        kind="nothing" if y is None else "numbers" if numbers else "labels",
    )
    if len(table) == 0:
        raise TableError(f"{source} has no rows.")
    if group is None:
        return table
    if n_missing := frame[group].null_count():
        rows = counted(n_missing, "row")
        raise TableError(f"{rows} of {path} without a group in column {group}. Fill it in.")
    return table.grouped(frame[group].to_numpy(), f"column {group}")


def read_labelled(
    source: str | Source,
    *,
    numbers: bool | None = None,
    required: bool = True,
    skip_unlabelled: bool = True,
    label: str | None = None,
    ids: str | None = None,
    drop: Sequence[str] | None = None,
    metric: Metric | None = None,
) -> Table:
    """Read rows with their labels: classes or numbers.

    Parameters
    ----------
    source: Table, array or dataset.
    numbers: Whether labels are numbers, not classes; as for `read_table`.
    required: Whether there must be labels.
    skip_unlabelled: Whether rows of a table without a label are left out, with a note.
    label, ids, drop, metric: As for `read_rows`.
    """
    table = read_rows(
        source,
        label=label,
        ids=ids,
        drop=drop,
        metric=metric,
        skip_unlabelled=skip_unlabelled,
        labelled=required,
        numeric=numbers,
    )
    return table if table.y is None and not required else _of_kind(table, numbers)


def _of_kind(table: Table, numbers: bool | None) -> Table:
    """Return the table with its labels as classes or as numbers, and say so of numbers."""
    y = table.labels
    if not (are_numbers(y) if numbers is None else numbers):
        return replace(table, supervision=y, kind="labels")
    table = replace(table, supervision=table.numbers, kind="numbers")
    may_be_classes = numbers is None and not (y % 1).any()
    else_ = f"; if they are classes, use {option('numbers', False)}" if may_be_classes else ""
    note(f"took the labels as numbers to predict: {len(np.unique(y))} different values{else_}.")
    return table


def read_other(
    source: str | Source,
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
    path = Path(source) if isinstance(source, str) else source
    if kind_of(path) not in TABLES:
        return read_rows(source, metric=metric)
    columns = column_names(path)
    return read_rows(
        source,
        label=label if label in columns else None,
        ids=ids if ids in columns else None,
        text=text if text in columns else None,
        drop=[name for name in named_columns(drop, columns) if name in columns],
        metric=metric,
        complete=False,
    )


def _without_columns(
    path: Path, label: str | None, group: str | None, metric: Metric | None
) -> Table:
    """Read rows and labels of an array or of a dataset."""
    if path.is_file() and kind_of(path) not in ARRAYS:
        raise unsupported(path)
    if kind_of(path) in ARRAYS:
        with open_table(path, ColumnChoice(metric=metric)) as reader:
            X = reader.read().X
            _check_size(X, reader.features, path)
        if label is None and kind_of(path) == ".npz" and "y" in array_names(path):
            label = "y"
        y = None if label is None else _array_beside(path, label, "labels")
        table = Table(path.stem, X, y, kind="nothing" if y is None else "labels")
        if group is not None and len(table):
            table = table.grouped(_array_beside(path, group, "groups"), group)
        return table
    name = str(path)
    try:
        data = datasets.load(name)
    except (ValueError, ConnectionError) as error:
        if path.is_dir():
            raise no_file(path) from error
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
    kind: Kind = "nothing" if data.y is None else "labels"
    return Table(name, data.X, data.y, data.feature_names, kind=kind)


def _check_size(X: Floats, features: Sequence[str], path: Source) -> None:
    # Without an array of absolute values, which would take as much memory as X.
    largest = np.maximum(X.max(axis=0, initial=0), -X.min(axis=0, initial=0))
    large = [
        name for name, size in zip(features, largest, strict=True) if float(size) > LARGEST_VALUE
    ]
    if large:
        names = columns_named(large)
        raise TableError(f"{path} has values beyond {LARGEST_VALUE:g} in {names}; rescale them.")


def row_names(names: pl.Series, path: Source) -> list[str]:
    """Return the names of rows, or raise TableError unless they tell rows apart."""
    if names.null_count() or names.n_unique() != len(names):
        raise NotUniqueError(f"The ids in column {names.name} of {path} are missing or not unique.")
    return [str(name) for name in names.to_list()]


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
