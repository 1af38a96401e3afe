"""What to expect of a metric on new data, with an interval.

    labels      error of the vote of the three nearest training rows; to rank, MAP@R of the
                held-out rows among each other
    triplets    weighted share in the wrong order
    pairs       probability that a dissimilar pair is nearer than a similar one

Held-out rows are not there to vote: errors are extrapolated to all rows (`expect_error`). Queries
of one class, rows of one group, and judgements that share rows, are not independent: their
intervals allow for that.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.neighbors import NearestNeighbors

from nearfar.constraints import Pairs, Triplets
from nearfar.evaluate.intervals import group_variance, mean_interval
from nearfar.evaluate.measures import (
    CLASS_NOISE,
    ERROR,
    MAP_AT_R,
    PAIR_AUC,
    TRIPLET_ACCURACY,
    HeldOutJudgements,
)
from nearfar.evaluate.neighbor_votes import majority
from nearfar.evaluate.overlap import OverlappingJudgements
from nearfar.evaluate.retrieval import average_precisions
from nearfar.metrics.metric import Metric
from nearfar.runtime.notebook_html import bars, fragment
from nearfar.typing import Floats, Ints

# Neighbours that vote, as in comparisons.
_NEIGHBORS = 3

# So many neighbours that three of them are nearly always in a random half of the rows.
_NEARBY = 24

# Random halves whose errors are averaged: their noise is then a fifth of that of one.
_HALVES = 20

# Smallest ratio of the errors with all and with half of the rows.
_STEEPEST = 0.5


@dataclass(frozen=True)
class Expected:
    """What to expect on new data.

    New judgements, if learned from triplets or pairs, are of the same objects. Of objects that
    nobody has judged yet, expect less.

    Attributes
    ----------
    measure : {"error", "MAP@R", "triplet error", "pair error"}
    value : float
        The measure on data that played no part in learning. An error is extrapolated to as many
        neighbours as there are in all.
    low, high : float
        90 % confidence interval.
    baseline : float
        The measure without learning, on the same data.
    n : int
        Number of rows or constraints that it was measured on.
    """

    measure: str
    value: float
    low: float
    high: float
    baseline: float
    n: int

    @property
    def before(self) -> float:
        """Old name of `baseline`."""
        warnings.warn("Expected.before is now Expected.baseline.", FutureWarning, stacklevel=2)
        return self.baseline

    def __str__(self) -> str:
        write = (MAP_AT_R if self.measure == MAP_AT_R.label else ERROR).write
        value, low, high, baseline = map(write, (self.value, self.low, self.high, self.baseline))
        objects = ", on new judgements of these objects" if self.of_judgements else ""
        return (
            f"{self.measure} {value} (90 % interval {low} to {high}); {baseline} without learning"
            f"{objects}"
        )

    @property
    def of_judgements(self) -> bool:
        """Whether triplets or pairs were held out; their rows may be in others that were not."""
        return self.measure in ("triplet error", "pair error")

    def _repr_html_(self) -> str:
        values = {"without learning": self.baseline, "learned": self.value}
        write = "{:.3f}" if self.measure == MAP_AT_R.label else "{:.1%}"
        return fragment("Expected on new data", [str(self)], bars(values, write))


def expect_error(
    metrics: tuple[Metric, Metric],
    X: Floats,
    y: Ints,
    test: Floats,
    y_test: Ints,
    n_rows: int,
    groups: tuple[Ints, Ints] | None = None,
) -> Expected:
    """Error of nearest neighbours among `n_rows` rows, of which X are some.

    The metrics are the one without learning, and the learned one. `groups` are those of the rows of
    X, and of the test rows.
    """
    growth, n = n_rows / len(X), len(test)
    known = None if groups is None else groups[0]
    baseline, value = (
        _extrapolated_error(_nearest(metric, X, test), y, y_test, growth, known)
        for metric in metrics
    )
    variance = value * (1 - value) / n
    if groups is None:
        return Expected(ERROR.label, value, *mean_interval(value, variance, n), baseline, n)
    wrong = majority(y[_nearest(metrics[1], X, test)[:, :_NEIGHBORS]]) != y_test
    between, n_groups = group_variance(wrong - wrong.mean(), groups[1])
    independent = float(wrong.mean() * (1 - wrong.mean())) / n
    variance *= max(1.0, between / independent) if independent > 0 else n / n_groups
    interval = mean_interval(value, variance, n_groups, grouped=True)
    return Expected(ERROR.label, value, *interval, baseline, n)


def _nearest(metric: Metric, X: Floats, test: Floats) -> Ints:
    """Return the rows of X nearest to each test row, the nearest first."""
    k = min(_NEARBY, len(X))
    out = np.empty((len(test), k), dtype=np.intp)
    for rows, part in metric.spaces(test):
        search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(part.transform(X))
        out[rows] = search.kneighbors(part.transform(test[rows]), return_distance=False)
    return out


def _extrapolated_error(
    nearest: Ints, y: Ints, y_test: Ints, growth: float, groups: Ints | None
) -> float:
    """Return the error with `growth` times as many rows to vote.

    Errors fall like a power of the number of rows. The exponent comes from random halves of them,
    or of their groups.
    """
    groups = np.arange(len(y)) if groups is None else np.unique(groups, return_inverse=True)[1]
    error = float((majority(y[nearest[:, :_NEIGHBORS]]) != y_test).mean())
    random_state = np.random.RandomState(0)
    halved = []
    for _ in range(_HALVES):
        left_out = (random_state.uniform(size=int(groups.max()) + 1) < 0.5)[groups]
        first = np.argsort(left_out[nearest], axis=1, kind="stable")[:, :_NEIGHBORS]
        voters = y[np.take_along_axis(nearest, first, axis=1)]
        halved.append((majority(voters) != y_test).mean())
    fall = min(1.0, max(_STEEPEST, error / (float(np.mean(halved)) or 1.0)))
    return error * fall ** math.log2(growth)


def expect_ranking(metrics: tuple[Metric, Metric], X: Floats, y: Ints) -> Expected:
    """MAP@R of rows among each other; the interval is over classes."""
    precisions = [average_precisions(metric, X, y) for metric in metrics]
    counted = np.isfinite(precisions[0])
    baseline, values = (each[counted] for each in precisions)
    value = float(values.mean())
    variance, n_classes = group_variance(values - value, y[counted])
    interval = mean_interval(value, CLASS_NOISE * variance, n_classes, grouped=True)
    return Expected(MAP_AT_R.label, value, *interval, float(baseline.mean()), len(values))


def expect_judgements(
    metrics: tuple[Metric, Metric], X: Floats, judgements: Triplets | Pairs
) -> Expected:
    """Weighted share of triplets in the wrong order, or of similar pairs that are farther."""
    triplets = isinstance(judgements, Triplets)
    measure = TRIPLET_ACCURACY if triplets else PAIR_AUC
    baseline, losses = (
        measure.losses(HeldOutJudgements(metric, X, judgements)) for metric in metrics
    )
    name = "triplet error" if triplets else "pair error"
    interval = OverlappingJudgements.of(judgements).interval(losses)
    value = float(losses.mean())
    return Expected(name, value, *interval, float(baseline.mean()), len(judgements))
