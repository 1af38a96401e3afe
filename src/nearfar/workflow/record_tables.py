"""Tables of records with their ids, pairs that are known, and tables of questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nearfar.matching import Records
from nearfar.runtime.notes import note
from nearfar.runtime.option_names import option
from nearfar.runtime.quoting import quoted
from nearfar.tables.errors import TableError
from nearfar.tables.formats import read_frame
from nearfar.tables.frames import Frame
from nearfar.tables.judgements import SAME, read_truths
from nearfar.tables.reader import Source, require_columns
from nearfar.tables.reading import row_names
from nearfar.typing import Array, Bools, Ints

_SIDES = ("left", "right"), ("a", "b")
ASKED = ["stratum", "weight", "probability", "guess"]
"""What a question has beside the pair, so that its answer tells how good the matcher was."""


@dataclass(frozen=True, eq=False)
class Side:
    """A table of records, and their ids; without ids, rows are named by their numbers."""

    records: Records
    ids: list[str] | None = None

    def names(self, rows: Sequence[int] | Ints) -> Sequence[object]:
        """Return ids, or row numbers."""
        return [int(row) if self.ids is None else self.ids[row] for row in rows]

    def rows(self, names: pl.Series, path: object) -> Ints:
        """Return the rows of ids."""
        known = self.ids or [str(row) for row in range(len(self.records))]
        number = {name: row for row, name in enumerate(known)}
        found = [number.get(str(name).strip(), -1) for name in names.to_list()]
        if -1 in found:
            wrong = quoted(names[found.index(-1)])
            raise TableError(
                f"{path} refers to {wrong} in column {names.name}, which names no record; name the "
                f"column of ids with {option('id')}."
            )
        return np.array(found, dtype=np.intp)


def read_sides(
    sources: list[Any], ids: str | None, files: list[tuple[Any, pl.DataFrame]]
) -> list[Side]:
    """Read the tables; a column of ids is not compared."""
    sides = []
    named = (ids or "").split(",")
    for place, given in enumerate(sources):
        source = source_of(given, _SIDES[0][place])
        frame = read_frame(source)
        column = named[min(place, len(named) - 1)].strip() or _id_column(frame, place, files)
        names = None
        if column:
            require_columns(source, frame.columns, [column])
            names, frame = row_names(frame[column], source), frame.drop(column)
        sides.append(Side(Records.of(frame, _SIDES[0][place]), names))
    return sides


def source_of(given: Any, name: str) -> Source:
    """Return a path, or a DataFrame under a name."""
    if isinstance(given, str | PathLike):
        return Path(given)
    return Frame.of(given, name)


def _id_column(
    frame: pl.DataFrame, place: int, files: list[tuple[Any, pl.DataFrame]]
) -> str | None:
    """Return the column that has all ids of the known pairs, or the first if it looks like ids."""
    wanted = {str(n).strip() for _, pairs in files for n in _ends(pairs)[place].to_list()}
    likely = [n for n in frame.columns[1:] if n.lower() == "id"]
    likely += [n for n in frame.columns[:1] if n.lower().endswith("id")]
    for name in frame.columns if files else likely:
        values = set(map(str, frame[name].to_list()))
        if len(values) == len(frame) and wanted <= values:
            note(f"took {name} as ids; it is not compared.")
            return name
    return None


def _ends(pairs: pl.DataFrame) -> list[pl.Series]:
    """Return the two columns that name records."""
    found = (names for names in _SIDES if set(names) <= set(pairs.columns))
    names = next(found, pairs.columns[:2])
    if len(names) < 2:
        raise TableError("Known pairs need the columns left and right.")
    return [pairs[name] for name in names]


@dataclass(frozen=True, eq=False)
class KnownPairs:
    """Known pairs of a file.

    Attributes
    ----------
    index : array of int of shape (n_pairs, 2)
    same : array of bool of shape (n_pairs,)
    complete : bool
        Whether they are all matches of their records.
    chosen : bool
        Whether they are answers to questions, which are candidates.
    asked : dict of str to array or None
        Of questions beside decisions: what `estimated_f1` needs.
    """

    index: Ints
    same: Bools
    complete: bool
    chosen: bool
    asked: dict[str, Array] | None

    @classmethod
    def read(cls, frame: pl.DataFrame, path: object, sides: list[Side]) -> KnownPairs:
        """Read pairs; those without an answer are left out."""
        column = next((name for name in SAME if name in frame.columns), None)
        if column is not None:
            answered = frame[column].cast(pl.String).str.strip_chars().fill_null("") != ""
            frame = frame.filter(answered)
        ends = zip((sides[0], sides[-1]), _ends(frame), strict=True)
        index = np.column_stack([side.rows(names, path) for side, names in ends])
        same = np.ones(len(frame), dtype=bool)
        if column is not None:
            same = np.array(read_truths(frame[column], path), dtype=bool)  # type: ignore[arg-type]
        asked = None
        if column is not None and set(ASKED) <= set(frame.columns):
            asked = {name: frame[name].cast(pl.Float64).to_numpy() for name in ASKED[:3]}
            asked["guess"] = np.array(read_truths(frame["guess"], path))  # type: ignore[arg-type]
        chosen = any(name.startswith(f"{_SIDES[0][0]}: ") for name in frame.columns)
        return cls(index, same, column is None, chosen, asked)


def question_table(sides: Sequence[Side], pairs: Ints, facts: dict[str, Any]) -> pl.DataFrame:
    """Return ids, a column for answers, facts, and the fields of both records."""
    columns = id_columns(sides, pairs) | {"same": [""] * len(pairs)} | facts
    for name, side, rows in zip(_SIDES[0], (sides[0], sides[-1]), pairs.T, strict=True):
        columns |= {f"{name}: {f}": c[rows].tolist() for f, c in side.records.fields.items()}
    return pl.DataFrame(columns)


def id_columns(sides: Sequence[Side], pairs: Ints) -> dict[str, Any]:
    """Return the ids of pairs, or their row numbers."""
    ends = zip(_SIDES[0], (sides[0], sides[-1]), pairs.T, strict=True)
    return {name: side.names(rows) for name, side, rows in ends}
