"""Checks of the points and row numbers that are passed to a metric."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from nearfar.columns import Columns
from nearfar.columns.cells import column_keys, is_frame
from nearfar.numerics.missing import refuse_masked, sparse_error
from nearfar.typing import Array, Floats, Ints

# With 48 bits, 10,000 digests match one of a million other rows with a probability below 1e-4.
DIGEST_BYTES = 6


def check_points(
    X: ArrayLike,
    n_features: int,
    feature_names: tuple[str, ...] | None = None,
    columns: Columns | None = None,
) -> Floats:
    """Return X as a 2-d float array; raise ValueError if its shape does not match.

    Parameters
    ----------
    feature_names: Columns of a DataFrame to take, in this order.
    columns: What the columns of a DataFrame become. If it lacks some, it must have the
        features.
    """
    is_array = type(X) is np.ndarray
    if not is_array and issparse(X):
        raise sparse_error("X")
    if not is_array:
        refuse_masked(X, "X")
    points = np.asarray(X) if is_array or not is_frame(X) else _of_frame(X, feature_names, columns)
    if points.dtype != np.float32:
        if np.iscomplexobj(points):
            raise ValueError("X must have real numbers; these are complex.")
        points = points.astype(np.float64, copy=False)
    if points.ndim != 2 or points.shape[1] != n_features:
        raise ValueError(
            f"The metric expects a 2-d array with {n_features} features; got shape {points.shape}."
        )
    return points


def _of_frame(frame: Any, feature_names: tuple[str, ...] | None, columns: Columns | None) -> Array:
    """Return the features of a table, by name if they have names."""
    if feature_names is None:
        return np.asarray(frame)
    keys = column_keys(frame)
    if columns is not None and (
        all(name in keys for name in columns.names)
        or not all(name in keys for name in feature_names)
    ):
        return columns.apply(frame)
    lacking = [name for name in feature_names if name not in keys]
    if lacking:
        raise ValueError(
            f"The metric needs the columns {', '.join(feature_names)}; "
            f"the table lacks {', '.join(lacking)}."
        )
    wanted = [keys[name] for name in feature_names]
    return np.asarray(frame if wanted == list(frame.columns) else frame[wanted])


def unit_length(X: Floats) -> Floats:
    """Divide each row by its Euclidean length; rows of zeros stay zero."""
    # Dividing by the largest entry first keeps squares from overflow and underflow.
    largest = np.abs(X).max(axis=1, keepdims=True)
    scaled = X / np.where(largest > 0, largest, 1)
    length = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
    return np.asarray(scaled / np.where(length > 0, length, 1))


def check_rows(index: object, width: int, n_samples: int) -> Ints:
    """Return row numbers column by column, as an array of shape (width, n).

    Parameters
    ----------
    width: Number of rows in each pair or triplet.
    n_samples: Row numbers must be smaller than this.
    """
    plain = isinstance(index, list | tuple | np.ndarray)
    rows = np.asarray(index if plain else getattr(index, "index", index))
    if rows.ndim != 2 or rows.shape[1] != width or (rows.dtype.kind not in "iu" and rows.size):
        raise ValueError(
            f"Row numbers must be integers of shape (n, {width}); "
            f"got {rows.dtype} of shape {rows.shape}."
        )
    if rows.size and not 0 <= rows.min() <= rows.max() < n_samples:
        raise ValueError(
            f"Row numbers must be from 0 to {n_samples - 1}; got {rows.min()} to {rows.max()}."
        )
    return rows.astype(np.intp, copy=False).T


def row_digests(X: Floats) -> Ints:
    """Return a number for each row, by which the same row is known again."""
    # Zero has two signs, which are the same number.
    rows = (np.asarray(row, dtype=np.float64) + 0.0 for row in X)
    hashes = (blake2b(row.tobytes(), digest_size=DIGEST_BYTES).digest() for row in rows)
    return np.array([int.from_bytes(each, "big") for each in hashes], dtype=np.int64)
