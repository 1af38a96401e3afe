"""What to expect of a metric on new data, with an interval.

    labels      error of the vote of the three nearest training rows; to rank, MAP@R of the
                held-out rows among each other
    triplets    share in the wrong order
    pairs       probability that a dissimilar pair is nearer than a similar one

What is held out is not there to vote: errors are extrapolated to all rows (`expect_error`).
Errors of rows have Wilson's interval. Triplets of one anchor, and queries of one class, are not
independent: their intervals come from the means of these groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import t as student
from sklearn.neighbors import NearestNeighbors

from nearfar.constraints import Pairs, Triplets
from nearfar.metrics.metric import Metric
from nearfar.typing import Floats, Ints, Vector

CONFIDENCE = 0.9
_NEIGHBORS = 3
_NEARBY = 24
"""So many neighbours that three of them are nearly always in a random half of the rows."""

_RANKING_NOISE = 2.0
"""A class is asked for and is in the way of others, so that classes are not independent. With this
factor intervals hold as often as they say (`benchmarks/expected.py`)."""

_HALVES = 20
_STEEPEST = 0.5
"""Smallest ratio of the errors with all and with half of the rows."""

_QUERIES = 2000


@dataclass(frozen=True)
class Expected:
    """What to expect on new data.

    Attributes
    ----------
    measure : {"error", "MAP@R", "triplet error", "pair error"}
    value : float
        The measure on data that played no part in learning. An error is extrapolated to as many
        neighbours as there are in all.
    low, high : float
        90 % confidence interval.
    before : float
        The measure of the distance as it was, on the same data.
    n : int
        Number of rows or constraints that it was measured on.
    """

    measure: str
    value: float
    low: float
    high: float
    before: float
    n: int

    def __str__(self) -> str:
        share = "{:.3f}" if self.measure == "MAP@R" else "{:.1%}"
        value, low, high, before = (
            share.format(x) for x in (self.value, self.low, self.high, self.before)
        )
        return f"{self.measure} {value} ({low} to {high}), {before} before"


def expect_error(
    metrics: tuple[Metric, Metric], X: Floats, y: Ints, test: Floats, y_test: Ints, n_rows: int
) -> Expected:
    """Error of nearest neighbours among `n_rows` rows, of which X are some.

    The metrics are the one as it was, and the learned one.
    """
    growth = n_rows / len(X)
    before, after = (
        _extrapolated_error(_nearest(metric, X, test), y, y_test, growth) for metric in metrics
    )
    return Expected("error", after, *wilson(after, len(test)), before, len(test))


def _nearest(metric: Metric, X: Floats, test: Floats) -> Ints:
    """Return the rows of X nearest to each test row, the nearest first."""
    k = min(_NEARBY, len(X))
    out = np.empty((len(test), k), dtype=np.intp)
    for rows, part in metric.spaces(test):
        search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(part.transform(X))
        out[rows] = search.kneighbors(part.transform(test[rows]), return_distance=False)
    return out


def _extrapolated_error(nearest: Ints, y: Ints, y_test: Ints, growth: float) -> float:
    """Return the error with `growth` times as many rows to vote.

    Errors fall like a power of the number of rows. The exponent comes from random halves of them.
    """
    error = float((_votes(y[nearest]) != y_test).mean())
    random_state = np.random.RandomState(0)
    halved = []
    for _ in range(_HALVES):
        left_out = random_state.uniform(size=len(y)) < 0.5
        first = np.argsort(left_out[nearest], axis=1, kind="stable")[:, :_NEIGHBORS]
        halved.append((_votes(y[np.take_along_axis(nearest, first, axis=1)]) != y_test).mean())
    fall = min(1.0, max(_STEEPEST, error / (float(np.mean(halved)) or 1.0)))
    return error * fall ** math.log2(growth)


def _votes(labels: Ints) -> Ints:
    """Return the majority of the first three labels of each row; of three, the smallest."""
    voters = np.sort(labels[:, :_NEIGHBORS], axis=1)
    if voters.shape[1] < _NEIGHBORS:
        return voters[:, 0]
    return np.where(voters[:, 1] == voters[:, 2], voters[:, 1], voters[:, 0])


def expect_ranking(metrics: tuple[Metric, Metric], X: Floats, y: Ints) -> Expected:
    """MAP@R of rows among each other; the interval is over classes."""
    found = [_average_precision_at_r(metric, X, y) for metric in metrics]
    counted = np.isfinite(found[0])
    before, after = (values[counted] for values in found)
    low, high = _grouped_interval(after, y[counted], noise=_RANKING_NOISE)
    return Expected(
        "MAP@R", float(after.mean()), low, high, float(before.mean()), int(counted.sum())
    )


def _average_precision_at_r(metric: Metric, X: Floats, y: Ints) -> Vector:
    """Return the average precision of each row's R nearest, R the others of its class; nan if 0."""
    distances = metric.distances(X)
    np.fill_diagonal(distances, np.inf)
    out = np.full(len(X), np.nan)
    for i, row in enumerate(distances):
        R = int(np.count_nonzero(y == y[i])) - 1
        if R > 0:
            nearest = np.argsort(row, kind="stable")[:R]
            right = y[nearest] == y[i]
            out[i] = float((np.cumsum(right) / np.arange(1, R + 1) * right).sum() / R)
    return out


