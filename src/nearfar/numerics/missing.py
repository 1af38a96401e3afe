"""Values that cannot be used: masked or sparse ones, labels that are not there, large numbers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing, check_consistent_length

from nearfar.typing import Array, Floats, Ints

UNLABELLED = -1
"""What marks unlabelled rows in scikit-learn."""

# How NumPy says that text, dates and other objects are not numbers.
_NOT_NUMBERS = ("could not convert string", "could not be promoted", "float() argument must be")

LARGEST_VALUE = 1e145
"""The largest value of X whose squares, and sums of them, do not overflow."""


def refuse_masked(values: object, name: str) -> None:
    """Raise ValueError for a masked array with masked entries: NumPy would drop the mask."""
    number = int(np.sum(values.mask)) if isinstance(values, np.ma.MaskedArray) else 0
    if number:
        raise ValueError(
            f"{name} has masked entries ({number}); fill them in (`{name}.filled`), or leave out "
            "their rows."
        )


@contextmanager
def naming_remedies() -> Iterator[None]:
    """Say in scikit-learn's errors about text, gaps and sparse matrices what helps with nearfar."""
    try:
        yield
    except (ValueError, TypeError) as error:
        message = str(error)
        if any(part in message for part in _NOT_NUMBERS):
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(
                f"X has columns that are not numbers ({message.partition('. ')[0]}). Encode them, "
                "for example with nearfar.Columns."
            ) from error
        if message.startswith("Sparse data was passed"):
            name = message.partition(" for ")[2].partition(",")[0]
            raise sparse_error(name or "X") from error
        if " contains NaN." in message:
            raise ValueError(
                f"{message.partition('.')[0]}. Fill in missing values, or leave out their rows: "
                "for a DataFrame, nearfar.Columns does it; for an array, "
                "sklearn.impute.SimpleImputer."
            ) from error
        raise


def sparse_error(name: str) -> TypeError:
    """Return the error for a sparse matrix."""
    return TypeError(
        f"{name} is sparse and must be dense: reduce it, as in make_pipeline(TruncatedSVD(256), "
        f"...), or use {name}.toarray() if it is small; OneHotEncoder has sparse_output=False."
    )


def surely_finite(values: Array) -> bool:
    """Tell whether numbers are finite, from their sum; False if some are not, or if it overflows.

    An array of booleans takes a quarter of the memory of float32.
    """
    with np.errstate(all="ignore"):
        return bool(np.isfinite(values.sum(dtype=np.float64)))


def refuse_missing(values: object, name: str) -> None:
    """Raise ValueError if a label or group is missing: masked, NaN, NaT, None or NA."""
    refuse_masked(values, name)
    array = np.asarray(values)
    lacks = np.zeros(len(np.atleast_1d(array)), dtype=np.bool_)
    if array.dtype.kind in "mM":
        lacks = np.isnat(array)
    elif array.dtype.kind == "f":
        lacks = np.isnan(array)
    elif array.dtype.kind == "O" and array.ndim == 1:
        lacks = np.array([_is_missing(value) for value in array], dtype=np.bool_)
        if len({isinstance(value, str) for value in array[~lacks]}) > 1:
            raise ValueError(f"{name} has text and other values; make all of them text.")
    missing = np.flatnonzero(lacks)
    if len(missing) == 1:
        raise ValueError(f"{name}: no value in row {missing[0]}; fill it in, or leave the row out.")
    if len(missing):
        raise ValueError(
            f"{name}: no value in {len(missing)} rows, the first of them {missing[0]}; fill "
            "them in, or leave the rows out."
        )


def labelled_rows(y: object) -> Ints | None:
    """Return the rows that have a label, and warn of others; None if all of them do.

    As in scikit-learn's semi-supervised estimators, -1 marks unlabelled rows: where it is the only
    negative number beside at least two classes that are whole numbers. Beside 0 and 1 alone, or one
    other class, it may as well be a class, and is one.
    """
    values = np.asarray(y)
    if values.ndim != 1 or values.dtype.kind not in "if":
        return None
    classes = np.unique(values)
    if len(classes) < 3 or classes[0] != UNLABELLED or classes[1] < 0 or (classes % 1).any():
        return None
    rows = np.flatnonzero(values != UNLABELLED)
    number = len(values) - len(rows)
    if np.array_equal(classes, [UNLABELLED, 0, 1]):
        warnings.warn(
            f"-1 is taken as a class beside 0 and 1 ({number} rows). If it marks unlabelled rows, "
            "leave them out.",
            stacklevel=3,
        )
        return None
    warnings.warn(
        f"{number} rows have the label -1, which marks unlabelled rows in scikit-learn; they are "
        "left out. If it is a class, give it another name.",
        stacklevel=3,
    )
    return rows


def at_rows(rows: Ints, *given: Any) -> tuple[Any, ...]:
    """Return some rows of arrays, frames or lists of the same length; what is None stays so."""
    check_consistent_length(*given)
    return tuple(None if each is None else _safe_indexing(each, rows) for each in given)


def _is_missing(value: object) -> bool:
    """Tell whether a value is None, or differs from itself, as NaN, NaT and NA do."""
    if isinstance(value, str):
        return False
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):
        # pandas' NA neither equals itself nor differs.
        return type(value).__name__ == "NAType"


def as_vectors(rows: ArrayLike, name: str) -> Floats:
    """Return vectors as a 2-d array of finite float32 or float64 numbers."""
    refuse_masked(rows, name)
    if issparse(rows):
        raise sparse_error(name)
    vectors = np.asarray(rows)
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise ValueError(f"{name} must be a 2-d array, a vector per row; got {vectors.shape}.")
    if vectors.dtype.kind not in "fiub":
        raise ValueError(f"{name} must have numbers; got {vectors.dtype}.")
    small = vectors.dtype in (np.float16, np.float32)
    vectors = vectors.astype(np.float32 if small else np.float64, copy=False)
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise ValueError(
            f"Row {bad[0]} of {name} has missing or infinite values; remove it or fill them in."
        )
    return vectors
