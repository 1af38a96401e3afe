"""Triplets and pairs from tables: rows by number, or by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from nearfar.frames.formats import TABLES, column_names, kind_of
from nearfar.frames.frames import Frame, TableError
from nearfar.frames.reader import Source, named_columns, require_columns
from nearfar.frames.table import Table
from nearfar.runtime.messages import note, option, quoted
from nearfar.supervision import Pairs, Supervision, Triplets, keep_copies_together
from nearfar.typing import Ints, Vector

_TRIPLET = ("anchor", "near", "far")
_PAIR = ("a", "b")
_PERSON = "person"
SAME = ("similar", "same")
"""Names of the column that says which pairs are similar; `verify --out` writes the second."""

FEWEST_PEOPLE = 5
"""With fewer people, objects are held out, and not people."""

_SIMILAR = dict.fromkeys(["true", "1", "yes", "similar", "same"], True)
_SIMILAR |= dict.fromkeys(["false", "0", "-1", "no", "dissimilar", "different"], False)


def judgements_in(columns: Sequence[str]) -> str:
    """Return "triplets" or "pairs" if a table with these columns has them, else nothing."""
    if set(_TRIPLET) <= set(columns):
        return "triplets"
    pairs = {*_PAIR} <= set(columns) <= {*_PAIR, *SAME, "weight", _PERSON}
    return "pairs" if pairs and set(SAME) & set(columns) else ""


def check_vectors(
    source: str | Source,
    judgements: object,
    kind: str,
    *,
    left_out: Sequence[object] = (),
    drop: Sequence[str] | None = None,
) -> None:
    """Refuse triplets and pairs of objects that have no vectors.

    Parameters
    ----------
    source: The rows.
    kind: What they are.
    left_out, drop: Columns that are not features.
    """
    path = Path(source) if isinstance(source, str) else source
    is_table = kind_of(path) in TABLES and (isinstance(path, Frame) or path.is_file())
    columns = column_names(path) if is_table else []
    named = {*named_columns(drop, columns), *(each for each in left_out if isinstance(each, str))}
    inside = judgements_in(columns)
    if str(source) and not inside and (judgements is None or not columns or set(columns) - named):
        return
    kind = inside if judgements is None else kind
    alone = (
        " Triplets alone give coordinates: OrdinalEmbedding in Python."
        if kind == "triplets"
        else ""
    )
    if str(source) and judgements is not None and not inside:
        raise TableError(
            f"{source} has names of objects and no other column; a metric measures distances of "
            f"vectors, so that it needs features.{alone}"
        )
    file = judgements if isinstance(judgements, str | Path) else source
    raise TableError(
        f"A metric measures distances of vectors, which {file} does not have; give a table with a "
        "row of features for each object, for example: nearfar learn OBJECTS.csv --id NAME "
        f"--{kind} {file}.{alone}"
    )


def people_together(judgements: Triplets | Pairs, table: Table) -> Triplets | Pairs:
    """Keep the judgements of a person on one side of every split if there are enough people.

    Groups of rows are held out instead if they are given.
    """
    weight = judgements.weight
    number = (judgements if weight is None else judgements.take(weight > 0)).n_raters
    if table.groups is None and number >= FEWEST_PEOPLE:
        note(f"{number} people answered; no person is both learned from and tested on.")
        return judgements
    if table.groups is None and number > 1:
        note(f"{number} people answered, too few to hold out people; objects are held out instead.")
    return replace(judgements, raters=None)


def copies_together(table: Table) -> Table:
    """Keep copies of rows on one side of every split, and say so."""
    supervision = Supervision.of(
        table.supervision, len(table), groups=table.groups, numbers=table.kind == "numbers"
    )
    together, copies = keep_copies_together(table.X, supervision)
    if copies is None:
        return table
    note(f"{copies}.")
    n_copies = 0 if together.groups is None else len(copies)
    if together.listed:
        table = replace(table, supervision=together.given)
    return replace(table, groups=together.groups, n_copies=n_copies)


def read_triplets(table: pl.DataFrame, path: Source, rows: Table) -> Triplets:
    """Read triplets: columns anchor, near, far [, weight, person]."""
    index = _row_numbers(table, path, _TRIPLET, rows)
    return Triplets(index, _weights(table, path), _people(table, path))


def read_pairs(table: pl.DataFrame, path: Source, rows: Table) -> Pairs:
    """Read pairs: columns a, b, similar [, weight, person]."""
    column = next((name for name in SAME if name in table.columns), SAME[0])
    require_columns(path, table.columns, [column])
    index = _row_numbers(table, path, _PAIR, rows)
    similar = read_truths(table[column], path)
    return Pairs(index, similar, _weights(table, path), _people(table, path))


def read_truths(column: pl.Series, path: Source) -> list[bool]:
    """Read a column that says which pairs are similar."""
    words = [str(value).strip().lower() for value in column.to_list()]
    unknown = next((word for word in words if word not in _SIMILAR), None)
    if unknown is not None:
        raise TableError(
            f"{path} has {quoted(unknown)} in column {column.name}; write true or false, or 1 or 0."
        )
    return [_SIMILAR[word] for word in words]


def read_queries(table: pl.DataFrame, path: Source, rows: Table) -> tuple[Ints, Pairs | None]:
    """Read pairs that may or may not say which are similar: row numbers, and pairs if they do."""
    if not set(SAME) & set(table.columns):
        return _row_numbers(table, path, _PAIR, rows), None
    pairs = read_pairs(table, path, rows)
    return pairs.index, pairs


def _row_numbers(table: pl.DataFrame, path: Source, columns: Sequence[str], rows: Table) -> Ints:
    """Return the row numbers in columns of these names, or in the first columns."""
    named = any(name in table.columns for name in columns)
    if named:
        require_columns(path, table.columns, columns)
    elif table.width < len(columns):
        raise TableError(f"{path} needs the columns {', '.join(columns)}.")
    part = table.select(columns if named else table.columns[: len(columns)])
    if not named:
        taken = [f"{name} as {what}" for name, what in zip(part.columns, columns, strict=True)]
        note(f"took {', '.join(taken)}: {path} has no columns {', '.join(columns)}.")
    if part.null_count().sum_horizontal().sum():
        raise TableError(f"{path} has missing values in {', '.join(part.columns)}.")
    if rows.ids is not None:
        number = {name: row for row, name in enumerate(rows.ids)}
        row_lists = [
            [number.get(str(name), -1) for name in column] for column in part.iter_columns()
        ]
        index = np.array(row_lists, dtype=np.intp).reshape(part.width, len(part)).T
        if (index < 0).any():
            row, column = np.argwhere(index < 0)[0]
            wrong = quoted(part[int(row), int(column)])
            raise TableError(f"{path} refers to {wrong}, which names no row.")
        return index
    numbers = part.select(pl.all().cast(pl.Int64, strict=False))
    text = [name for name in part.columns if numbers[name].null_count()]
    if text and not named:
        raise TableError(f"{path} needs the columns {', '.join(columns)}.")
    if text:
        raise TableError(
            f"{path} has names, not row numbers, in {', '.join(text)}; "
            f"name the column of row names with {option('ids')}."
        )
    index = numbers.to_numpy()
    if index.size and not 0 <= index.min() <= index.max() < len(rows):
        raise TableError(
            f"{path} refers to rows {index.min()} to {index.max()}; "
            f"{rows.name} has rows 0 to {len(rows) - 1}."
        )
    return index.astype(np.intp)


def _people(table: pl.DataFrame, path: Source) -> list[str] | None:
    """Return who gave each judgement, if a column says so."""
    if _PERSON not in table.columns:
        return None
    people = table[_PERSON].cast(pl.String)
    if people.null_count():
        raise TableError(f"{path} has missing values in column {_PERSON}.")
    return people.to_list()


def _weights(table: pl.DataFrame, path: Source) -> Vector | None:
    if "weight" not in table.columns:
        return None
    weights = table["weight"].cast(pl.Float64, strict=False)
    if weights.null_count():
        raise TableError(f"{path} has weights that are missing or not numbers.")
    return weights.to_numpy()
