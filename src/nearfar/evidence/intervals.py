"""The 90 % interval of a mean, and the variance of a mean over groups.

It is Wilson's interval: that of a share of as many independent cases as have the variance of the
mean. It stays within 0 and 1, and is not empty if all values are equal. If the variance comes from
a few groups, it has Student's quantile instead of the normal one.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from scipy.stats import t as student

from nearfar.typing import Ints, Vector

if TYPE_CHECKING:
    from nearfar.supervision import Pairs, Triplets

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


def known_mean(values: Vector) -> float:
    """Return the mean of the values that are not nan; nan if there are none."""
    scored = values[~np.isnan(values)]
    return float(scored.mean()) if len(scored) else float("nan")


def judgement_shares(judgements: Triplets | Pairs) -> Vector:
    """Return the share of each judgement in a mean, in units of 1; both kinds of pairs count
    alike.
    """
    n = len(judgements)
    weight = np.ones(n) if judgements.weight is None else judgements.weight
    similar = getattr(judgements, "similar", None)
    if similar is None:
        return np.asarray(weight / weight.mean())
    totals = np.bincount(similar, weight, minlength=2)
    return np.asarray(weight * n / (2 * totals[similar.astype(np.intp)]))


class OverlappingJudgements:
    """Judgements, by the rows that they share.

    Parameters
    ----------
    index: shape (n_judgements, 2 or 3). Row numbers of each, or numbers of their groups.
    groups: shape (n_judgements,). Number of the group of each.
    weight: shape (n_judgements,). Share of each in a mean, in units of 1; by default 1.
    degree: What a judgement changes in the mean, as a multiple of its own term. It is 2 for
        the area under a ROC curve, where each pair is also compared with those of the other
        kind.
    """

    def __init__(
        self, index: Ints, groups: Ints, weight: Vector | None = None, degree: float = 1.0
    ) -> None:
        self.groups = groups
        self.weight = np.ones(len(index)) if weight is None else weight
        self.degree = degree
        rows, ordered = np.unique(np.sort(index, axis=1), return_inverse=True)
        self._rows, self._n_rows = ordered.reshape(index.shape), len(rows)
        twice = np.zeros(index.shape, dtype=bool)
        twice[:, 1:] = self._rows[:, 1:] == self._rows[:, :-1]
        # A group that is in a judgement twice counts once; numbers of their own share nothing.
        n_numbers = len(rows) + int(twice.sum())
        self._rows[twice] = np.arange(len(rows), n_numbers)
        sizes = range(1, index.shape[1] + 1)
        self._sets = [_numbered(self._rows, size, n_numbers) for size in sizes]

    def __len__(self) -> int:
        return len(self.groups)

    @classmethod
    def of(
        cls,
        judgements: Triplets | Pairs,
        groups: Ints | None = None,
        row_groups: Ints | None = None,
    ) -> OverlappingJudgements:
        """Return triplets or pairs with their weights, by default in groups of their own.

        `groups` are those of judgements, and `row_groups` those of rows.
        """
        index = judgements.index
        if row_groups is not None:
            index = row_groups[index]
            groups = index.min(axis=1) if groups is None else groups
        groups = judgements.groups() if groups is None else groups
        degree = 2.0 if hasattr(judgements, "similar") else 1.0
        return cls(index, groups, judgement_shares(judgements), degree)

    def variance(self, values: Vector) -> float:
        """Return the variance of the mean; nan marks judgements that were not made."""
        known = ~np.isnan(values)
        n = int(known.sum())
        if n == 0:
            return 0.0
        r = np.where(known, values - float(values[known].mean()) * self.weight, 0.0)
        by_rows = 0.0
        for number, sets in enumerate(self._sets):
            sums = np.bincount(sets.ravel(), np.tile(r, len(sets)))
            by_rows += (-1) ** number * float(sums @ sums)
        n_rows = int((np.unique(self._rows[known]) < self._n_rows).sum())
        # Residuals are too small, as the mean is that of the same rows; as in the jackknife.
        by_rows *= (n_rows / max(n_rows - len(self._sets), 1) / n) ** 2
        by_group = group_variance(r[known], self.groups[known])[0]
        return self.degree**2 * max(by_rows, by_group)

    def n_groups(self, values: Vector) -> int:
        """Return the number of groups with judgements."""
        return len(np.unique(self.groups[~np.isnan(values)]))

    def interval(self, values: Vector) -> tuple[float, float]:
        """Return the 90 % interval of the mean."""
        known = values[~np.isnan(values)]
        n = self.n_groups(values)
        mean = float(known.mean()) if n else 0.0
        return mean_interval(mean, self.variance(values), n, grouped=True)


def _numbered(rows: Ints, size: int, n_rows: int) -> Ints:
    """Return a number for each set of rows that a judgement has, one set a line."""
    codes = [
        np.ravel_multi_index(tuple(rows[:, columns].T), (n_rows,) * size)
        for columns in map(list, combinations(range(rows.shape[1]), size))
    ]
    return np.unique(np.array(codes), return_inverse=True)[1].reshape(len(codes), len(rows))
