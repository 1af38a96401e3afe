"""Labels of rows: which rows have one, and what a column of them is.

Every command that reads labels asks `has_label`.
"""

from __future__ import annotations

import polars as pl

from nearfar.columns.cells import NO_LABEL_WORDS
from nearfar.frames.frames import NotClassesError, TableError
from nearfar.frames.reader import Source
from nearfar.runtime.messages import counted, note, quoted
from nearfar.supervision.supervision import are_numbers
from nearfar.typing import Array

# A note names no more labels, so that it stays one line.
_WORDS_SHOWN = 5


def has_label(labels: pl.Series) -> pl.Series:
    """Return which rows have a label."""
    labelled = labels.is_not_null()
    if labels.dtype.is_float():
        return labelled & labels.is_not_nan().fill_null(value=False)
    if labels.dtype == pl.String:
        words = labels.str.strip_chars().str.to_lowercase()
        return labelled & ~words.is_in(sorted(NO_LABEL_WORDS)).fill_null(value=True)
    return labelled


def rows_with_label(path: Source, labels: pl.Series) -> pl.Series:
    """Return which rows have a label, and say how many do not."""
    labelled = has_label(labels)
    if len(labelled) and not labelled.any():
        raise TableError(f"No row of {path} has a label in column {labels.name}.")
    if not labelled.all():
        missing_words = (
            labels.filter(~labelled).drop_nulls().cast(pl.String).str.strip_chars().unique().sort()
        )
        blank = [repr(word) for word in missing_words if word][:_WORDS_SHOWN]
        also = f" (such as {', '.join(blank)})" if blank else ""
        rows = counted(len(labelled) - int(labelled.sum()), "row")
        note(f"left out {rows} without a label in column {labels.name}{also}.")
    return labelled


def read_labels(labels: pl.Series, path: Source, *, numeric: bool | None) -> Array:
    """Return classes or numbers (floats), or raise TableError if some are missing.

    By default, columns that `are_numbers` as floats are numbers.
    """
    n_missing = len(labels) - int(has_label(labels).sum())
    if n_missing:
        have = "has" if n_missing == 1 else "have"
        raise TableError(
            f"{counted(n_missing, 'row')} of {path} {have} no label in column {labels.name}. "
            "Fill it in, or leave those rows out."
        )
    if numeric:
        numbers = labels.cast(pl.Float64, strict=False)
        usable = numbers.is_finite().fill_null(value=False)
        if not usable.all():
            raise TableError(
                f"Column {labels.name} has {quoted(labels.filter(~usable)[0])}; the method learns "
                "from finite numbers."
            )
        return numbers.to_numpy()
    if labels.dtype == pl.Binary or labels.dtype.is_nested():
        raise TableError(
            f"Column {labels.name} has {labels.dtype}; labels must be text, numbers or booleans."
        )
    if labels.dtype == pl.String:
        labels = labels.str.strip_chars().str.replace_all(r"\s+", " ")
        _note_capitals(labels)
        for number in (pl.Int64, pl.Float64):
            converted = labels.cast(number, strict=False)
            if not converted.null_count():
                labels = converted
                break
    if numeric is None and labels.dtype.is_numeric():
        floats = labels.cast(pl.Float64).to_numpy()
        if are_numbers(floats):
            return floats
    if labels.dtype.is_float():
        if not bool(((labels % 1) == 0).all()):
            raise NotClassesError(
                f"The labels in column {labels.name} are decimal numbers; classes are needed, or a "
                "method that learns from numbers, such as mlkr."
            )
        whole = labels.cast(pl.Int64, strict=False)
        # Numbers with more digits than an integer holds are names.
        labels = labels.cast(pl.String) if whole.null_count() else whole
    return labels.to_numpy()


def labels_or_nothing(labels: pl.Series, path: Source) -> Array:
    """Return classes, or text if some are missing or if they are decimal numbers.

    Missing labels are empty text.
    """
    labelled = has_label(labels)
    try:
        if labelled.all():
            return read_labels(labels, path, numeric=False)
    except NotClassesError:
        pass
    return words(labels).set(~labelled, "").to_numpy()


def words(column: pl.Series) -> pl.Series:
    """Return cells as text; missing ones are empty."""
    return column.cast(pl.String).fill_null("")


def _note_capitals(labels: pl.Series) -> None:
    """Say which classes differ in capitals alone; single letters may mean it."""
    names = labels.unique().sort()
    names = names.filter(names.str.len_chars() > 1)
    small = names.str.to_lowercase()
    alike = names.filter(small.is_duplicated()).to_list()
    if alike:
        more = f" and {len(alike) - _WORDS_SHOWN} more" if len(alike) > _WORDS_SHOWN else ""
        shown = ", ".join(quoted(name) for name in alike[:_WORDS_SHOWN])
        note(
            f"classes in column {labels.name} differ in capitals alone: {shown}{more}. They count "
            "as different classes.",
            warning=True,
        )
