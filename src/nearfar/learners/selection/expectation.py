"""What to expect of a metric on new data, with an interval.

    numbers     R2 of the mean of the nearest training rows, and its mean absolute error
    labels      error of the vote of the nearest training rows; to rank, MAP@R among them
    classes     MAP@R of rows of new classes among as many rows and classes as there are in all
    triplets    weighted share in the wrong order
    pairs       probability that a dissimilar pair is nearer than a similar one

A level depends on how many rows there are to find. Held-out rows are not there to vote: errors are
extrapolated to all rows (`expect_error`). Rows of new classes are ranked among all rows, of which
those that were learned from may be easier or harder to tell apart (`_precisions`). Queries of one
class, rows of one group, and judgements that share rows, are not independent: their intervals allow
for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from nearfar.evidence.intervals import (
    OverlappingJudgements,
    group_variance,
    mean_interval,
    ratio_interval,
)
from nearfar.learners.selection.held_out import sample
from nearfar.measures.neighbor_votes import majority
from nearfar.measures.registry import (
    CLASS_NOISE,
    ERROR,
    MAE,
    MAP_AT_R,
    PAIR_AUC,
    R2,
    ROW_NOISE,
    TRIPLET_ACCURACY,
    HeldOutJudgements,
    Measure,
    Voters,
)
from nearfar.metrics.metric import Metric
from nearfar.runtime.messages import bars, counted, fragment
from nearfar.supervision import Pairs, Triplets
from nearfar.typing import Array, Floats, Ints, Vector

# Neighbours to look at beyond twice those that vote: enough of them are nearly always in a random
# half of the rows.
_SPARE = 18

# Random halves whose errors are averaged: their noise is then a fifth of that of one.
_HALVES = 20

# Smallest ratio of the errors with all and with half of the rows.
_STEEPEST = 0.5

# That ratio where rows do not tell: over the regimes of `benchmarks/claims.py`, it is 0.89 to 0.99.
_USUAL_FALL = 0.97

# Standard errors by which an error must differ from that to count: folds are drawn, too.
_BEYOND = 2.0

# Variance of an error, relative to that of independent rows: which rows vote is chance, too, and
# all folds share them.
_VOTER_NOISE = 1.3

# The same ratio for squared errors of numbers, set on 80 draws of each regime of
# `benchmarks/claims_numbers.py`, whose results are of others.
_SQUARES_FALL = 0.9

# The most rows to rank among: a ranking of all of them takes seconds.
_LARGEST_GALLERY = 10_000

# How many rows of new classes one of a known class may stand for, or the inverse. Rankings go this
# many times as deep as needed.
_MOST_WEIGHT = 4.0


@dataclass(frozen=True)
class Expected:
    """What to expect on new data.

    New judgements, if learned from triplets or pairs, are of the same objects. Of objects that
    nobody has judged yet, expect less.

    Attributes
    ----------
    value: The measure on data that played no part in learning. An error is extrapolated to
        as many neighbours as there are in all.
    low, high: 90 % confidence interval.
    baseline: The measure without learning, on the same data, with as many neighbours as are
        best then.
    n: Number of rows or constraints that it was measured on.
    baseline_low, baseline_high: 90 % confidence interval of the baseline.
    rows, classes: Size of the gallery that the measure is for; 0 for judgements. Among more
        classes, MAP@R is lower.
    mae: The mean absolute error beside R2.
    """

    measure: str
    value: float
    low: float
    high: float
    baseline: float
    n: int
    baseline_low: float = 0.0
    baseline_high: float = 1.0
    rows: int = 0
    classes: int = 0
    mae: Expected | None = None

    @property
    def worse(self) -> bool:
        """Whether Euclidean distance does better on these data."""
        gain = self.value - self.baseline
        return gain < 0 if self.registered.better == "higher" else gain > 0

    @property
    def without_learning(self) -> Expected:
        """What to expect of Euclidean distance."""
        low, high = self.baseline_low, self.baseline_high
        mae = self.mae and self.mae.without_learning
        return replace(self, value=self.baseline, low=low, high=high, mae=mae)

    def __str__(self) -> str:
        write = self.registered.write
        value, low, high, baseline = map(write, (self.value, self.low, self.high, self.baseline))
        among = f" among {counted(self.rows, 'row')}" if self.rows else ""
        if self.measure == MAP_AT_R.label and self.rows:
            among += f" of {counted(self.classes, 'class')}"
        objects = ", on new judgements of these objects" if self.of_judgements else ""
        text = (
            f"{self.measure} {value}{among} (90 % interval {low} to {high}); {baseline} "
            f"({write(self.baseline_low)} to {write(self.baseline_high)}) without learning{objects}"
        )
        return text if self.mae is None else f"{text}; {replace(self.mae, rows=0)}"

    @property
    def registered(self) -> Measure:
        """The measure itself, which says how its values are written."""
        return {each.label: each for each in (MAP_AT_R, R2, MAE)}.get(self.measure, ERROR)

    @property
    def of_judgements(self) -> bool:
        """Whether triplets or pairs were held out; their rows may be in others that were not."""
        return self.measure in ("triplet error", "pair error")

    def _repr_html_(self) -> str:
        values = {"without learning": self.baseline, "learned": self.value}
        write = "{:.1%}" if self.registered is ERROR else "{:.3f}"
        return fragment("Expected on new data", [str(self)], bars(values, write))


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows that metrics were learned from, and rows that played no part in that.

    Attributes
    ----------
    metrics: Without learning, and learned.
    y: shape (n_samples,). Classes, or numbers; rows of class -1 do not count.
    known, unseen: Rows of X.
    """

    metrics: tuple[Metric, Metric]
    X: Floats
    y: Array
    known: Ints
    unseen: Ints
    groups: Ints | None = None

    def gallery(self, *, whole_classes: bool) -> Ints:
        """Return the rows that unseen ones are ranked among: all, or those learned from."""
        rows = np.flatnonzero(self.y >= 0) if whole_classes else self.known
        return sample(rows, _LARGEST_GALLERY, np.random.RandomState(0), self.y[rows])

    def nearest(self, metric: Metric, gallery: Ints, k: int) -> Ints:
        """Return the rows of a gallery nearest to each unseen row but itself, nearest first."""
        inside = np.isin(self.unseen, gallery).any()
        depth = min(k + int(inside), len(gallery))
        out = np.empty((len(self.unseen), depth), dtype=np.intp)
        for rows, part in metric.spaces(self.X[self.unseen]):
            search = NearestNeighbors(n_neighbors=depth, algorithm="brute")
            search.fit(part.transform(self.X[gallery]))
            queries = part.transform(self.X[self.unseen[rows]])
            out[rows] = gallery[search.kneighbors(queries, return_distance=False)]
        if not inside:
            return out
        # Of copies of a row, another one may come first: the row itself goes to the end.
        own = out == self.unseen[:, None]
        return np.take_along_axis(out, np.argsort(own, axis=1, kind="stable"), axis=1)[:, :-1]


