"""Cells of a column as an array, from pandas, polars and other DataFrames.

`column_values` returns one of these; `None`, NaN and NaT are missing values:

==================================  ========================================
array                               column
==================================  ========================================
float or int                        numbers; lengths of time, in days
bool, or object of bool             true or false
datetime64                          dates and times, in UTC
float, 2-d                          lists of numbers of one length
object of str                       text, without spaces at both ends
object                              anything else
==================================  ========================================

Dates as people write them: 2024-12-31, 31.12.2024, 12/31/2024 23:59, 31 Dec 2024, 12/2024.

A `Kind` is fitted to the cells of a column. What it learns (medians, levels) is a few numbers and
words, which JSON can hold; `Kind.again` learns it again from other rows.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from typing import Any, ClassVar, Self

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from nearfar.numerics.missing import surely_finite
from nearfar.runtime.messages import quoted
from nearfar.typing import Array, Floats, Matrix, Vector

MISSING_WORDS = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "?", "-"})
"""Text that stands for a missing value, in lower case."""
GAP_WORDS = MISSING_WORDS | frozenset(
    """missing|n.a.|n.a|na.|n.d.|n.d|nd|n/d|--|---|.|..|...|…|*|<na>|nil|unknown|unk|undefined
    |not available|not applicable|not known|not measured|not reported|not recorded|not stated
    |no data|tbd|tba|#na|#value!|#div/0!|#ref!|#num!|#name?|#null!""".replace("\n    ", "").split(
        "|"
    )
)
"""Text that stands for a missing number or date; in a category it is a level."""
NO_LABEL_WORDS = GAP_WORDS - {"none", "nil", "nd", "-"}
"""Text in a column of labels that stands for no label; ``none`` and ``-`` often are classes."""
TRUTH = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "y": 1.0, "n": 0.0, "1": 1.0, "0": 0.0}
"""Text that stands for true or false, in lower case."""

_WHOLE = re.compile(r"^([+-]?\d+)\.0$")
_DAY = np.timedelta64(1, "D")

Cells = Array


def is_frame(X: object) -> bool:
    """Tell whether X is a table with named columns."""
    return nw.dependencies.is_into_dataframe(X)


def columns_of(frame: object) -> nw.DataFrame[Any]:
    """Return a DataFrame of any library with one interface; once for all columns is faster."""
    if not nw.dependencies.is_into_dataframe(frame):
        raise TypeError(f"A table with named columns is needed; got {type(frame).__name__}.")
    return nw.from_native(frame, eager_only=True)


def column_keys(frame: object) -> dict[str, Any]:
    """Return the names of the columns as text, with the keys that the table has for them."""
    with suppress(DuplicateError):
        columns = columns_of(frame).columns
        keys = {str(key): key for key in columns}
        if len(keys) == len(columns):
            return keys
    raise ValueError("The table has several columns of one name; rename all but one.")


def is_declared_category(frame: object, key: Any) -> bool:
    """Tell whether pandas declares a column a category, whatever its values."""
    # In polars, a Categorical is only a compact way to store text.
    column = columns_of(frame).get_column(key)
    return column.implementation.is_pandas_like() and column.dtype in (nw.Categorical, nw.Enum)


def column_values(frame: object, key: Any) -> Cells:
    """Return the cells of a column; the module's docstring lists the types."""
    column = columns_of(frame).get_column(key)
    # Structs of polars would become rows of a matrix, and text an array in which every cell takes
    # as many bytes as the longest.
    as_objects = column.dtype in (nw.Struct, nw.String)
    values = _objects(column.to_list()) if as_objects else column.to_numpy()
    if values.dtype.kind == "m":
        return np.asarray(values / _DAY)
    if values.dtype.kind == "f":
        if surely_finite(values):
            return values
        # Damaged files have signalling NaNs, which give warnings later.
        missing = np.isnan(values)
        return np.where(missing, values.dtype.type(np.nan), values) if missing.any() else values
    if values.dtype.kind in "iubM":
        return values
    cells = _objects(values)
    cells[column.is_null().to_numpy()] = None
    known = [value for value in cells if value is not None]
    types = {type(value) for value in known}
    if types <= {str, np.str_}:
        words = (None if text is None else str(text).strip() for text in cells)
        return _objects(None if w is None or w.lower() in MISSING_WORDS else w for w in words)
    if all(issubclass(kind, bool | np.bool_) for kind in types):
        return np.array([None if v is None else bool(v) for v in cells], dtype=object)
    if all(issubclass(kind, int | float | np.integer | np.floating | Decimal) for kind in types):
        return np.array([np.nan if v is None else float(v) for v in cells])
    if all(issubclass(kind, date | np.datetime64) for kind in types):
        return dates(cells)
    if all(issubclass(kind, list | tuple | np.ndarray) for kind in types):
        return _stacked(cells, known)
    return cells


