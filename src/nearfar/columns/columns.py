"""`Columns`: what the columns of a table become, learned once and used on every table after it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from sklearn.compose import ColumnTransformer

from nearfar.columns.cells import (
    CellError,
    Cells,
    column_keys,
    column_values,
    columns_of,
    is_declared_category,
    is_missing,
    is_text,
)
from nearfar.columns.guess import guess
from nearfar.columns.kind import KindTransformer
from nearfar.columns.kinds import KINDS, Category, Date, FreeText, Kind, Number, SeveralNumbers
from nearfar.columns.measured import Measured
from nearfar.columns.notation import survey
from nearfar.runtime.suggestions import did_you_mean
from nearfar.typing import Floats

# A summary names no more columns of a kind, and no more examples, so that it can be read.
_MOST_NAMES, _MOST_EXAMPLES = 8, 20
_UNNAMED = "the column without a name"
_WORDS = {
    "number": ("a number", "numbers"),
    "numbers": ("several numbers in a cell", "several numbers in a cell"),
    "boolean": ("0 or 1", "0 or 1"),
    "date": ("a date", "dates"),
    "vector": ("a vector", "vectors"),
    "category": ("a category", "categories"),
    "text": ("text", "text"),
}
_SIZES = {
    "category": ("level", "levels"),
    "numbers": ("feature", "features"),
    "vector": ("entry", "entries"),
    "text": ("axis", "axes"),
}


@dataclass(frozen=True)
class Columns:
    """What the columns of a table become.

    ========== =================================================  ================================
    column     features                                           missing values
    ========== =================================================  ================================
    number     itself                                             median, and an indicator
    numbers    one per number in a cell: 127/86                   medians, and an indicator
    boolean    0 or 1                                             most frequent, and an indicator
    category   one per level; rare levels are one                 a level of their own
    date       year, month, weekday, days since the first date    medians, and an indicator
    vector     one per entry                                      medians, and an indicator
    text       20 at most, by TF-IDF and a truncated SVD          0
    ========== =================================================  ================================

    Numbers may be written as people write them: 38%, €1,234.5, 804 cm, 12k, (3.2), <5. Ids, free
    text that is not asked for, and columns without values or with only one are left out. There is
    an indicator only if values were missing when the columns were fitted; later ones are replaced
    without it. A level that was not seen counts as a rare level; if there is none, all features of
    the column are 0.

    Parameters
    ----------
    kinds : sequence of Kind
        The columns that are used, in order.
    left_out : mapping of str to str
        The columns that are not, and why.
    impute : bool, default=True
        Whether missing values are replaced; otherwise they are an error.

    Examples
    --------
    >>> import pandas as pd
    >>> from nearfar.columns import Columns
    >>> table = pd.DataFrame({"age": [20, None, 40], "plan": ["basic", "pro", "basic"]})
    >>> columns = Columns.fit(table)
    >>> columns.feature_names
    ('age', 'age=(missing)', 'plan=basic', 'plan=(other)')
    >>> columns.apply(table)
    array([[20.,  0.,  1.,  0.],
           [30.,  1.,  0.,  1.],
           [40.,  0.,  1.,  0.]])
    """

    kinds: tuple[Kind, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    impute: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        object.__setattr__(self, "left_out", dict(self.left_out))
        if not self.kinds:
            raise ValueError("No columns are left for features.")
        if len(set(self.names)) < len(self.names):
            raise ValueError("A column is used twice.")

    @classmethod
    def fit(
        cls,
        frame: object,
        *,
        numeric: Sequence[str] = (),
        categorical: Sequence[str] = (),
        text: Sequence[str] = (),
        drop: Sequence[str] = (),
        impute: bool = True,
    ) -> Columns:
        """Find out what the columns of a table are, and learn medians and levels.

        Parameters
        ----------
        frame : pandas, polars or other DataFrame
        numeric, categorical : sequence of str
            Columns that are numbers or categories, whatever they look like.
        text : sequence of str
            Columns of free text to use.
        drop : sequence of str
            Columns to leave out.
        impute : bool, default=True
            Whether missing values are replaced; otherwise they are an error.
        """
        keys, frame = column_keys(frame), columns_of(frame)
        said = {"numeric": numeric, "categorical": categorical, "text": text}
        unknown = next(
            (n for names in (*said.values(), drop) for n in names if n not in keys), None
        )
        if unknown is not None:
            hint = did_you_mean(unknown, keys)
            raise ValueError(f"There is no column {unknown!r}; there are {', '.join(keys)}.{hint}")
        twice = Counter(name for names in said.values() for name in set(names)).most_common(1)
        if twice and twice[0][1] > 1:
            what = " or ".join(option for option, names in said.items() if twice[0][0] in names)
            raise ValueError(f"Column {twice[0][0]!r} is either {what}, not both.")
        forced: dict[str, Callable[[str, Cells], Kind]] = dict.fromkeys(text, FreeText.fit)
        declared = [
            name
            for name, key in keys.items()
            if name not in {*numeric, *text} and is_declared_category(frame, key)
        ]
        forced |= dict.fromkeys([*categorical, *declared], Category.fit)
        kinds: list[Kind] = []
        left_out = {}
        for name in [name for name in keys if name not in drop]:
            with _naming(name):
                values = column_values(frame, keys[name])
                kind: Kind | str | None = None
                if name not in numeric:
                    kind = forced.get(name, guess)(name, values)
                elif is_text(values) and not survey(values).is_number:
                    kind = SeveralNumbers.found(name, values)
                if kind is None:
                    kind = Number.fit(name, values)
                if isinstance(kind, str):
                    left_out[name] = kind
                    continue
                if not impute:
                    _refuse_missing(kind, values)
                kinds.append(kind)
        return cls(tuple(kinds), left_out, impute)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are used."""
        return tuple(kind.name for kind in self.kinds)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, in order."""
        return tuple(name for kind in self.kinds for name in kind.feature_names)

    @property
    def sources(self) -> tuple[str, ...]:
        """The column of each feature."""
        return tuple(kind.name for kind in self.kinds for _ in kind.feature_names)

    @property
    def missing(self) -> tuple[str, ...]:
        """Columns that had missing values when they were fitted."""
        ends = "=(missing)"
        return tuple(k.name for k in self.kinds if any(f.endswith(ends) for f in k.feature_names))

    def apply(self, frame: object, *, first_row: int = 0) -> Floats:
        """Return the features of a table; its columns are found by name.

        Parameters
        ----------
        frame : pandas, polars or other DataFrame
        first_row : int, default=0
            Number of the first row, for messages.

        Returns
        -------
        array of shape (n_rows, n_features)
            float64; float32 if all columns are vectors of float32.
        """
        keys, frame = column_keys(frame), columns_of(frame)
        lacking = [name for name in self.names if name not in keys]
        if lacking:
            raise ValueError(f"The table lacks columns that are needed: {', '.join(lacking)}.")
        blocks = []
        for kind in self.kinds:
            with _naming(kind.name, first_row):
                values = column_values(frame, keys[kind.name])
                if not self.impute:
                    _refuse_missing(kind, values)
                blocks.append(kind.apply(values))
        return blocks[0] if len(blocks) == 1 else np.hstack(blocks)

    def column_transformer(self) -> ColumnTransformer:
        """Return scikit-learn's transformer of a table, unfitted, for pipelines.

        It reads cells in the same way, and learns medians, levels and words from the rows that it
        is fitted to. From the same rows it gives the same features.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from nearfar.columns import Columns
        >>> table = pd.DataFrame({"age": [20, None, 40], "paid": [True, False, True]})
        >>> columns = Columns.fit(table)
        >>> same = columns.column_transformer().fit_transform(table)
        >>> np.array_equal(same, columns.apply(table))
        True
        """
        pieces = [(kind.name, KindTransformer(kind), [kind.name]) for kind in self.kinds]
        return ColumnTransformer(pieces, sparse_threshold=0.0, verbose_feature_names_out=False)

    def to_json(self) -> str:
        """Return the columns as JSON; `from_json` reads it."""
        kinds = [kind.document() for kind in self.kinds]
        document = {"impute": self.impute, "columns": kinds, "left_out": dict(self.left_out)}
        return json.dumps(document, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Columns:
        """Read columns that `to_json` wrote; raise ValueError if they are not valid."""
        try:
            document = json.loads(text)
            kinds = []
            for known in document["columns"]:
                parts = dict(known)
                if not isinstance(parts["name"], str):
                    raise TypeError(f"{parts['name']!r} is not the name of a column")
                kinds.append(KINDS[parts.pop("kind")](**parts))
            left_out = {str(name): str(why) for name, why in document["left_out"].items()}
            return cls(tuple(kinds), left_out, bool(document["impute"]))
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"its columns are not valid: {error}") from error

    @property
    def conversions(self) -> str:
        """How text is read as numbers and levels, with an example each; "" if none is."""
        numbers = [kind for kind in self.kinds if isinstance(kind, Number)]
        read = [f"{k.name} ({k.notation})" for k in numbers if k.notation.example]
        read += [f"{k.name} ({k})" for k in self.kinds if isinstance(k, SeveralNumbers)]
        parts = [f"numbers read from text: {_some(read, _MOST_EXAMPLES)}"] if read else []
        lost = [
            f"{k.notation.n_gaps} in {k.name} ({', '.join(map(repr, k.notation.gaps))})"
            for k in numbers
            if k.notation.gaps
        ]
        if lost:
            parts.append(f"cells that are not numbers count as missing: {_some(lost)}")
        joined = [
            f"{k.name} ({k.respelled[0]!r} is {k.respelled[1]!r})"
            for k in self.kinds
            if isinstance(k, Category) and k.respelled
        ]
        if joined:
            parts.append(f"levels in several spellings are one: {_some(joined)}")
        return "; ".join(parts)

    @property
    def summary(self) -> str:
        """What the columns become, without `conversions`."""
        groups: dict[str, list[Kind]] = {}
        for kind in self.kinds:
            groups.setdefault(kind.kind, []).append(kind)
        parts = []
        for name, kinds in groups.items():
            names = [
                f"{k.name} (month first)" if isinstance(k, Date) and k.month_first else k.name
                for k in kinds
            ]
            text = f"{_some(names)} as {_WORDS[name][len(kinds) != 1]}"
            if name in _SIZES:
                size = sum(len(kind.feature_names) for kind in kinds)
                text += f" ({size} {_SIZES[name][size != 1]})"
            parts.append(text)
        missing = dict.fromkeys(self.missing)
        levels = [k.name for k in groups.get(Category.kind, []) if k.name in missing]
        are_levels = set(levels)
        filled = [name for name in missing if name not in are_levels]
        if filled:
            parts.append(f"missing values in {_some(filled)} are filled in")
        if levels:
            parts.append(f"missing values in {_some(levels)} are a level of their own")
        if self.left_out:
            reasons = [f"{name or _UNNAMED} ({why})" for name, why in self.left_out.items()]
            parts.append(f"left out {_some(reasons)}")
        return "; ".join(parts)

    @property
    def summary_is_short(self) -> bool:
        """Whether `summary` does not name all columns."""
        sizes = Counter(kind.kind for kind in self.kinds)
        return max(*sizes.values(), len(self.left_out), len(self.missing)) > _MOST_NAMES

    def __str__(self) -> str:
        return "; ".join(part for part in (self.summary, self.conversions) if part)


def _some(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _refuse_missing(kind: Kind, values: Cells) -> None:
    missing = is_missing(values)
    if isinstance(kind, Measured):
        missing = np.asarray(np.isnan(kind.read(values)).any(axis=1))
    if missing.any():
        row = int(missing.argmax())
        raise CellError(row, values[row] if isinstance(values[row], str) else None, "a value")


@contextmanager
def _naming(name: str, first_row: int = 0) -> Iterator[None]:
    """Name the column in errors about its cells."""
    try:
        yield
    except CellError as error:
        moved = CellError(error.row + first_row, error.value, error.wanted)
        raise ValueError(f"Column {name}: {moved}.") from error
    except ValueError as error:
        raise ValueError(f"Column {name}: {str(error).rstrip('.')}.") from error
