"""What a column is: a kind, or a reason to leave it out.

Columns that identify a row say nothing about how similar two rows are, and free text needs an
embedding first. Both are left out.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from nearfar.columns.cells import (
    TRUTH,
    CellError,
    Cells,
    dates,
    is_missing,
    is_text,
    is_truth,
    numbers,
)
from nearfar.columns.kinds import Boolean, Category, Date, Kind, Number, Vector

IDS, TEXT, MANY = "looks like ids", "free text", "too many levels"
EMPTY, CONSTANT, UNSUPPORTED = "no values", "one value", "unsupported type"

_UNNAMED = re.compile(r"|Unnamed: \d+|__index_level_\d+__|_duplicated_\d+")
_ID_NAME = re.compile(r"(?i:(^|[\W_])(id|uid|uuid|guid|idx|index|key|rowid))$|[a-z](Id|ID)$")
_LEAST_RUN = 10
"""Fewer whole numbers in a row are not called a running number."""
_SAMPLE = 1000
_MANY_WORDS = 4.0
"""Cells with this many words on average are free text."""
_FEW_LEVELS = 20
_MOSTLY = 0.9


def guess(name: str, values: Cells) -> type[Kind] | str:
    """Return the kind of a column, or why it is left out.

    Raises
    ------
    CellError
        If nearly all cells are numbers, and one is not.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.columns.guess import guess
    >>> guess("size", np.array(["S", "M", "M", "S", None], dtype=object)).kind
    'category'
    >>> guess("customer_id", np.array([17, 4, 12]))
    'looks like ids'
    """
    if values.ndim == 2:
        return Vector if values.shape[1] else EMPTY
    missing = is_missing(values)
    if missing.all():
        return EMPTY
    if values.dtype.kind == "M":
        return Date
    if is_truth(values):
        return Boolean
    if values.dtype.kind in "fiu":
        return IDS if numbers_like_ids(name, values) else Number
    if not is_text(values):
        return UNSUPPORTED
    return _of_text(name, values, values[~missing])


def numbers_like_ids(name: str, values: Cells) -> bool:
    """Tell whether numbers look like ids: whole, all different, and named so or running.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.columns.guess import numbers_like_ids
    >>> numbers_like_ids("row", np.arange(100)), numbers_like_ids("pay", np.arange(100) ** 2)
    (True, False)
    """
    # Most columns are told from ids by their first values.
    for some in (values[:_LEAST_RUN], values[:_SAMPLE], values):
        if not np.isfinite(some).all() or (some % 1 != 0).any():
            return False
        different = np.unique(some)
        if len(different) < max(2, len(some)):
            return False
    running = len(values) >= _LEAST_RUN and different[-1] - different[0] == len(values) - 1
    named = _UNNAMED.fullmatch(name) or _ID_NAME.search(name)
    return bool(running or named)


def _of_text(name: str, values: Cells, known: Cells) -> type[Kind] | str:
    wrong = _first_wrong(numbers, known)
    if wrong is None:
        return IDS if numbers_like_ids(name, numbers(values)) else Number
    levels = set(known)
    if {word.lower() for word in levels} <= TRUTH.keys():
        return Boolean
    if _first_wrong(dates, known) is None:
        return Date
    if len(levels) > _FEW_LEVELS and _share_of_numbers(known) >= _MOSTLY:
        raise _first_wrong(numbers, values) or wrong
    words = np.mean([word.count(" ") + 1 for word in known])
    if len(levels) == len(known):
        return TEXT if words >= _MANY_WORDS else IDS
    if words >= _MANY_WORDS:
        return TEXT
    if len(levels) > max(_FEW_LEVELS, len(known) / 2):
        return MANY
    return CONSTANT if len(levels) == 1 and len(known) == len(values) else Category


def _first_wrong(read: Any, values: Cells) -> CellError | None:
    try:
        read(values)
    except CellError as error:
        return error
    return None


def _share_of_numbers(known: Cells) -> float:
    def is_number(word: str) -> bool:
        try:
            float(word)
        except ValueError:
            return False
        return True

    return float(np.mean([is_number(word) for word in known]))
