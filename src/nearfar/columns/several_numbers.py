"""Columns with two to four numbers in a cell: 127/86, 30 x 40 x 5 cm, 12.5 - 20.

Cells are split where the column's separator stands, and each part is read as a column of numbers
of its own. A unit that only the last part has is that of all parts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from nearfar.columns.cells import GAP_WORDS, CellError, Cells, is_missing
from nearfar.columns.measured import Measured
from nearfar.columns.notation import Notation, survey
from nearfar.typing import Floats

_SEPARATORS = {
    "/": re.compile(r"\s*/\s*"),
    "x": re.compile(r"(?<=\w)\s*[xX×*]\s*(?=[\d.])"),
    "-": re.compile(r"(?<=\w)\s*[-\u2010-\u2014\u2212]\s*(?=[\d.+-])"),
    ",": re.compile(r"\s*,\s+"),
    ";": re.compile(r"\s*[;|]\s*"),
}
_MOST_PARTS, _MOST_OTHERS = 4, 0.1
_LONGEST = 64
_BRACKETS = re.compile(r"[(\[](.*)[)\]]")
_LAST_UNIT = re.compile(r"(.*\d)(\s*[^\W\d_%].*)")
_CODE = re.compile(r"[\d/\-]+")
# Whole numbers of one shape with this many digits or more are a code: 555-1234.
_CODE_DIGITS = 6


@dataclass(frozen=True)
class SeveralNumbers(Measured):
    """Several numbers in a cell; each is a feature.

    Attributes
    ----------
    separator : str
        What stands between them.
    notations : tuple of Notation
        How each of them is written.
    example : str
        A cell.
    gaps : bool
        Whether other cells count as missing; otherwise they are errors.
    """

    kind = "numbers"

    separator: str = "/"
    notations: tuple[Notation, ...] = ()
    example: str = ""
    gaps: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        notations = tuple(n if isinstance(n, Notation) else Notation(**n) for n in self.notations)
        object.__setattr__(self, "notations", notations)
        if self.separator not in _SEPARATORS or len(notations) != len(self.fill):
            raise ValueError(f"column {self.name!r} has no valid numbers")

    @classmethod
    def fit(cls, name: str, values: Cells) -> Self:
        """Learn how cells are split, how numbers are written, and what replaces missing ones."""
        found = cls.found(name, values)
        if found is None:
            raise ValueError("it does not have the same number of numbers in all cells")
        return found

    @classmethod
    def found(
        cls, name: str, values: Cells, unless: Callable[[str, Cells], bool] | None = None
    ) -> Self | None:
        """Return the column as several numbers, or None if it is something else.

        Parameters
        ----------
        name : str
        values : array of str
        unless : callable, optional
            Tells by its name and its numbers whether a part is not a number but an id.
        """
        known = values[~is_missing(values)].tolist()
        if not known or _are_codes(known):
            return None
        for separator in _SEPARATORS:
            sizes = Counter(len(_split(cell, separator)) for cell in known)
            size, _ = sizes.most_common(1)[0]
            if not 2 <= size <= _MOST_PARTS:
                continue
            parts, other = _columns(values, separator, size)
            if other.sum() > _MOST_OTHERS * len(known):
                continue
            surveys = [survey(part) for part in parts]
            ids = unless and any(unless("", found.numbers) for found in surveys)
            if ids or not all(found.is_number for found in surveys):
                continue
            M = np.column_stack([found.numbers for found in surveys])
            notations = tuple(found.notation for found in surveys)
            example = next(v for v, row in zip(values, M, strict=True) if np.isfinite(row).all())
            return cls(name, *cls._learned(M), separator, notations, example, bool(other.any()))
        return None

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(f"{self.name} ({place})" for place in range(1, len(self.fill) + 1))

    def read(self, values: Cells) -> Floats:
        """Return the numbers of each row; missing ones are nan."""
        parts, other = _columns(values, self.separator, len(self.fill))
        if other.any() and not self.gaps:
            row = int(other.argmax())
            raise CellError(row, values[row], f"{len(self.fill)} numbers")
        pairs = zip(self.notations, parts, strict=True)
        return np.column_stack([notation.read(part) for notation, part in pairs])


def _columns(values: Cells, separator: str, size: int) -> tuple[list[Cells], Cells]:
    """Return the parts of all cells as columns, and which cells have another number of parts."""
    cells = np.full((size, len(values)), None, dtype=object)
    other = np.zeros(len(values), dtype=bool)
    for row in np.flatnonzero(~is_missing(values)):
        parts = _split(str(values[row]), separator)
        if len(parts) == size:
            cells[:, row] = parts
        else:
            other[row] = str(values[row]).lower() not in GAP_WORDS
    return list(cells), other


def _split(cell: str, separator: str) -> Sequence[str]:
    """Return the parts of a cell, all with the unit of the last one if only that has one."""
    if len(cell) > _LONGEST:
        return [cell]
    within = _BRACKETS.fullmatch(cell)
    parts = _SEPARATORS[separator].split(within[1].strip() if within else cell)
    last = _LAST_UNIT.fullmatch(parts[-1])
    if last and not any(letter.isalpha() for part in parts[:-1] for letter in part):
        parts[:-1] = [part + last[2] for part in parts[:-1]]
    return parts


def _are_codes(known: Sequence[str]) -> bool:
    """Tell whether all cells are whole numbers of one shape with many digits."""
    shapes = {re.sub(r"\d", "0", cell) for cell in known[:1000]}
    shape = next(iter(shapes))
    return len(shapes) == 1 and shape.count("0") >= _CODE_DIGITS and bool(_CODE.fullmatch(shape))