def expect_error(folds: Sequence[Fold], n_rows: int, ks: tuple[int, int]) -> Expected:
    """Error of the nearest neighbours among `n_rows` rows, on the unseen rows of all folds.

    There is a number of neighbours for each metric.

    Errors fall like a power of the number of rows. The mean error with random halves of the rows,
    or of their groups, is less noisy than that with all of them, which counts as far as it differs
    beyond noise from what halves let expect.
    """
    baseline, learned = (
        _error(value, own, groups)
        for value, own, groups in _extrapolated(folds, n_rows, ks, {_wrong: _USUAL_FALL})[0]
    )
    n_classes = len(np.unique(folds[0].y))
    n = sum(len(fold.unseen) for fold in folds)
    return Expected(ERROR.label, *learned, baseline[0], n, *baseline[1:], n_rows, n_classes)


def _wrong(voters: Array, actual: Array) -> Vector:
    return np.asarray(majority(voters) != actual, dtype=np.float64)


def _extrapolated(
    folds: Sequence[Fold],
    n_rows: int,
    ks: tuple[int, int],
    losses: Mapping[Callable[..., Vector], float],
) -> list[list[tuple[float, Vector, Ints | None]]]:
    """Return means of losses among `n_rows` rows, those of unseen rows, and the rows' groups."""
    random_state = np.random.RandomState(0)
    shape = len(losses), len(folds[0].metrics)
    n_unseen = [len(fold.unseen) for fold in folds]
    own, halved = np.zeros((2, *shape, sum(n_unseen)))
    for start, fold in zip(np.cumsum([0, *n_unseen]), folds, strict=False):
        y, actual = fold.y, fold.y[fold.unseen]
        here = slice(start, start + len(actual))
        group = np.arange(len(y)) if fold.groups is None else fold.groups
        nearest = [
            fold.nearest(metric, fold.known, 2 * k + _SPARE)
            for metric, k in zip(fold.metrics, ks, strict=True)
        ]
        for number, loss in enumerate(losses):
            own[number, :, here] = [
                loss(y[each[:, :k]], actual) for each, k in zip(nearest, ks, strict=True)
            ]
        for _ in range(_HALVES):
            left_out = (random_state.uniform(size=int(group.max()) + 1) < 0.5)[group]
            for place, (each, k) in enumerate(zip(nearest, ks, strict=True)):
                first = np.argsort(left_out[each], axis=1, kind="stable")[:, :k]
                voters = y[np.take_along_axis(each, first, axis=1)]
                for number, loss in enumerate(losses):
                    halved[number, place, here] += loss(voters, actual) / _HALVES
    growth = n_rows / float(np.mean([len(fold.known) for fold in folds]))
    groups = None
    if folds[0].groups is not None:
        groups = np.concatenate([np.asarray(fold.groups)[fold.unseen] for fold in folds])
    return [
        [(_level(a, b, growth, groups, fall), a, groups) for a, b in zip(one, half, strict=True)]
        for one, half, fall in zip(own, halved, losses.values(), strict=True)
    ]


