"""Records: a table in memory, whose fields are read as text.

What a field is (a date, a number with a unit, a code, or text) is recognised later, from text, so
that a date that one table has as text and the other one as an integer is the same date.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfar.columns.cells import (
    MISSING_WORDS,
    Cells,
    column_keys,
    column_values,
    is_frame,
    texts,
)
from nearfar.typing import Ints


@dataclass(frozen=True, eq=False)
class Records:
    """The fields of records, as text.

    Attributes
    ----------
    fields: The cells of each field; missing ones are None.
    """

    fields: dict[str, Cells]

    def __len__(self) -> int:
        return len(next(iter(self.fields.values()), ()))

    def take(self, rows: Ints) -> Records:
        """Return some of the records."""
        return Records({name: cells[rows] for name, cells in self.fields.items()})

    @classmethod
    def of(cls, table: Any, name: str) -> Records:
        """Read a table.

        Parameters
        ----------
        name: What messages call it.
        """
        if isinstance(table, Records):
            return table
        if is_frame(table):
            columns = {text: column_values(table, key) for text, key in column_keys(table).items()}
        elif isinstance(table, Mapping):
            columns = {str(key): np.fromiter(cells, object) for key, cells in table.items()}
        elif isinstance(table, Sequence) and all(isinstance(row, Mapping) for row in table):
            keys = dict.fromkeys(key for row in table for key in row)
            columns = {str(k): np.fromiter((row.get(k) for row in table), object) for k in keys}
        else:
            raise TypeError(
                f"{name} must be a DataFrame, a dict of columns or a list of dicts; got "
                f"{type(table).__name__}."
            )
        if len({len(cells) for cells in columns.values()}) > 1:
            raise ValueError(f"The columns of {name} have different lengths.")
        return cls({key: _as_text(cells) for key, cells in columns.items()})


def _as_text(cells: Cells) -> Cells:
    """Return cells as text without spaces at the ends; missing ones are None."""
    words = (None if word is None else word.strip() for word in texts(cells))
    known = [None if word is None or _is_gap(word) else word for word in words]
    return np.fromiter(known, object, len(known))


def _is_gap(word: str) -> bool:
    """Tell whether a word stands for a missing value; the last two are those of pandas."""
    return word.lower() in MISSING_WORDS or word in ("NaT", "<NA>")


def plain(text: str | None) -> str:
    """Return text in lower case, without accents and runs of spaces; "" if it is missing."""
    decomposed = unicodedata.normalize("NFKD", text or "")
    kept = (letter for letter in decomposed if not unicodedata.combining(letter))
    return " ".join("".join(kept).lower().split())
