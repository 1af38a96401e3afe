"""The kinds of columns, by the name that JSON has for them.

What a column is: a kind, or a reason to leave it out.

Columns that identify a row say nothing about how similar two rows are, and free text needs an
embedding first. Both are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from nearfar.columns.cells import TRUTH, CellError, Cells, Kind, is_missing, is_text, is_truth
from nearfar.columns.measured import Boolean, Date, Number, SeveralNumbers, Vector
from nearfar.columns.numbers import survey
from nearfar.columns.words import Category, FreeText, fold, least_frequency

KINDS: dict[str, type[Kind]] = {
    kind.kind: kind for kind in (Number, SeveralNumbers, Boolean, Date, Vector, Category, FreeText)
}


def read_kind(document: Mapping[str, Any]) -> Kind:
    """Return the kind that wrote `Kind.document`."""
    parts = dict(document)
    if not isinstance(parts["name"], str):
        raise TypeError(f"{parts['name']!r} is not the name of a column")
    return KINDS[parts.pop("kind")](**parts)


__all__ = [
    "KINDS",
    "Boolean",
    "Category",
    "Date",
    "FreeText",
    "Kind",
    "Number",
    "SeveralNumbers",
    "Vector",
    "read_kind",
]


IDS, TEXT, MANY = "looks like ids", "free text", "too many levels"
EMPTY, CONSTANT, UNSUPPORTED = "no values", "one value", "unsupported type"

_UNNAMED = re.compile(r"|Unnamed: \d+|__index_level_\d+__|_duplicated_\d+")
_ID_NAME = re.compile(
    r"(?i:(^|[\W_])(id|uid|uuid|guid|idx|index|key|rowid|no|nr|num|number)\.?|#)$"
    r"|[a-z](Id|ID|No|Nr|Num|Number)$"
)
# A running number has this many rows; a part of one has more, and one number in four is there.
_LEAST_RUN, _LEAST_PART, _GAPS = 10, 40, 4
# Share of rows with a number of their own in a column named like ids, and within a run.
_NEARLY_ALL = 0.95
# Rows that tell most columns from ids, so that the others need not be looked at.
_SAMPLE = 1000
# Cells with this many words on average are free text.
_MANY_WORDS = 4.0
# A frequent level has five rows, so that it is no id of a few rows: 30 levels in 60 rows are ids.
# In fewer than 50 rows, it has a tenth of them.
_LEAST_IN_LEVEL, _LEVEL_SHARE = 5, 0.1
# Share of rows that frequent levels of a category have, and of a category of long texts.
_OFTEN_FREQUENT, _MOSTLY_FREQUENT = 0.25, 0.5


def guess(name: str, values: Cells) -> Kind | str:
    """Return the kind of a column, fitted to it, or why it is left out."""
    if values.ndim == 2:
        return Vector.fit(name, values) if values.shape[1] else EMPTY
    missing = is_missing(values)
    if missing.all():
        return EMPTY
    is_words = is_text(values)
    if not (is_words or is_truth(values) or values.dtype.kind in "Mfiu"):
        return UNSUPPORTED
    if len(values) > 1 and (values == values[0]).all():
        return CONSTANT
    if is_words:
        return _of_text(name, values, values[~missing])
    if values.dtype.kind == "M":
        return Date.fit(name, values)
    if is_truth(values):
        return Boolean.fit(name, values)
    return IDS if numbers_like_ids(name, values) else Number.fit(name, values)


def numbers_like_ids(name: str, values: Cells) -> bool:
    """Tell whether numbers look like ids: whole, all different, and running or named so.

    Of a column that is named like ids, some numbers may be missing or repeated. Of a running
    number, some may be far from the others.
    """
    named = bool(_UNNAMED.fullmatch(name)) or named_like_id(name)
    # Most columns are told from ids by their first values.
    for some in (values[:_LEAST_RUN], values[:_SAMPLE], values):
        known = some[np.isfinite(some)]
        different = np.unique(known)
        lacking = len(some) - len(different)
        allowed = int((1 - _NEARLY_ALL) * len(values)) if named else 0
        if lacking > allowed or len(different) < 2 or (known % 1 != 0).any():
            return False
    if named or len(different) < _LEAST_RUN:
        return named
    # Running numbers have no gaps, or are so dense that numbers of another kind would repeat.
    n = len(different)
    if n < _LEAST_PART:
        return bool(different[-1] - different[0] + 1 == n)
    most = int(np.ceil(_NEARLY_ALL * n))
    extents = different[most - 1 :] - different[: n - most + 1] + 1
    return bool(extents.min() <= _GAPS * most)


def named_like_id(name: str) -> bool:
    """Tell whether a column is named like one of ids."""
    return _ID_NAME.search(name) is not None


def _of_text(name: str, values: Cells, known: Cells) -> Kind | str:
    found = survey(values)
    if not found.is_plain:
        if {word.lower() for word in set(known)} <= TRUTH.keys():
            return Boolean.fit(name, values)
        with suppress(CellError):
            return Date.fit(name, values)
    if found.is_number:
        ids = numbers_like_ids(name, found.numbers)
        return IDS if ids else Number.surveyed(name, found)
    levels = Counter(map(fold, known))
    if len(levels) == 1 and len(known) == len(values):
        return CONSTANT
    # A category has frequent levels in enough of the rows. Their share is about the same in a part
    # of the rows, while the number of levels is not.
    few = min(_LEAST_IN_LEVEL, int(np.ceil(_LEVEL_SHARE * len(known))))
    least = max(few, least_frequency(len(values)))
    frequent = sum(count for count in levels.values() if count >= least) / len(known)
    is_text = np.mean([word.count(" ") + 1 for word in known]) >= _MANY_WORDS
    if frequent >= (_MOSTLY_FREQUENT if is_text else _OFTEN_FREQUENT):
        return Category.fit(name, values)
    several = SeveralNumbers.found(name, values, numbers_like_ids)
    if several is not None:
        return several
    if is_text:
        return TEXT
    return IDS if len(levels) == len(known) else MANY
