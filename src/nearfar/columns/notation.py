"""How the numbers of a column are written: decimal mark, unit, and cells that are no numbers."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar.columns.cells import GAP_WORDS, CellError, Cells, is_missing
from nearfar.columns.number_shapes import Reading, reading_of, shapes
from nearfar.columns.units import Unit, unit_of
from nearfar.typing import Ints, Vector

# Share of cells in a column of numbers that may be something else, such as typing errors.
_MOST_UNREADABLE = 0.1
# The share may be larger if these cells are a few words without digits: on request, closed.
_MOST_WORDS, _FEW_WORDS = 0.25, 5
# Share of zero-padded cells that makes a column one of codes.
_FEW = 0.05
# A note names no more of the cells that count as missing, and no more of their letters.
_MOST_GAPS, _LONGEST_GAP = 3, 40
_PLAIN_NUMBER = re.compile(r"[+-]?(?:0+\.?0*|\.0+)(?:[eE][+-]?0+)?")
_FEWEST_DIGITS = 4
_OTHER_MARK = {".": ",", ",": "."}


@dataclass(frozen=True)
class Notation:
    """How the numbers of a column are written.

    Attributes
    ----------
    decimal : str
        The decimal mark.
    unit : str
        The unit of the numbers, which is also that of cells without one. Cells in other units of
        its dimension are converted.
    example : str
        A cell that is not a number as computers write it; "" if there is none.
    gaps : tuple of str
        The most frequent cells that are not numbers. If there are any, such cells count as
        missing; otherwise they are errors.
    n_gaps : int
        Number of those cells.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.columns.notation import Notation, survey
    >>> cells = np.array(["1.43 m", "804 cm", None], dtype=object)
    >>> survey(cells).notation.read(cells)
    array([1.43, 8.04,  nan])
    """

    decimal: str = "."
    unit: str = ""
    example: str = ""
    gaps: tuple[str, ...] = ()
    n_gaps: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "gaps", tuple(str(word) for word in self.gaps))
        object.__setattr__(self, "n_gaps", int(self.n_gaps))
        if self.decimal not in _OTHER_MARK:
            raise ValueError(f"{self.decimal!r} is not a decimal mark")
        if not (isinstance(self.unit, str) and isinstance(self.example, str)):
            raise ValueError("the unit and the example of a notation are text")

    def read(self, values: Cells) -> Vector:
        """Return cells of text as numbers; missing ones are nan.

        Raises
        ------
        CellError
            If a cell is not a number, and there were no such cells in the rows that the notation
            was found in.
        """
        out, unreadable = _read(_groups(values), len(values), self)
        if unreadable.any() and not self.gaps:
            row = int(unreadable.argmax())
            wanted = f"a number in {self.unit}" if self.unit else "a number"
            raise CellError(row, values[row], wanted)
        return out

    def __str__(self) -> str:
        if not self.example:
            return ""
        groups = _groups(np.array([self.example], dtype=object))
        value = float(_read(groups, 1, self)[0][0])
        reading = groups[0].reading
        converted = reading is not None and unit_of(reading.unit or self.unit) != unit_of(self.unit)
        # No more digits than the cell has, which may be those of a fraction.
        digits = max(_FEWEST_DIGITS, sum(letter.isdigit() for letter in self.example))
        rounded = float(f"{value:.{digits}g}")
        return f"{self.example!r} → {rounded:.9g}{f' {self.unit}' if converted else ''}"


PLAIN = Notation()
"""Numbers as computers write them."""


@dataclass(frozen=True)
class Survey:
    """What a column of text looks like if it is read as numbers.

    Attributes
    ----------
    notation : Notation
    is_number : bool
        Whether it is a column of numbers: nearly all cells are, or all but a few words.
    numbers : array of shape (n_rows,)
        The numbers; nan where there is none.
    """

    notation: Notation
    is_number: bool
    numbers: Vector = field(repr=False)

    @property
    def is_plain(self) -> bool:
        """Whether all cells are numbers as computers write them, or missing."""
        return self.is_number and self.notation == PLAIN


def survey(values: Cells) -> Survey:
    """Find out how the numbers of a column are written.

    Zero-padded codes such as 00501 are not numbers. Of the cells that are not missing, one in ten
    may be something else; one in four, if these are a few words without digits.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.columns.notation import survey
    >>> survey(np.array(["€1,234.50"] * 9 + ["on request"], dtype=object))
    Survey(notation=Notation(decimal='.', unit='€', example='€1,234.50', gaps=('on request',),
           n_gaps=1), is_number=True)
    """
    groups = _groups(values)
    found = Notation(_decimal(groups), _unit(groups))
    out, unreadable = _read(groups, len(values), found)
    other = Counter(values[unreadable].tolist())
    n_other, n_read = int(unreadable.sum()), int(np.isfinite(out).sum())
    share = n_other / max(1, n_other + n_read)
    few = len(other) <= _FEW_WORDS and not any(
        letter.isdigit() for word in other for letter in word
    )
    fits = share <= (_MOST_WORDS if few else _MOST_UNREADABLE)
    is_number = n_read > 0 and fits and not _are_codes(groups)
    gaps = tuple(word[:_LONGEST_GAP] for word, _ in other.most_common(_MOST_GAPS) if is_number)
    example = _example(groups, out, unit_of(found.unit))
    found = replace(found, example=example, gaps=gaps, n_gaps=n_other if gaps else 0)
    return Survey(found, is_number, out)


class _Group(NamedTuple):
    """The cells of one shape, how to read them, and their rows."""

    shape: str
    reading: Reading | None
    rows: Ints
    cells: list[str]


def _groups(values: Cells) -> list[_Group]:
    """Return the known cells of a column by shape."""
    rows = np.flatnonzero(~is_missing(values))
    found, number = shapes(values[rows].tolist())
    ends = np.cumsum(np.bincount(number, minlength=len(found)))
    split = np.split(rows[np.argsort(number, kind="stable")], ends[:-1])
    return [
        _Group(shape, reading_of(shape), own, values[own].tolist())
        for shape, own in zip(found, split, strict=len(rows) > 0)
    ]


def _read(
    groups: list[_Group], n_rows: int, notation: Notation
) -> tuple[Vector, NDArray[np.bool_]]:
    """Return the numbers of all rows, and which cells are neither numbers nor missing."""
    out, unreadable = np.full(n_rows, np.nan), np.zeros(n_rows, dtype=bool)
    own = unit_of(notation.unit)
    for shape, reading, rows, cells in groups:
        if reading is None:
            unreadable[rows] = shape.lower() not in GAP_WORDS
            continue
        unit = unit_of(reading.unit) if reading.unit else own
        found = reading.values(cells, notation.decimal)
        if unit.dimension != own.dimension:
            found[:] = np.nan
        elif unit != own:
            found = unit.factor * (found - unit.origin) / own.factor + own.origin
        found[np.isinf(found)] = np.nan
        out[rows], unreadable[rows] = found, np.isnan(found)
    return out, unreadable


def _decimal(groups: list[_Group]) -> str:
    """Return the decimal mark that most cells show.

    Without any it is a point, unless points stand between thousands: 1.234 beside 567.
    """
    votes = Counter({".": 0.5})
    beside: Counter[int] = Counter()
    leading: Counter[int] = Counter()
    for _, reading, _, cells in groups:
        if reading is None:
            continue
        if reading.ambiguous:
            # 0,123 is no group of thousands.
            votes[reading.group] += sum(cell[reading.digits][0] == "0" for cell in cells)
            leading[_length(reading) - 4] += len(cells) if reading.group == "." else 0
        elif reading.point:
            votes[reading.point] += len(cells)
        elif reading.group in _OTHER_MARK:
            votes[_OTHER_MARK[reading.group]] += len(cells)
        else:
            beside[_length(reading)] += len(cells)
    grouped = leading[1] + leading[2] > leading[3] and beside[3] and max(beside) == 3
    return "," if grouped and votes.total() < 1 else votes.most_common(1)[0][0]


def _length(reading: Reading) -> int:
    return int(reading.digits.stop - reading.digits.start)


def _unit(groups: list[_Group]) -> str:
    """Return the most frequent unit of the most frequent dimension.

    Words that are no known unit must stand in half of the cells to be one.
    """
    written: Counter[str] = Counter()
    for _, reading, _, cells in groups:
        if reading is not None:
            written[reading.unit] += len(cells)
    least = written.total() / 2
    dimensions: Counter[tuple[str, bool]] = Counter()
    for symbol, count in written.items():
        if symbol:
            dimensions[unit_of(symbol).dimension, unit_of(symbol).known] += count
    usual = [name for (name, known), n in dimensions.most_common() if known or n >= least]
    fitting = (s for s, _ in written.most_common() if s and unit_of(s).dimension == usual[0])
    return next(fitting) if usual else ""


def _example(groups: list[_Group], out: Vector, own: Unit) -> str:
    """Return a cell that is not a plain number, in another unit if there is one."""
    best = (False, 0, "")
    for shape, reading, rows, cells in groups:
        if reading is None or _PLAIN_NUMBER.fullmatch(shape) or not np.isfinite(out[rows]).any():
            continue
        other = bool(reading.unit) and unit_of(reading.unit) != own
        best = max(best, (other, len(cells), cells[int(np.isfinite(out[rows]).argmax())]))
    return best[-1]


def _are_codes(groups: list[_Group]) -> bool:
    """Tell whether cells are zero-padded: of one length, or often."""
    digits = padded = others = 0
    lengths = set()
    for shape, reading, _, cells in groups:
        if shape.strip("0"):
            others += 0 if reading is None else len(cells)
            continue
        digits += len(cells)
        lengths.add(len(shape))
        padded += sum(cell[0] == "0" for cell in cells) if len(shape) > 1 else 0
    often = padded >= _FEW * digits
    return padded > 0 and others <= _MOST_UNREADABLE * digits and (len(lengths) == 1 or often)