def _level(
    wrong: Vector, halved: Vector, growth: float, groups: Ints | None, usual: float
) -> float:
    """Return the mean loss with `growth` times as many rows to vote."""
    n, error, of_half = len(wrong), float(wrong.mean()), float(halved.mean())
    each = np.arange(n) if groups is None else groups
    noise, _ = group_variance(wrong - halved - (error - of_half), each)
    surprise = error - usual * of_half
    counts = max(0.0, 1 - _BEYOND**2 * noise / surprise**2) if surprise else 0.0
    level = usual * of_half + counts * surprise
    fall = min(1.0, max(_STEEPEST, level / (of_half or 1.0)))
    return level * float(fall ** math.log2(growth))


def _error(value: float, wrong: Vector, groups: Ints | None) -> tuple[float, float, float]:
    """Return an error and its interval."""
    n, error = len(wrong), float(wrong.mean())
    variance = _VOTER_NOISE * value * (1 - value) / n
    if groups is None:
        return value, *mean_interval(value, variance, n)
    between, n_groups = group_variance(wrong - error, groups)
    independent = error * (1 - error) / n
    variance *= max(1.0, between / independent) if independent > 0 else n / n_groups
    return value, *mean_interval(value, variance, n_groups, grouped=True)


def expect_numbers(folds: Sequence[Fold], n_rows: int, ks: tuple[int, int]) -> Expected:
    """R2 and mean absolute error of the mean of neighbours among `n_rows` rows.

    There is a number of neighbours for each metric.

    The variance of the numbers is that of all rows; that it is estimated, too, and from some of the
    same rows, is part of the interval.
    """
    y, groups = folds[0].y, folds[0].groups
    unseen = np.concatenate([fold.unseen for fold in folds])
    units = {2: (y - y.mean()) ** 2, 1: np.ones(len(y))}
    losses: Any = {
        lambda voters, actual, p=p: Voters(voters, actual).deviation ** p: _SQUARES_FALL ** (p / 2)
        for p in units
    }
    found = []
    extrapolated = _extrapolated(folds, n_rows, ks, losses)
    for (power, unit), of_metrics in zip(units.items(), extrapolated, strict=True):
        levels = [(level / float(unit.mean()), own) for level, own, _ in of_metrics]
        settings: Any = {
            "rows": unseen,
            "groups": groups,
            "noise": (R2 if power == 2 else MAE).noise,
        }
        found.append([(v, *ratio_interval(own, unit, ratio=v, **settings)) for v, own in levels])
    shares, (plain_mae, learned_mae) = found
    plain, learned = ((1 - value, 1 - high, 1 - low) for value, low, high in shares)
    n = len(unseen)
    mae = Expected(MAE.label, *learned_mae, plain_mae[0], n, *plain_mae[1:], n_rows)
    return Expected(R2.label, *learned, plain[0], n, *plain[1:], n_rows, 0, mae)