def _objects(values: Iterable[object]) -> Cells:
    """Return a 1-d array of objects; NumPy would make lists of one length a matrix."""
    return np.fromiter(values, dtype=object)


def is_text(values: Cells) -> bool:
    """Tell whether cells are text, or all missing."""
    return values.dtype == object and all(v is None or isinstance(v, str) for v in values)


def is_truth(values: Cells) -> bool:
    """Tell whether cells are true, false or missing."""
    found = values.dtype == object and all(v is None or isinstance(v, bool) for v in values)
    return values.dtype == bool or found


def is_missing(values: Cells) -> NDArray[np.bool_]:
    """Return which cells are missing; of vectors, those with a missing entry."""
    if values.dtype == object:
        return np.array([value is None for value in values], dtype=bool)
    if values.dtype.kind == "M":
        return np.asarray(np.isnat(values))
    if values.dtype.kind != "f":
        return np.zeros(len(values), dtype=bool)
    gaps: NDArray[np.bool_] = np.isnan(values)
    return np.asarray(gaps.any(axis=1)) if gaps.ndim == 2 else gaps


def numbers(values: Cells) -> Vector:
    """Return cells that are not text as numbers; missing ones are nan."""
    if is_truth(values):
        return np.array([np.nan if value is None else float(value) for value in values])
    if values.dtype == object:
        return _converted(values, np.full(len(values), np.nan), float, "a number")
    return values.astype(np.float64)


def truths(values: Cells) -> Vector:
    """Return 1 for true, 0 for false and nan for missing; raise `CellError` for other text."""
    if not is_text(values) or is_truth(values):
        return numbers(values)
    out = np.full(len(values), np.nan)
    return _converted(values, out, lambda word: TRUTH[word.lower()], "true or false")


def dates(values: Cells, *, month_first: bool = False) -> NDArray[np.datetime64]:
    """Return cells as datetime64; missing ones are NaT. Raise `CellError` for other text."""
    if values.dtype.kind == "M":
        return values.astype("datetime64[us]")

    def convert(value: Any) -> np.datetime64:
        if isinstance(value, str):
            if value.lower() in GAP_WORDS:
                return np.datetime64("NaT", "us")
            value = parse_date(value, month_first=month_first)
        if isinstance(value, datetime) and value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return np.datetime64(value, "us")

    out = np.full(len(values), "NaT", "datetime64[us]")
    return _converted(values, out, convert, "a date")


def texts(values: Cells) -> Cells:
    """Return cells as text; missing ones are None. Whole numbers have no decimal point."""
    out = np.empty(len(values), dtype=object)
    missing = is_missing(values)
    for row, value in enumerate(values.tolist()):
        out[row] = None if missing[row] else _WHOLE.sub(r"\1", str(value))
    return out


class CellError(ValueError):
    """A cell that does not fit its column.

    Parameters
    ----------
    row: Its row, from 0.
    value: What it has.
    wanted: What it should have.
    """

    def __init__(self, row: int, value: object, wanted: str) -> None:
        place = f"in row {row} (counting from 0)"
        known = f"{quoted(value)} {place} is not {wanted}"
        super().__init__(f"the value {place} is missing" if value is None else known)
        self.row, self.value, self.wanted = row, value, wanted


def _converted(values: Cells, out: Cells, convert: Callable[[Any], Any], wanted: str) -> Cells:
    """Return `out` with the known cells converted, each different one once."""
    convert = cache(convert)
    for row in np.flatnonzero(~is_missing(values)):
        try:
            out[row] = convert(values[row])
        except (ValueError, TypeError, LookupError, AttributeError):
            raise CellError(int(row), values[row], wanted) from None
    return out


