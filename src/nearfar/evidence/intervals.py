"""The 90 % interval of a mean, and the variance of a mean over groups.

It is Wilson's interval: that of a share of as many independent cases as have the variance of the
mean. It stays within 0 and 1, and is not empty if all values are equal. If the variance comes from
a few groups, it has Student's quantile instead of the normal one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from scipy.stats import t as student

from nearfar.typing import Ints, Vector

CONFIDENCE = 0.9


def mean_interval(
    mean: float, variance: float, n: int, *, grouped: bool = False
) -> tuple[float, float]:
    """Return the 90 % interval of a mean of values from 0 to 1.

    Parameters
    ----------
    variance: Of the mean.
    n: Number of independent values or groups, which counts if they are all the same.
    grouped: Whether the variance was estimated from `n` groups.
    """
    if n < (2 if grouped else 1):
        return 0.0, 1.0
    tail = (1 + CONFIDENCE) / 2
    z = float(student.ppf(tail, n - 1) if grouped else ndtri(tail))
    share_variance = mean * (1 - mean)
    size = share_variance / variance if variance > 0 and share_variance > 0 else n
    center = (mean + z**2 / (2 * size)) / (1 + z**2 / size)
    reach = z / (1 + z**2 / size) * math.sqrt(share_variance / size + z**2 / (4 * size**2))
    # Rounding must not put the mean outside.
    return min(mean, max(0.0, center - reach)), max(mean, min(1.0, center + reach))


def value_interval(values: Vector, noise: float = 1.0) -> tuple[float, float]:
    """Return the 90 % interval of the mean of values from 0 to 1.

    `noise` is the variance of the mean relative to that of independent values.
    """
    n = len(values)
    if n == 0:
        return 0.0, 1.0
    return mean_interval(float(values.mean()), noise * float(values.var()) / n, n)


def ratio_interval(
    values: Vector,
    unit: Vector,
    *,
    ratio: float | None = None,
    rows: Ints | None = None,
    groups: Ints | None = None,
    noise: float = 1.0,
) -> tuple[float, float]:
    """Return the 90 % interval of a ratio of means of positive values.

    It is that of its logarithm, with Student's quantile.

    Parameters
    ----------
    unit: shape (n,). What their mean is divided by the mean of: squared deviations from the
        mean, or ones.
    ratio: The ratio, if it is estimated otherwise.
    rows: shape (n_values,). Rows of the values; by default all n.
    groups: shape (n,). Rows of different groups are independent.
    noise: Variance of the logarithm, relative to that of independent rows.
    """
    n, mean = len(unit), float(values.mean()) if len(values) else 0.0
    every = np.arange(n)
    rows, group = every if rows is None else rows, every if groups is None else groups
    n_units = len(np.unique(group[rows]))
    if n_units < 2 or mean == 0:
        return 0.0, math.inf if n_units < 2 else 0.0
    # How much each row moves the logarithm.
    moves = 1.0 - unit / unit.mean()
    np.add.at(moves, rows, n / len(rows) * (values / mean - 1.0))
    variance = noise * group_variance(moves, group)[0]
    reach = math.exp(float(student.ppf((1 + CONFIDENCE) / 2, n_units - 1)) * math.sqrt(variance))
    ratio = mean / float(unit.mean()) if ratio is None else ratio
    return ratio / reach, ratio * reach


def group_variance(residuals: Vector, groups: ArrayLike) -> tuple[float, int]:
    """Return the variance of a mean whose values are independent between groups only.

    Parameters
    ----------
    residuals: shape (n,). Values less their mean.
    """
    place = np.unique(groups, return_inverse=True)[1]
    sums = np.bincount(place, residuals)
    n = len(sums)
    return n / max(n - 1, 1) * float(sums @ sums) / max(len(residuals), 1) ** 2, n


def fit_variance(values: Vector, fits: Ints | None) -> float:
    """Return how much the mean of one more fit varies, beyond chance in the values.

    Parameters
    ----------
    fits: shape (n,). Which fit each value comes from; None if there is only one.

    Notes
    -----
    In the model value = mean + fit + noise, the variance s of the fits is estimated by the analysis
    of variance [1]_, and is at least 0. The mean of k fits varies by s / k and the next fit by s
    around what it has in common with them, so that it is s (1 + 1 / k).

    References
    ----------
    .. [1] S. R. Searle, G. Casella, C. E. McCulloch, "Variance Components", 1992.
    """
    code = np.zeros(len(values), dtype=np.intp)
    if fits is not None:
        code = np.unique(fits, return_inverse=True)[1]
    sizes = np.bincount(code)
    n, k = len(values), len(sizes)
    if not 1 < k < n:
        return 0.0
    means = np.bincount(code, values) / sizes
    between = float(sizes @ (means - values.mean()) ** 2) / (k - 1)
    within = float(np.sum((values - means[code]) ** 2)) / (n - k)
    size = (n - float(np.sum(sizes**2)) / n) / (k - 1)
    return max(0.0, (between - within) / size) * (1 + 1 / k)