def expect_ranking(folds: Sequence[Fold], *, whole_classes: bool) -> Expected:
    """MAP@R of unseen rows: those of new classes among all rows, others among the known ones."""
    y, groups = folds[0].y, folds[0].groups
    queries = np.concatenate([fold.unseen for fold in folds])
    results = []
    for place in range(2):
        values = _precisions(folds, place, whole_classes=whole_classes)
        able = np.isfinite(values)
        values, rows = values[able], queries[able]
        value = float(values.mean())
        if whole_classes:
            variance, n = group_variance(values - value, y[rows])
            variance *= CLASS_NOISE
        else:
            variance, n = ROW_NOISE * float(values.var()) / len(values), len(values)
            if groups is not None:
                between, n = group_variance(values - value, groups[rows])
                variance = max(variance, between)
        grouped = whole_classes or groups is not None
        results.append((value, *mean_interval(value, variance, n, grouped=grouped)))
    baseline, learned = results
    gallery = folds[0].gallery(whole_classes=whole_classes)
    size = len(gallery), len(np.unique(y[gallery]))
    return Expected(MAP_AT_R.label, *learned, baseline[0], len(values), *baseline[1:], *size)


def _precisions(folds: Sequence[Fold], place: int, *, whole_classes: bool) -> Vector:
    """Return the average precision at R of each unseen row by one of the metrics; nan if R is 0."""
    rankings = []
    # Rows of other classes among the first R, and in all: of new classes, and of known ones.
    near, there = np.zeros(2), np.zeros(2)
    for fold in folds:
        gallery, actual = fold.gallery(whole_classes=whole_classes), fold.y[fold.unseen]
        known = np.isin(np.arange(len(fold.y)), fold.known)
        sizes = np.bincount(fold.y[gallery], minlength=int(fold.y.max()) + 1)
        relevant = sizes[actual] - np.isin(fold.unseen, gallery)
        depth = int(relevant.max() * (_MOST_WEIGHT if whole_classes else 1))
        found = fold.nearest(fold.metrics[place], gallery, max(depth, 1))
        hits, of_known = fold.y[found] == actual[:, None], known[found]
        others = ~hits & (np.arange(found.shape[1]) < relevant[:, None])
        near += (others & ~of_known).sum(), (others & of_known).sum()
        n_known = int(known[gallery].sum())
        there += (len(gallery) - n_known - sizes[actual]).sum(), n_known * len(actual)
        rankings.append((hits, of_known, relevant))
    weight = 1.0
    if whole_classes and near.all():
        ratio = float(near[0] / there[0] / (near[1] / there[1]))
        weight = min(_MOST_WEIGHT, max(1 / _MOST_WEIGHT, ratio))
    values = []
    for hits, of_known, relevant in rankings:
        position = np.cumsum(np.where(of_known & ~hits, weight, 1.0), axis=1)
        counts = hits & (position <= relevant[:, None])
        precision = np.where(counts, np.cumsum(hits, axis=1) / position, 0.0).sum(axis=1)
        values.append(precision / np.where(relevant > 0, relevant, np.nan))
    return np.concatenate(values)


def expect_judgements(
    metrics: tuple[Metric, Metric], X: Floats, judgements: Triplets | Pairs
) -> Expected:
    """Weighted share of triplets in the wrong order, or of similar pairs that are farther."""
    triplets = isinstance(judgements, Triplets)
    measure = TRIPLET_ACCURACY if triplets else PAIR_AUC
    overlapping = OverlappingJudgements.of(judgements)
    results = []
    for metric in metrics:
        losses = measure.losses(HeldOutJudgements(metric, X, judgements))
        results.append((float(losses.mean()), *overlapping.interval(losses)))
    baseline, learned = results
    name = "triplet error" if triplets else "pair error"
    return Expected(name, *learned, baseline[0], len(judgements), *baseline[1:])
