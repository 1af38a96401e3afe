"""What a learner says when a fit fails."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nearfar.rows import Rows
from nearfar.supervision import kind_of

if TYPE_CHECKING:
    from nearfar.learners.base import MetricLearner

# What makes rows and constraints of tuples of points, by their size.
_OF_POINTS = {
    2: "Pairs.from_points(X, similar)",
    3: "Triplets.from_points(X)",
    4: "Triplets.from_quadruplets(np.vstack(X), np.arange(4 * len(X)).reshape(-1, 4))",
}
# What makes constraints of row numbers, by their number.
_OF_ROWS = {3: "Triplets(index)", 4: "the Triplets of Triplets.from_quadruplets(X, index)"}

# Ratio of sizes whose squares differ by about as much as double precision can hold.
_LARGE_SPREAD = 1e7


def explained(error: BaseException, X: Any) -> ValueError | None:
    """Return an error that says more, or None."""
    if isinstance(error, np.linalg.LinAlgError | FloatingPointError):
        return failed_computation(error, X)
    message = str(error) if isinstance(error, ValueError) else ""
    needs_rows = "Found array with dim 3" in message
    needs_y = "requires y to be passed" in message
    if (needs_rows or needs_y) and np.ndim(X) == 3 and np.shape(X)[1] in _OF_POINTS:
        return ValueError(
            f"{message} Constraints are row numbers of X. {_OF_POINTS[np.shape(X)[1]]} makes rows "
            "and constraints of tuples of points."
        )
    if needs_y and row_numbers(X) in _OF_ROWS:
        return ValueError(
            f"{message} If X has row numbers, pass the rows as X, and {_OF_ROWS[row_numbers(X)]} "
            "as y."
        )
    return None


def warn_of_row_numbers(learner: MetricLearner, X: Any, y: Any) -> None:
    """Warn if X looks like row numbers of pairs, and y like their labels in metric-learn."""
    if "pairs" not in learner.supervision or row_numbers(X) != 2 or kind_of(y) != "labels":
        return
    if len(X) == np.size(y) and set(np.unique(y)) == {-1, 1}:
        warnings.warn(
            f"X looks like row numbers of pairs, and y like their labels; {type(learner).__name__} "
            "takes X as rows of two features. For pairs, use fit(X, Pairs(index, similar=y == 1)), "
            "where X has the rows.",
            UserWarning,
            stacklevel=4,
        )


def row_numbers(X: ArrayLike) -> int:
    """Return how many different row numbers each row of X may be; 0 if it is none."""
    table = X if isinstance(X, np.ndarray) else np.asarray(X if isinstance(X, list) else 0)
    if table.ndim != 2 or table.dtype.kind not in "iu" or table.shape[1] not in (2, 3, 4):
        return 0
    # A quadruplet may compare two pairs that share a row.
    apart = table[:, 0] != table[:, 1]
    return int(table.shape[1]) if table.size and table.min() >= 0 and apart.all() else 0


def failed_computation(error: Exception, X: ArrayLike) -> ValueError:
    """Return an error that says what failed, and what to do if the sizes in X can be the reason.

    Parameters
    ----------
    X: What the learner was given.
    """
    message = f"The fit failed: {str(error).rstrip('.') or type(error).__name__}."
    ratio = spread_of_sizes(X)
    if ratio > _LARGE_SPREAD:
        message += (
            f" Values of X differ too much in size, by a factor of {ratio:.0e}; look for outliers, "
            "or try scale='standard'."
        )
    return ValueError(message)


def spread_of_sizes(X: ArrayLike) -> float:
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
