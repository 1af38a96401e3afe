"""Judgements from tables: triplets and pairs of rows, by number or by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nearfar.cli.source import Source, SourceError, need, read_table
from nearfar.constraints import Pairs, Triplets

_TRIPLET = ("anchor", "near", "far")
_PAIR = ("a", "b")
_TRUE, _FALSE = {"true", "1", "yes", "similar", "same"}, {
    "false", "0", "-1", "no", "dissimilar", "different",
}  # fmt: skip


def read_triplets(path: Path, data: Source) -> Triplets:
    """Read triplets: columns anchor, near, far and, if there is one, weight."""
    table = read_table(path)
    return Triplets(_rows(table, path, _TRIPLET, data), _weight(table))


def read_pairs(path: Path, data: Source) -> Pairs:
    """Read pairs with judgements: columns a, b, similar and, if there is one, weight."""
    table = read_table(path)
    need(table, path, ["similar"])
    return Pairs(_rows(table, path, _PAIR, data), _flags(table["similar"], path), _weight(table))


def read_questions(path: Path, data: Source) -> tuple[NDArray[np.intp], Pairs | None]:
    """Read pairs that may or may not have judgements: rows, and the pairs if they have."""
    table = read_table(path)
    if "similar" in table.columns:
        pairs = read_pairs(path, data)
        return pairs.index, pairs
    return _rows(table, path, _PAIR, data), None


def _rows(
    table: pl.DataFrame, path: Path, columns: Sequence[str], data: Source
) -> NDArray[np.intp]:
    """Row numbers in the columns of these names, or in the first ones."""
    named = [name for name in columns if name in table.columns]
    if named and len(named) < len(columns):
        need(table, path, columns)
    if not named and table.width < len(columns):
        raise SourceError(f"{path} needs the columns {', '.join(columns)}.")
    part = table.select(columns if named else table.columns[: len(columns)])
    if part.null_count().sum_horizontal().sum():
        raise SourceError(f"{path} has rows with nothing in {', '.join(part.columns)}.")
    if data.ids is not None:
        return _by_name(part, path, data.ids)
    words = [c for c in part.columns if not part[c].dtype.is_integer()]
    if words and not named:
        raise SourceError(f"{path} needs the columns {', '.join(columns)}.")
    if words:
        raise SourceError(
            f"{path} has names, not row numbers, in {', '.join(words)}; "
            "say which column of the rows has these names: --id NAME."
        )
    index = part.to_numpy().astype(np.int64)
    if index.size and not 0 <= index.min() <= index.max() < len(data.X):
        raise SourceError(
            f"{path} speaks of rows {index.min()} to {index.max()}; "
            f"{data.name} has rows 0 to {len(data.X) - 1}."
        )
    return index.astype(np.intp)


def _by_name(part: pl.DataFrame, path: Path, ids: list[str]) -> NDArray[np.intp]:
    number = {name: row for row, name in enumerate(ids)}
    found = [[number.get(str(name), -1) for name in column] for column in part.iter_columns()]
    index = np.array(found, dtype=np.intp).reshape(part.width, len(part)).T
    if (index < 0).any():
        row, column = np.argwhere(index < 0)[0]
        raise SourceError(f"{path} speaks of {part[int(row), int(column)]!r}; no row is named so.")
    return index


def _flags(values: pl.Series, path: Path) -> NDArray[np.bool_]:
    words = [str(value).strip().lower() for value in values.to_list()]
    strange = next((w for w in words if w not in _TRUE | _FALSE), None)
    if strange is not None:
        raise SourceError(f"{path} has {strange!r} as `similar`; write true or false, or 1 or 0.")
    return np.array([word in _TRUE for word in words], dtype=bool)


def _weight(table: pl.DataFrame) -> Any:
    return table["weight"].to_numpy() if "weight" in table.columns else None
