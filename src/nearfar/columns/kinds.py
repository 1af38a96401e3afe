"""Kinds of columns: how cells of each become features, as scikit-learn's transformers do it.

A kind is fitted to the cells of a column. What it learns (medians, levels) is a few numbers and
words, which JSON can hold; `transformer` returns the scikit-learn pipeline that learns the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from nearfar.columns.cells import (
    CellError,
    Cells,
    column_values,
    dates,
    is_missing,
    numbers,
    texts,
    truths,
)
from nearfar.typing import Floats

OTHER, MISSING = "(other)", "(missing)"
"""Levels that stand for rare levels, and for missing values."""
_RARE_SHARE = 0.01
_DAY, _EPOCH = np.timedelta64(1, "D"), np.datetime64("1970-01-01")
_PARTS = ("year", "month", "weekday", "days")


@dataclass(frozen=True)
class Kind(ABC):
    """A column, and what becomes of it.

    Attributes
    ----------
    name : str
        Name of the column.
    """

    name: str

    kind: ClassVar[str]
    """What JSON calls it."""

    @classmethod
    @abstractmethod
    def fit(cls, name: str, values: Cells) -> Self:
        """Learn from the cells of a column."""

    @property
    @abstractmethod
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that the column becomes."""

    @abstractmethod
    def read(self, values: Cells) -> Any:
        """Return cells as the scikit-learn transformers take them, one row each."""

    @abstractmethod
    def apply(self, values: Cells) -> Floats:
        """Return the features, of shape (n_rows, n_features)."""

    @abstractmethod
    def _encoder(self) -> Any:
        """Return the scikit-learn transformer that comes after `read`."""

    def transformer(self) -> Any:
        """Return an unfitted scikit-learn transformer of a table with this column."""
        return make_pipeline(FunctionTransformer(self._read_column), self._encoder())

    def _read_column(self, frame: Any) -> Any:
        return self.read(column_values(frame, self.name))

    def document(self) -> dict[str, Any]:
        """Return the kind for JSON."""
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class Measured(Kind):
    """A column of one or more numbers per row.

    Missing numbers are replaced. If there were any in the rows that it was fitted to, one more
    feature is 1 where a number was missing.

    Attributes
    ----------
    fill : tuple of float
        What replaces missing numbers: the median, one per feature.
    indicator : bool
        Whether there is a feature for missing values.
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
    def fit(cls, name: str, values: Cells) -> Self:
        """Learn what replaces missing numbers."""
        return cls(name, *cls._learned(cls._numbers(values)))

    @classmethod
    def _learned(cls, M: Floats) -> tuple[tuple[float, ...], bool]:
        _check_finite(M)
        imputer = SimpleImputer(strategy=cls.strategy, keep_empty_features=True)
        return tuple(imputer.fit(M).statistics_.tolist()), bool(np.isnan(M).any())

    @staticmethod
    @abstractmethod
    def _numbers(values: Cells) -> Floats:
        """Return numbers, of shape (n_rows, n_numbers); missing ones are nan."""

    def read(self, values: Cells) -> Floats:
        """Return the numbers of each row; missing ones are nan."""
        return self._numbers(values)

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
        _check_finite(M)
        gaps = np.isnan(M)
        if gaps.any():
            M = np.where(gaps, np.asarray(self.fill, M.dtype), M)
        return np.column_stack([M, gaps.any(axis=1)]).astype(M.dtype) if self.indicator else M

    def _encoder(self) -> Any:
        imputer = SimpleImputer(strategy=self.strategy, keep_empty_features=True)
        known = MissingIndicator(features="missing-only", error_on_new=False)
        return make_union(imputer, make_pipeline(FunctionTransformer(_gaps), known))


def _check_finite(M: Floats) -> None:
    infinite = np.isinf(M).any(axis=1)
    if infinite.any():
        raise CellError(int(infinite.argmax()), "inf", "a finite number")


def _gaps(M: Floats) -> Floats:
    """Return a column that is nan where a row has a missing number."""
    return np.where(np.isnan(M).any(axis=1, keepdims=True), np.nan, 0.0)


@dataclass(frozen=True)
class Number(Measured):
    """A number, unchanged."""

    kind = "number"

    @staticmethod
    def _numbers(values: Cells) -> Floats:
        return numbers(values)[:, None]


@dataclass(frozen=True)
class Boolean(Measured):
    """True or false, as 1 or 0; the more frequent one replaces missing values."""

    kind = "boolean"
    strategy = "most_frequent"

    @staticmethod
    def _numbers(values: Cells) -> Floats:
        return truths(values)[:, None]


@dataclass(frozen=True)
class Vector(Measured):
    """A list of numbers; each is a feature."""

    kind = "vector"

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}[{entry}]" for entry in range(len(self.fill)))

    @staticmethod
    def _numbers(values: Cells) -> Floats:
        if values.ndim != 2:
            raise ValueError("it has no lists of numbers of one length")
        return values

    def read(self, values: Cells) -> Floats:
        """Return the numbers of each row; missing ones are nan."""
        if values.ndim == 1 and is_missing(values).all():
            return np.full((len(values), len(self.fill)), np.nan)
        M = self._numbers(values)
        if M.shape[1] != len(self.fill):
            raise ValueError(f"it has lists of {M.shape[1]} numbers; {len(self.fill)} are needed")
        return M


@dataclass(frozen=True)
class Date(Measured):
    """A date as year, month, weekday (Monday is 0) and days since the first date.

    Attributes
    ----------
    origin : str
        The first date.
    """

    kind = "date"

    origin: str = "1970-01-01"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.fill) != len(_PARTS) or np.isnat(np.datetime64(self.origin)):
            raise ValueError(f"column {self.name!r} is not a valid date")

    @classmethod
    def fit(cls, name: str, values: Cells) -> Self:
        """Learn the first date, and what replaces missing ones."""
        first = np.nanmin(dates(values)).astype("datetime64[D]")
        M = _since(cls._numbers(values), first)
        return cls(name, *cls._learned(M), str(first))

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(f"{self.name} ({part})" for part in _PARTS)

    @staticmethod
    def _numbers(values: Cells) -> Floats:
        times = dates(values)
        days = times.astype("datetime64[D]")
        months = times.astype("datetime64[M]").astype(np.int64)
        parts = [
            1970 + months // 12,
            1 + months % 12,
            # 1 January 1970 was a Thursday.
            (days.astype(np.int64) + 3) % 7,
            (times - _EPOCH) / _DAY,
        ]
        out = np.column_stack(parts).astype(np.float64)
        out[np.isnat(times)] = np.nan
        return out

    def read(self, values: Cells) -> Floats:
        """Return year, month, weekday and days; of missing dates all are nan."""
        return _since(self._numbers(values), np.datetime64(self.origin))


def _since(parts: Floats, origin: np.datetime64) -> Floats:
    """Count the days from another date than 1 January 1970."""
    parts[:, -1] -= (origin - _EPOCH) / _DAY
    return parts


@dataclass(frozen=True)
class Category(Kind):
    """Words, one feature per level; rare levels are joined.

    Missing values are a level of their own. A level is rare if fewer than `min_frequency` rows
    have it. A level that was not seen counts as rare; if no level is, all features are 0.

    Attributes
    ----------
    levels : tuple of str
        The levels that are not rare.
    rare : bool
        Whether there is a feature for rare levels.
    min_frequency : int
        1 % of the rows, and at least 2.
    """

    kind = "category"

    levels: tuple[str, ...]
    rare: bool
    min_frequency: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(str(level) for level in self.levels))
        object.__setattr__(self, "rare", bool(self.rare))
        if not (self.levels or self.rare):
            raise ValueError(f"column {self.name!r} has no levels")

    @classmethod
    def fit(cls, name: str, values: Cells) -> Self:
        """Learn the levels."""
        least = max(2, int(np.ceil(_RARE_SHARE * len(values))))
        plan = cls(name, (), True, least)
        encoder = plan._encoder().fit(plan.read(values))
        rare = encoder.infrequent_categories_[0]
        joined = set() if rare is None else set(rare)
        levels = [level for level in encoder.categories_[0] if level not in joined]
        return cls(name, tuple(levels), bool(joined), least)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the levels."""
        levels = (*self.levels, OTHER) if self.rare else self.levels
        return tuple(f"{self.name}={level}" for level in levels)

    def read(self, values: Cells) -> Cells:
        """Return the level of each row."""
        words = texts(values).copy()
        words[is_missing(words)] = MISSING
        return words[:, None]

    def apply(self, values: Cells) -> Floats:
        """Return 1 for the level of each row, and 0 for the others."""
        place = {level: number for number, level in enumerate(self.levels)}
        number = np.array([place.get(word, len(place)) for word in self.read(values)[:, 0]])
        return np.eye(len(place) + 1)[number.astype(np.intp)][:, : len(self.feature_names)]

    def _encoder(self) -> Any:
        return OneHotEncoder(
            min_frequency=self.min_frequency,
            handle_unknown="infrequent_if_exist",
            sparse_output=False,
        )


KINDS: dict[str, type[Kind]] = {
    kind.kind: kind for kind in (Number, Boolean, Date, Vector, Category)
}