def expect_triplets(metrics: tuple[Metric, Metric], X: Floats, triplets: Triplets) -> Expected:
    """Share of triplets in the wrong order; the interval is over anchors."""
    before, after = (1 - metric.prefers(X, triplets.index) for metric in metrics)
    low, high = _grouped_interval(after, triplets.index[:, 0])
    return Expected(
        "triplet error", float(after.mean()), low, high, float(before.mean()), len(triplets)
    )


def expect_pairs(metrics: tuple[Metric, Metric], X: Floats, pairs: Pairs) -> Expected:
    """Probability that a dissimilar pair is nearer; the interval is by DeLong's variance."""
    before, after = (_placements(metric, X, pairs) for metric in metrics)
    value = float(after[0].mean())
    spread = math.sqrt(sum(float(each.var(ddof=1)) / len(each) for each in after if len(each) > 1))
    half = float(ndtri((1 + CONFIDENCE) / 2)) * spread
    low, high = max(0.0, value - half), min(1.0, value + half)
    return Expected("pair error", value, low, high, float(before[0].mean()), len(pairs))


def _placements(metric: Metric, X: Floats, pairs: Pairs) -> tuple[Vector, Vector]:
    """For each pair, the share of pairs of the other kind that it is on the wrong side of."""
    distance = metric.pair_distances(X, pairs.index)
    near, far = distance[pairs.similar], distance[~pairs.similar]
    return _share_below(near, far), 1 - _share_below(far, near)


def _share_below(points: Vector, others: Vector) -> Vector:
    ordered = np.sort(others)
    low, high = (np.searchsorted(ordered, points, side) for side in ("left", "right"))
    return np.asarray((low + high) / 2 / len(others))


def wilson(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's interval of a share of n.

    Examples
    --------
    >>> from nearfar.learners.selection.expectation import wilson
    >>> [round(end, 3) for end in wilson(0.1, 100)]
    [0.061, 0.16]
    """
    z = float(ndtri((1 + CONFIDENCE) / 2))
    center = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, center - half), min(1.0, center + half)


def _grouped_interval(values: Vector, groups: Any, *, noise: float = 1.0) -> tuple[float, float]:
    """Return an interval of the mean of values that are independent between groups only.

    `noise` multiplies the variance, where groups have something in common after all.
    """
    place = np.unique(groups, return_inverse=True)[1]
    n_groups = int(place.max()) + 1
    mean = float(values.mean())
    if n_groups < 2:
        return 0.0, 1.0
    residual = np.bincount(place, weights=values - mean)
    variance = noise * n_groups / (n_groups - 1) * float((residual**2).sum())
    spread = math.sqrt(variance) / len(values)
    half = float(student.ppf((1 + CONFIDENCE) / 2, n_groups - 1)) * spread
    return max(0.0, mean - half), min(1.0, mean + half)
