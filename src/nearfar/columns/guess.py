"""What a column is: a kind, or a reason to leave it out.

Columns that identify a row say nothing about how similar two rows are, and free text needs an
embedding first. Both are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress

import numpy as np

from nearfar.columns.category import Category, fold, least_frequency
from nearfar.columns.cells import TRUTH, CellError, Cells, is_missing, is_text, is_truth
from nearfar.columns.kind import Kind
from nearfar.columns.measured import Boolean, Date, Number, Vector
from nearfar.columns.notation import survey

IDS, TEXT, MANY = "looks like ids", "free text", "too many levels"
EMPTY, CONSTANT, UNSUPPORTED = "no values", "one value", "unsupported type"

_UNNAMED = re.compile(r"|Unnamed: \d+|__index_level_\d+__|_duplicated_\d+")
_ID_NAME = re.compile(r"(?i:(^|[\W_])(id|uid|uuid|guid|idx|index|key|rowid))$|[a-z](Id|ID)$")
_LEAST_RUN, _LEAST_PART, _GAPS = 10, 40, 4
"""A running number has this many rows; a part of one has more, and one number in four is there."""
_SAMPLE = 1000
_MANY_WORDS = 4.0
"""Cells with this many words on average are free text."""
_OFTEN_FREQUENT, _MOSTLY_FREQUENT = 0.25, 0.5
"""Share of rows that frequent levels of a category have, and of a category of long texts."""


def guess(name: str, values: Cells) -> Kind | str:
    """Return the kind of a column, fitted to it, or why it is left out.

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
        return Vector.fit(name, values) if values.shape[1] else EMPTY
    missing = is_missing(values)
    if missing.all():
        return EMPTY
    if values.dtype.kind == "M":
        return Date.fit(name, values)
    if is_truth(values):
        return Boolean.fit(name, values)
    if values.dtype.kind in "fiu":
        return IDS if numbers_like_ids(name, values) else Number.fit(name, values)
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
    extent, n = different[-1] - different[0] + 1, len(values)
    # Without gaps; or so dense that other numbers would repeat.
    running = n >= _LEAST_RUN and (extent == n or (n >= _LEAST_PART and extent <= _GAPS * n))
    return bool(running or _UNNAMED.fullmatch(name) or named_like_id(name))


def named_like_id(name: str) -> bool:
    """Tell whether a column is named like one of ids.

    Examples
    --------
    >>> from nearfar.columns.guess import named_like_id
    >>> named_like_id("Individual ID"), named_like_id("width")
    (True, False)
    """
    return _ID_NAME.search(name) is not None


def _of_text(name: str, values: Cells, known: Cells) -> Kind | str:
    found = survey(values)
    if not found.is_plain:
        if {word.lower() for word in set(known)} <= TRUTH.keys():
            return Boolean.fit(name, values)
        with suppress(CellError):
            return Date.fit(name, values)
    if not found.is_number:
        return _of_words(name, values, known)
    return IDS if numbers_like_ids(name, found.numbers) else Number.surveyed(name, found)


def _of_words(name: str, values: Cells, known: Cells) -> Kind | str:
    """Return a category if levels that are not rare have enough of the rows.

    Their share is about the same in a part of the rows, while the number of levels is not.
    """
    levels = Counter(map(fold, known))
    if len(levels) == 1 and len(known) == len(values):
        return CONSTANT
    least = least_frequency(len(values))
    frequent = sum(count for count in levels.values() if count >= least) / len(known)
    is_text = np.mean([word.count(" ") + 1 for word in known]) >= _MANY_WORDS
    if frequent >= (_MOSTLY_FREQUENT if is_text else _OFTEN_FREQUENT):
        return Category.fit(name, values)
    if is_text:
        return TEXT
    return IDS if len(levels) == len(known) else MANY
