"""Columns that are numbers, or become some: numbers, true or false, dates, and lists of numbers.

Columns with two to four numbers in a cell: 127/86, 30 x 40 x 5 cm, 12.5 - 20.

Cells are split where the column's separator stands, and each part is read as a column of numbers
of its own. A unit that only the last part has is that of all parts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer

from nearfar.columns.cells import (
    GAP_WORDS,
    MISSING,
    CellError,
    Cells,
    Kind,
    dates,
    is_missing,
    is_text,
    numbers,
    truths,
)
from nearfar.columns.numbers import PLAIN, Notation, Survey, survey
from nearfar.numerics.missing import surely_finite
from nearfar.typing import Floats

_DAY = np.timedelta64(1, "D")
_PARTS = ("year", "month", "weekday", "days")
_TIME_PARTS = ("hour", "minute", "time of day, sine", "time of day, cosine")


@dataclass(frozen=True)
class Measured(Kind):
    """A column of one or more numbers per row.

    Missing numbers are replaced. If there were any in the rows that it was fitted to, one more
    feature is 1 where a number was missing.

    Attributes
    ----------
    fill: What replaces missing numbers: the median, one per feature.
    indicator: Whether there is a feature for missing values.
    """

    fill: tuple[float, ...]
    indicator: bool

    strategy: ClassVar[str] = "median"

    def __post_init__(self) -> None:
        fill = tuple(float(value) for value in self.fill)
        if not fill or not np.isfinite(fill).all():
            raise ValueError(f"column {self.name!r} has no finite values to fill in")
        object.__setattr__(self, "fill", fill)
        object.__setattr__(self, "indicator", bool(self.indicator))

    @classmethod
    def _learned(cls, M: Floats) -> tuple[tuple[float, ...], bool]:
        gaps = _gaps(M)
        if cls.strategy == "median" and (gaps is None or not gaps.all(axis=0).any()):
            # As scikit-learn's, without what it checks for every column again.
            return tuple(np.nanmedian(M, axis=0).tolist()), gaps is not None
        imputer = SimpleImputer(strategy=cls.strategy, keep_empty_features=True)
        return tuple(imputer.fit(M).statistics_.tolist()), gaps is not None

    def again(self, values: Cells) -> Self:
        """Learn what replaces missing numbers."""
        fill, indicator = self._learned(self.read(values))
        return replace(self, fill=fill, indicator=indicator)

    @property
    def _names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the numbers, and of the feature for missing values."""
        return (*self._names, f"{self.name}={MISSING}") if self.indicator else self._names

    def apply(self, values: Cells) -> Floats:
        """Return the numbers, with missing ones replaced, and which were missing."""
        M = self.read(values)
        gaps = _gaps(M)
        missing = np.zeros(len(M)) if gaps is None else gaps.any(axis=1)
        if gaps is not None:
            M = np.where(gaps, np.asarray(self.fill, M.dtype), M)
        return np.column_stack([M, missing]).astype(M.dtype) if self.indicator else M


def _gaps(M: Floats) -> NDArray[np.bool_] | None:
    """Return which numbers are missing, or None if none are; infinite ones are an error."""
    if surely_finite(M):
        return None
    infinite = np.isinf(M).any(axis=1)
    if infinite.any():
        raise CellError(int(infinite.argmax()), "inf", "a finite number")
    gaps: NDArray[np.bool_] = np.isnan(M)
    return gaps if gaps.any() else None


@dataclass(frozen=True)
class Number(Measured):
    """A number, unchanged; text is read as a number.

    Attributes
    ----------
    notation: How the numbers are written if they are text.
    """

    kind = "number"
    added = ("notation",)

    notation: Notation = PLAIN

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.notation, Notation):
            object.__setattr__(self, "notation", Notation(**self.notation))

    @classmethod
    def fit(cls, name: str, values: Cells) -> Self:
        """Learn how numbers are written, and what replaces missing ones."""
        if not is_text(values):
            return cls(name, *cls._learned(numbers(values)[:, None]))
        found = survey(values)
        # It may not look like a column of numbers; then all cells must be.
        found.notation.read(values)
        return cls.surveyed(name, found)

    @classmethod
    def surveyed(cls, name: str, found: Survey) -> Self:
        """Learn from a column of text that has been read."""
        return cls(name, *cls._learned(found.numbers[:, None]), found.notation)

    def read(self, values: Cells) -> Floats:
        """Return the number of each row; missing ones are nan."""
        found = self.notation.read(values) if is_text(values) else numbers(values)
        return found[:, None]


