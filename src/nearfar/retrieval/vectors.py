"""Checks of the vectors of queries and documents."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from nearfar.columns.cells import column_keys, is_frame
from nearfar.metrics.learned_from import row_digests
from nearfar.numerics.missing import refuse_masked, sparse_error
from nearfar.typing import Bools, Floats, Ints


def checked_vectors(Q: ArrayLike, X: ArrayLike) -> tuple[Floats, Floats]:
    """Return queries and documents as finite arrays of the same width, or raise ValueError.

    Examples
    --------
    >>> from nearfar.retrieval.vectors import checked_vectors
    >>> checked_vectors([[1.0, 2.0]], [[3.0]])
    Traceback (most recent call last):
    ...
    ValueError: Q has 2 columns and X has 1; both must come from the same model.
    """
    queries, documents = as_vectors(Q, "Q"), as_vectors(X, "X")
    if is_frame(Q) and is_frame(X) and list(column_keys(Q)) != list(column_keys(X)):
        raise ValueError("Q and X have different columns, or in another order.")
    if queries.shape[1] != documents.shape[1]:
        raise ValueError(
            f"Q has {queries.shape[1]} columns and X has {documents.shape[1]}; "
            "both must come from the same model."
        )
    return queries, documents


def as_vectors(rows: ArrayLike, name: str) -> Floats:
    """Return vectors as a 2-d array of finite float32 or float64 numbers.

    Examples
    --------
    >>> from nearfar.retrieval.vectors import as_vectors
    >>> as_vectors([[1.0, float("nan")]], "Q")
    Traceback (most recent call last):
    ...
    ValueError: Row 0 of Q has missing or infinite values; remove it or fill them in.
    """
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


def vector_digests(vectors: Floats) -> Ints:
    """Return a number for each vector, rounded to float32, as most indexes have them."""
    with np.errstate(over="ignore"):
        return row_digests(vectors.astype(np.float32))


def known_vectors(vectors: Floats, digests: Ints) -> Bools:
    """Tell which vectors have one of some digests; a vector of zeros is no other one."""
    return np.isin(vector_digests(vectors), digests) & vectors.any(axis=1)