def _stacked(cells: Cells, known: list[object]) -> Cells | Matrix:
    """Return lists of numbers as rows, or the cells as they are if they are not such lists."""
    try:
        rows = [np.asarray(value) for value in known]
        kinds = {row.dtype for row in rows}
        single = kinds == {np.dtype(np.float32)}
        rows = [row.astype(np.float32 if single else np.float64, copy=False) for row in rows]
    except (ValueError, TypeError):
        return cells
    if any(row.ndim != 1 for row in rows):
        return cells
    lengths = {len(row) for row in rows}
    if len(lengths) > 1:
        usual = len(rows[0])
        place = next(n for n, v in enumerate(cells) if v is not None and len(v) != usual)
        raise CellError(place, f"a list of {len(cells[place])}", f"a list of {usual} numbers")
    out = np.full((len(cells), lengths.pop()), np.nan, rows[0].dtype)
    out[~is_missing(cells)] = rows
    return out


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = rf"(?P<name>{'|'.join(_MONTHS)})[a-z]*\.?"
_TIME = r"(?:,?[ T]+(?P<time>\d{1,2}:\d\d(?::\d\d)?)(?: ?(?P<half>[ap])\.?m\.?)?)?"
_FORMS = [
    re.compile(form + _TIME, re.IGNORECASE)
    for form in (
        r"(?P<year>\d{4})(?P<mark>[/-])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})",
        r"(?P<first>\d{1,2})(?P<mark>[/.-])(?P<second>\d{1,2})(?P=mark)(?P<year>\d{4})",
        r"(?P<first>\d{1,2})(?P<mark>[/-])(?P<second>\d{1,2})(?P=mark)(?P<year>\d\d)",
        # With points, numbers of versions look like dates: 1.12.3.
        r"(?P<first>\d\d)\.(?P<second>\d\d)\.(?P<year>\d\d)",
        rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)?[ -]*{_NAME},?[ -]*(?P<year>\d{{4}}|\d\d)",
        rf"{_NAME} *(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? +(?P<year>\d{{4}})",
        rf"{_NAME}[ -]+(?P<year>\d{{4}})",
        r"(?P<month>\d{1,2})[/.](?P<year>(?:19|20)\d\d)",
        r"(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)",
    )
]


def parse_date(text: str, *, month_first: bool = False) -> datetime:
    """Read a date; raise ValueError if it is not one.

    Parameters
    ----------
    month_first: Whether the month comes first in dates such as 12/31/2024.
    """
    with suppress(ValueError):
        return datetime.fromisoformat(text)
    match = next((match for form in _FORMS if (match := form.fullmatch(text))), None)
    if match is None:
        raise ValueError(f"{quoted(text)} is not a date")
    parts = match.groupdict()
    day, month, year = (int(parts.get(part) or 1) for part in ("day", "month", "year"))
    if name := parts.get("name"):
        month = 1 + _MONTHS.index(name.lower())
    if first := parts.get("first"):
        day, month = int(first), int(parts["second"] or 1)
        day, month = (month, day) if month_first else (day, month)
    if year < 100:
        # As POSIX has it.
        year += 1900 if year > 68 else 2000
    hour, minute, second = (int(part) for part in f"{parts['time'] or '0:0'}:0".split(":")[:3])
    if half := parts["half"]:
        hour = hour % 12 + (12 if half.lower() == "p" else 0)
    return datetime(year, month, day, hour, minute, second)


MISSING = "(missing)"
"""Stands for missing values in the names of features."""


@dataclass(frozen=True)
class Kind(ABC):
    """A column, and what becomes of it.

    Attributes
    ----------
    name: Name of the column.
    """

    name: str

    kind: ClassVar[str]
    """What JSON calls it."""
    added: ClassVar[tuple[str, ...]] = ()
    """Fields that files of older versions do not have."""

    @classmethod
    @abstractmethod
    def fit(cls, name: str, values: Cells) -> Self:
        """Learn from the cells of a column."""

    @property
    @abstractmethod
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that the column becomes."""

    @abstractmethod
    def read(self, values: Cells) -> Array:
        """Return cells as the scikit-learn transformers take them, one row each."""

    @abstractmethod
    def apply(self, values: Cells) -> Floats:
        """Return the features, of shape (n_rows, n_features)."""

    def again(self, values: Cells) -> Self:
        """Learn from other cells, which are read in the same way."""
        return type(self).fit(self.name, values)

    def document(self) -> dict[str, object]:
        """Return the kind for JSON; as older versions wrote it, if they could."""
        added = {f.name: f.default for f in fields(self) if f.name in self.added}
        kept = [f.name for f in fields(self) if added.get(f.name, self) != getattr(self, f.name)]
        values = asdict(self)
        return {"kind": self.kind, **{name: values[name] for name in kept}}