@dataclass(frozen=True)
class Boolean(Measured):
    """True or false, as 1 or 0; the more frequent one replaces missing values."""

    kind = "boolean"
    strategy = "most_frequent"

    @classmethod
    def fit(cls, name: str, values: Cells) -> Self:
        """Learn which is more frequent."""
        return cls(name, *cls._learned(truths(values)[:, None]))

    def read(self, values: Cells) -> Floats:
        """Return 1 or 0 for each row; missing ones are nan."""
        return truths(values)[:, None]


@dataclass(frozen=True)
class Vector(Measured):
    """A list of numbers; each is a feature."""

    kind = "vector"

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}[{entry}]" for entry in range(len(self.fill)))

    @classmethod
    def fit(cls, name: str, values: Cells) -> Self:
        """Learn what replaces missing lists."""
        if values.ndim != 2:
            raise ValueError("it has no lists of numbers of one length")
        return cls(name, *cls._learned(values))

    def read(self, values: Cells) -> Floats:
        """Return the numbers of each row; missing ones are nan."""
        if values.ndim == 1 and is_missing(values).all():
            return np.full((len(values), len(self.fill)), np.nan)
        if values.ndim != 2:
            raise ValueError("it has no lists of numbers of one length")
        if values.shape[1] != len(self.fill):
            given, needed = values.shape[1], len(self.fill)
            raise ValueError(f"it has lists of {given} numbers; {needed} are needed")
        return values


@dataclass(frozen=True)
class Date(Measured):
    """A date as year, month, weekday (Monday is 0) and days since the first date.

    Where times of day differ, hour and minute follow, and the time of day on a circle.

    Attributes
    ----------
    origin: The first date.
    month_first: Whether text has the month before the day.
    times: Whether times of day are features.
    """

    kind = "date"
    added = ("month_first", "times")

    origin: str = "1970-01-01"
    month_first: bool = False
    times: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.fill) != len(self._parts) or np.isnat(np.datetime64(self.origin)):
            raise ValueError(f"column {self.name!r} is not a valid date")

    @classmethod
    def fit(cls, name: str, values: Cells) -> Self:
        """Learn the order of days and months, the first date, and what replaces missing ones."""
        month_first = has_month_first(values)
        times = dates(values, month_first=month_first)
        first = np.nanmin(times).astype("datetime64[D]")
        known = times[~np.isnat(times)]
        differ = len(np.unique(known - known.astype("datetime64[D]"))) > 1
        learned = cls._learned(_date_parts(times, first, differ))
        return cls(name, *learned, str(first), month_first, differ)

    @property
    def _parts(self) -> tuple[str, ...]:
        return (*_PARTS, *_TIME_PARTS) if self.times else _PARTS

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(f"{self.name} ({part})" for part in self._parts)

    def read(self, values: Cells) -> Floats:
        """Return the parts of each date; of missing dates all are nan."""
        times = dates(values, month_first=self.month_first)
        return _date_parts(times, np.datetime64(self.origin), self.times)


def has_month_first(values: Cells) -> bool:
    """Tell whether text has the month before the day: 12/31/2024; raise CellError if neither."""
    for month_first in (False, True):
        try:
            dates(values, month_first=month_first)
        except CellError as error:
            wrong = error
        else:
            return month_first
    raise wrong


def _date_parts(times: NDArray[np.datetime64], origin: np.datetime64, of_day: bool) -> Floats:
    """Return year, month, weekday, days since a date, and parts of the time of day."""
    days = times.astype("datetime64[D]")
    months = times.astype("datetime64[M]").astype(np.int64)
    parts = [
        1970 + months // 12,
        1 + months % 12,
        # 1 January 1970 was a Thursday.
        (days.astype(np.int64) + 3) % 7,
        (times - origin) / _DAY,
    ]
    if of_day:
        minutes = (times.astype("datetime64[m]") - days).astype(np.int64)
        angle = 2 * np.pi * ((times - days) / _DAY)
        parts += [minutes // 60, minutes % 60, np.sin(angle), np.cos(angle)]
    out = np.column_stack(parts).astype(np.float64)
    out[np.isnat(times)] = np.nan
    return out


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
    separator: What stands between them.
    notations: How each of them is written.
    example: A cell.
    gaps: Whether other cells count as missing; otherwise they are errors.
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
        unless: Tells by its name and its numbers whether a part is not a number but an id.
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
