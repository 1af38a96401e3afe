"""What each column of a table became, with an example."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearfar.columns.cells import Cells, column_keys, column_values, is_missing, is_text
from nearfar.columns.columns import Columns
from nearfar.columns.kinds import Category, Kind, Number, SeveralNumbers
from nearfar.columns.measured import Boolean, Date, Measured
from nearfar.runtime.quoting import counted, plain

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
    columns : Columns
    frame : pandas, polars or other DataFrame, optional
        Some rows of the table. Without it there are examples only of numbers and
        levels that are written in several ways.

    Examples
    --------
    >>> import pandas as pd
    >>> from nearfar.columns import Columns
    >>> from nearfar.columns.examples import column_examples
    >>> table = pd.DataFrame({"size": ["1 m", "2 m", "804 cm"], "plan": ["a", "a", "b"]})
    >>> for example in column_examples(Columns().fit(table), table):
    ...     print(*example, sep=" | ")
    size | number in m | '804 cm' → 8.04 m
    plan | category, 2 levels | 'a' → plan=a
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
