"""`Columns`: what the columns of a table become, learned once and used on every table after it.

What each column of a table became, with an example.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

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
from nearfar.columns.guess import Category, FreeText, Kind, Number, SeveralNumbers, guess, read_kind
from nearfar.columns.measured import Boolean, Date, Measured
from nearfar.columns.numbers import survey
from nearfar.runtime.messages import counted, did_you_mean, plain
from nearfar.typing import Array, Floats


class Columns(TransformerMixin, BaseEstimator):
    """Turn the columns of a DataFrame into numbers.

    ========== =================================================  ================================
    column     features                                           missing values
    ========== =================================================  ================================
    number     itself                                             median, and an indicator
    numbers    one per number in a cell: 127/86                   medians, and an indicator
    boolean    0 or 1                                             most frequent, and an indicator
    category   one per level; rare levels are one                 a level of their own
    date       year, month, weekday, days since the first date,   medians, and an indicator
               and hour and minute where times of day differ
    vector     one per entry                                      medians, and an indicator
    text       20 at most, by TF-IDF and a truncated SVD          0
    ========== =================================================  ================================

    Numbers may be written as people write them: 38%, €1,234.5, 804 cm, 12k, (3.2), <5. Ids, free
    text that is not asked for, and columns without values or with only one are left out. There is
    an indicator only if values were missing when the columns were fitted; later ones are replaced
    without it. A level that was not seen counts as a rare level; if there is none, all features of
    the column are 0.

    Columns are found by name. Tables may have them in another order, and other columns, which are
    ignored, as in scikit-learn's `ColumnTransformer`.

    Parameters
    ----------
    numeric, categorical : sequence of str, default=()
        Columns that are numbers or categories, whatever they look like.
    text : sequence of str, default=()
        Columns of free text to use.
    drop : sequence of str, default=()
        Columns to leave out.
    impute : bool, default=True
        Whether missing values are replaced; otherwise they are an error.
    kinds : sequence of Kind, optional
        The `kinds_` of `Columns` that were fitted to a larger table. `fit` then takes the same
        columns and reads cells in the same way (units, the order of day and month), and learns only
        medians, levels and words.

    Attributes
    ----------
    kinds_ : tuple of Kind
        The columns that are used, in order, with what was learned of them.
    left_out_ : dict of str to str
        The columns that are not, and why.
    feature_names_in_ : array of str of shape (`n_features_in_`,)
        All columns of the table.
    n_features_in_ : int
        Number of columns of the table.

    Examples
    --------
    >>> import pandas as pd
    >>> from nearfar import Columns
    >>> table = pd.DataFrame({"age": [20, None, 40], "plan": ["basic", "pro", "basic"]})
    >>> columns = Columns().fit(table)
    >>> columns.get_feature_names_out().tolist()
    ['age', 'age=(missing)', 'plan=basic', 'plan=(other)']
    >>> columns.transform(table)
    array([[20.,  0.,  1.,  0.],
           [30.,  1.,  0.,  1.],
           [40.,  0.,  1.,  0.]])
    """

    def __init__(
        self,
        *,
        numeric: Sequence[str] = (),
        categorical: Sequence[str] = (),
        text: Sequence[str] = (),
        drop: Sequence[str] = (),
        impute: bool = True,
        kinds: Sequence[Kind] | None = None,
    ) -> None:
        self.numeric = numeric
        self.categorical = categorical
        self.text = text
        self.drop = drop
        self.impute = impute
        self.kinds = kinds

    @classmethod
    def of(
        cls, kinds: Sequence[Kind], left_out: Mapping[str, str] | None = None, impute: bool = True
    ) -> Self:
        """Return fitted columns of known kinds.

        Parameters
        ----------
        kinds : sequence of Kind
            The columns that are used, in order.
        left_out : mapping of str to str, optional
            The columns that are not, and why.
        impute : bool, default=True
            Whether missing values are replaced; otherwise they are an error.
        """
        left_out = left_out or {}
        names = [*(kind.name for kind in kinds), *left_out]
        return cls(impute=impute)._settled(kinds, left_out, names)

    def fit(self, X: object, y: object = None) -> Self:
        """Find out what the columns of a table are, and learn medians, levels and words.

        Parameters
        ----------
        X : pandas, polars or other DataFrame
        y : object, optional
            Not used.

        Returns
        -------
        self
        """
        keys, frame = column_keys(X), columns_of(X)
        if self.kinds is not None:
            _refuse_lacking([kind.name for kind in self.kinds], keys)
            again = []
            for known in self.kinds:
                with _naming(known.name):
                    values = column_values(frame, keys[known.name])
                    if not self.impute:
                        _refuse_missing(known, values)
                    again.append(known.again(values))
            return self._settled(again, {}, keys)
        said = {"numeric": self.numeric, "categorical": self.categorical, "text": self.text}
        unknown = next(
            (n for names in (*said.values(), self.drop) for n in names if n not in keys), None
        )
        if unknown is not None:
            hint = did_you_mean(unknown, keys)
            raise ValueError(f"There is no column {unknown!r}; there are {', '.join(keys)}.{hint}")
        twice = Counter(name for names in said.values() for name in set(names)).most_common(1)
        if twice and twice[0][1] > 1:
            what = " or ".join(option for option, names in said.items() if twice[0][0] in names)
            raise ValueError(f"Column {twice[0][0]!r} is either {what}, not both.")
        forced: dict[str, Callable[[str, Cells], Kind]] = dict.fromkeys(self.text, FreeText.fit)
        declared = [
            name
            for name, key in keys.items()
            if name not in {*self.numeric, *self.text} and is_declared_category(frame, key)
        ]
        forced |= dict.fromkeys([*self.categorical, *declared], Category.fit)
        kinds: list[Kind] = []
        left_out = {}
        for name in [name for name in keys if name not in self.drop]:
            with _naming(name):
                values = column_values(frame, keys[name])
                kind: Kind | str | None = None
                if name not in self.numeric:
                    kind = forced.get(name, guess)(name, values)
                elif is_text(values) and not survey(values).is_number:
                    kind = SeveralNumbers.found(name, values)
                if kind is None:
                    kind = Number.fit(name, values)
                if isinstance(kind, str):
                    left_out[name] = kind
                    continue
                if not self.impute:
                    _refuse_missing(kind, values)
                kinds.append(kind)
        return self._settled(kinds, left_out, keys)

    def _settled(
        self, kinds: Sequence[Kind], left_out: Mapping[str, str], names: Iterable[str]
    ) -> Self:
        """Set the fitted attributes; `names` are those of all columns."""
        if not kinds:
            raise ValueError("No columns are left for features.")
        if len({kind.name for kind in kinds}) < len(kinds):
            raise ValueError("A column is used twice.")
        self.kinds_, self.left_out_ = tuple(kinds), dict(left_out)
        self.feature_names_in_ = np.array(list(names), dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are used."""
        return tuple(kind.name for kind in self.kinds_)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, in order."""
        return tuple(name for kind in self.kinds_ for name in kind.feature_names)

    @property
    def sources(self) -> tuple[str, ...]:
        """The column of each feature."""
        return tuple(kind.name for kind in self.kinds_ for _ in kind.feature_names)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array:
        """Return the names of the features.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns of the table, which are known.
        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        return np.array(self.feature_names, dtype=object)

    def transform(self, X: object) -> Floats:
        """Return the features of a table; its columns are found by name.

        Parameters
        ----------
        X : pandas, polars or other DataFrame

        Returns
        -------
        array of shape (n_rows, n_features)
            float64; float32 if all columns are vectors of float32. A DataFrame after
            `set_output(transform="pandas")` or `"polars"`.
        """
        return self.apply(X)

    def apply(self, frame: object, *, first_row: int = 0) -> Floats:
        """Return the features of a table as an array, whatever `set_output` says.

        Parameters
        ----------
        frame : pandas, polars or other DataFrame
        first_row : int, default=0
            Number of the first row, for messages.
        """
        check_is_fitted(self)
        keys, frame = column_keys(frame), columns_of(frame)
        _refuse_lacking(self.names, keys)
        blocks = []
        for kind in self.kinds_:
            with _naming(kind.name, first_row):
                values = column_values(frame, keys[kind.name])
                if not self.impute:
                    _refuse_missing(kind, values)
                blocks.append(kind.apply(values))
        return blocks[0] if len(blocks) == 1 else np.hstack(blocks)

    def to_json(self) -> str:
        """Return the fitted columns as JSON; `from_json` reads it."""
        kinds = [kind.document() for kind in self.kinds_]
        document = {"impute": self.impute, "columns": kinds, "left_out": self.left_out_}
        return json.dumps(document, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read columns that `to_json` wrote; raise ValueError if they are not valid."""
        try:
            document = json.loads(text)
            left_out = {str(name): str(why) for name, why in document["left_out"].items()}
            kinds = [read_kind(known) for known in document["columns"]]
            return cls.of(kinds, left_out, bool(document["impute"]))
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"its columns are not valid: {error}") from error

    def __getstate__(self) -> dict[str, Any]:
        state = {**super().__getstate__()}
        for name in ("kinds", "kinds_"):
            if state.get(name) is not None:
                # As text, files need not know the types of kinds.
                state[name] = json.dumps([kind.document() for kind in state[name]])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        known = {name: state[name] for name in ("kinds", "kinds_") if state.get(name) is not None}
        read = {name: tuple(map(read_kind, json.loads(text))) for name, text in known.items()}
        super().__setstate__({**state, **read})

    def __eq__(self, other: object) -> bool:
        if not (isinstance(other, Columns) and "kinds_" in vars(self) and "kinds_" in vars(other)):
            return self is other
        return (self.kinds_, self.left_out_, self.impute) == (
            other.kinds_,
            other.left_out_,
            other.impute,
        )

    __hash__ = None  # type: ignore[assignment]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        return tags


def _refuse_lacking(names: Sequence[str], keys: Mapping[str, Any]) -> None:
    lacking = [name for name in names if name not in keys]
    if lacking:
        raise ValueError(f"The table lacks columns that are needed: {', '.join(lacking)}.")


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


# Longer cells are cut, so that a table of examples stays narrow.
_LONGEST = 40


class ColumnExample(NamedTuple):
    """A column, what it is taken as, and an example of a cell and what it becomes."""

    column: str
    taken_as: str
    example: str


def column_examples(columns: Columns, frame: object = None) -> list[ColumnExample]:
    """Return what each column became, with an example from a table.

    Parameters
    ----------
    frame: Some rows of the table. Without it there are examples only of numbers and levels
        that are written in several ways.
    """
    keys = {} if frame is None else column_keys(frame)
    examples = []
    for kind in columns.kinds_:
        values = column_values(frame, keys[kind.name]) if kind.name in keys else np.empty(0, object)
        text = {"boolean": "0 or 1"}.get(kind.kind, kind.kind)
        n_features = len(kind.feature_names)
        if isinstance(kind, Number) and kind.notation.unit:
            text += f" in {kind.notation.unit}"
        if isinstance(kind, Date) and kind.month_first:
            text += ", month first"
        if isinstance(kind, Category):
            text += f", {n_features} level{'' if n_features == 1 else 's'}"
        elif isinstance(kind, SeveralNumbers):
            text = f"{len(kind.fill)} numbers in a cell"
        elif not isinstance(kind, Number | Date | Boolean):
            text += f", {n_features} numbers"
        if isinstance(kind, Number) and kind.notation.gaps:
            gaps = ", ".join(map(repr, kind.notation.gaps))
            text += f"; {counted(kind.notation.n_gaps, 'cell')} unreadable ({gaps})"
        if isinstance(kind, Measured) and kind.indicator:
            fill = f" (as {plain(kind.fill[0])})" if len(kind.fill) == 1 else ""
            text += f"; missing values filled in{fill}"
        examples.append(ColumnExample(kind.name, text, _example(kind, values)))
    left_out = columns.left_out_.items()
    return examples + [ColumnExample(name, f"left out: {why}", "") for name, why in left_out]


def _example(kind: Kind, values: Cells) -> str:
    """Return a cell and what it becomes; "" if there is none, or if it becomes many numbers."""
    if not isinstance(kind, Number | SeveralNumbers | Date | Category | Boolean):
        return ""
    if isinstance(kind, SeveralNumbers):
        values = np.array([kind.example], dtype=object)
    if isinstance(kind, Category) and kind.respelled:
        values = np.array(kind.respelled, dtype=object)
    if isinstance(kind, Number) and kind.notation.example and is_text(values):
        return str(kind.notation)
    known = values[~is_missing(values)][:1]
    if len(known) == 0:
        return ""
    if known.dtype.kind == "M":
        cell = str(known[0].astype("datetime64[s]")).removesuffix("T00:00:00")
    elif known.dtype.kind == "f":
        cell = f"{known[0]:.6g}"
    else:
        cell = repr(known[0]) if is_text(known) else str(known[0])
        cell = cell if len(cell) <= _LONGEST else f"{cell[:_LONGEST]}…"
    numbers = kind.apply(known)[0]
    if isinstance(kind, Category):
        which = [name for name, value in zip(kind.feature_names, numbers, strict=True) if value]
        return f"{cell} → {which[0] if which else 'no level'}"
    if isinstance(kind, Date):
        parts = [name.removeprefix(f"{kind.name} ").strip("()") for name in kind.feature_names[:4]]
        return f"{cell} → " + ", ".join(
            f"{part} {value:.6g}" for part, value in zip(parts, numbers, strict=False)
        )
    if isinstance(kind, SeveralNumbers):
        return f"{cell} → " + ", ".join(f"{value:.6g}" for value in numbers[: len(kind.fill)])
    return f"{cell} → {numbers[0]:.6g}"
