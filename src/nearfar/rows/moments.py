"""`Moments`: sizes, means and variances of columns, in one pass over blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfar.rows.rows import Points, Rows
from nearfar.typing import Floats, Matrix, Vector


@dataclass(frozen=True, eq=False)
class Moments:
    """Statistics of the columns of some rows.

    Attributes
    ----------
    n: Number of rows.
    squares: shape (n_features,). Sum of squared deviations from the mean.
    first_bad: The first row with a number that is not finite.
    """

    n: int
    smallest: Vector
    largest: Vector
    mean: Vector
    squares: Vector
    first_bad: int | None

    @classmethod
    def of(cls, rows: Rows) -> Moments:
        """Return the statistics of all rows, which are cached."""
        if "_moments" not in rows.__dict__:
            # Squares of very large numbers overflow; callers check `largest` first.
            with np.errstate(over="ignore", invalid="ignore"):
                rows.__dict__["_moments"] = rows.reduce(_of_block, combine=_merged)
        found: Moments = rows.__dict__["_moments"]
        return found

    @property
    def variance(self) -> Vector:
        """Variance of each column."""
        return self.squares / self.n

    @property
    def spread(self) -> Vector:
        """Standard deviation of each column; 1 for a constant one, whatever its rounding errors.

        The bound of rounding errors is that of scikit-learn's StandardScaler.
        """
        eps = np.finfo(np.float64).eps
        bound = self.n * eps * self.variance + (self.n * self.mean * eps) ** 2
        return np.where(self.variance <= bound, 1.0, np.sqrt(self.variance))


def column_variances(X: Points) -> Vector:
    """Return the variance of each column."""
    return Moments.of(X).variance if isinstance(X, Rows) else X.var(axis=0, dtype=np.float64)


def column_ranges(X: Points) -> Vector:
    """Return the largest less the smallest value of each column."""
    if isinstance(X, Rows):
        moments = Moments.of(X)
        return moments.largest - moments.smallest
    return np.asarray(np.ptp(X, axis=0))


def gram(X: Points) -> Matrix:
    """X' X."""
    return X.reduce(_gram) if isinstance(X, Rows) else np.asarray(X.T @ X, dtype=np.float64)


def _gram(block: Floats) -> Matrix:
    return np.asarray(block.T @ block, dtype=np.float64)


@np.errstate(over="ignore", invalid="ignore")
def _of_block(block: Floats) -> Moments:
    values = block.astype(np.float64, copy=False)
    first_bad = None
    if not np.isfinite(values.sum()) and not (finite := np.isfinite(values).all(axis=1)).all():
        first_bad = int(finite.argmin())
        values = np.zeros_like(values)
    mean, smallest, largest = values.mean(axis=0), values.min(axis=0), values.max(axis=0)
    values -= mean
    squares = np.einsum("ij,ij->j", values, values)
    return Moments(len(values), smallest, largest, mean, squares, first_bad)


def _merged(left: Moments, right: Moments) -> Moments:
    """Merge statistics of two sets of rows (Chan, Golub, LeVeque 1983)."""
    n = left.n + right.n
    step = right.mean - left.mean
    first_bad = left.first_bad
    if first_bad is None and right.first_bad is not None:
        first_bad = left.n + right.first_bad
    return Moments(
        n,
        np.minimum(left.smallest, right.smallest),
        np.maximum(left.largest, right.largest),
        left.mean + step * (right.n / n),
        left.squares + right.squares + step**2 * (left.n * right.n / n),
        first_bad,
    )
