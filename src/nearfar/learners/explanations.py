"""What a learner says when a fit fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nearfar.rows import Rows

_CALLBACK_ATTRIBUTES = ("_callback", "_skl_callbacks")

_LARGE_SPREAD = 1e7
"""Ratio of sizes whose squares differ by about as much as double precision can hold."""


@contextmanager
def restore_on_error(learner: Any, X: Any) -> Iterator[None]:
    """Restore the learner if a fit to X fails, and explain why it did."""
    before = learner.__dict__.copy()
    try:
        yield
    except BaseException as error:
        kept = {k: v for k, v in learner.__dict__.items() if k.startswith(_CALLBACK_ATTRIBUTES)}
        learner.__dict__ = before | kept
        if isinstance(error, ValueError) and "could not convert string" in str(error):
            raise ValueError(
                f"X has columns that are not numbers ({error}). Encode them, for example with "
                "Columns.fit(X).column_transformer() of nearfar.columns."
            ) from error
        if isinstance(error, np.linalg.LinAlgError | FloatingPointError):
            raise failed_computation(error, X) from error
        raise


def failed_computation(error: Exception, X: Any) -> ValueError:
    """Return an error that says what failed, and what to do if the sizes in X can be the reason.

    Parameters
    ----------
    error : LinAlgError or FloatingPointError
    X : array-like
        What the learner was given.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.learners.explanations import failed_computation
    >>> error = np.linalg.LinAlgError("Singular matrix")
    >>> print(failed_computation(error, np.eye(3)))
    The fit failed: Singular matrix.
    """
    message = f"The fit failed: {str(error).rstrip('.') or type(error).__name__}."
    ratio = spread_of_sizes(X)
    if ratio > _LARGE_SPREAD:
        message += (
            f" Values of X differ too much in size, by a factor of {ratio:.0e}; look for outliers, "
            "or try scale='standard'."
        )
    return ValueError(message)


def spread_of_sizes(X: Any) -> float:
    """Return the largest deviation from a column's median over the smallest typical one.

    It is large if columns differ in size, or if a column has outliers; 1 if X is no table of
    numbers in memory, or has no column that varies.
    """
    if isinstance(X, Rows) or hasattr(X, "dask"):
        return 1.0
    try:
        table = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return 1.0
    if table.ndim != 2 or not table.size:
        return 1.0
    deviations = np.abs(table - np.median(table, axis=0))
    columns = [column[column > 0] for column in deviations.T]
    typical = [np.median(column) for column in columns if len(column)]
    return float(deviations.max() / min(typical)) if typical else 1.0
