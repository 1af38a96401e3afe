"""What to expect of a metric on new data, with an interval.

    numbers     R2 of the mean of the nearest training rows, and its mean absolute error
    labels      error of the vote of the nearest training rows; to rank, MAP@R among them
    classes     MAP@R of rows of new classes among as many rows and classes as there are in all
    triplets    weighted share in the wrong order
    pairs       probability that a dissimilar pair is nearer than a similar one

A level depends on how many rows there are to find. Held-out rows are not there to vote: errors are
extrapolated to all rows, a little. Rows of new classes are ranked among all rows, of which
those that were learned from may be easier or harder to tell apart (`_precisions`). Queries of one
class, rows of one group, and judgements that share rows, are not independent: their intervals allow
for that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nearfar.evidence.intervals import (
    OverlappingJudgements,
    group_variance,
    mean_interval,
    ratio_interval,
)
from nearfar.learners.selection.held_out import sample
from nearfar.measures.neighbor_votes import (
    MOST_VOTERS,
    NUMBERS,
    HeldOutVotes,
    LinearPrior,
    SoftVotes,
)
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
)
from nearfar.metrics.gallery import Gallery
from nearfar.metrics.metric import Metric
from nearfar.runtime.messages import bars, counted, fragment
from nearfar.supervision import Pairs, Triplets
from nearfar.typing import Array, Floats, Ints, Vector

# Ratio of the errors with twice as many rows: over the regimes of `benchmarks/claims.py`, it is
# 0.89 to 0.99.
_ERROR_FALL = 0.97

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
    baseline: The measure without learning, on the same data, with whole votes of as many
        neighbours as are best then.
    n: Number of rows or constraints that it was measured on.
    baseline_low, baseline_high: 90 % confidence interval of the baseline.
    rows, classes: Size of the gallery that the measure is for; 0 for judgements. Among more
        classes, MAP@R is lower.
    mae: The mean absolute error beside R2.
    gain: What learning gains with whole votes, the mean over 1 to 25 neighbours, in standard
        errors; None without votes.
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
    gain: float | None = None

    @property
    def worse(self) -> bool:
        """Whether Euclidean distance does better on these data; beyond noise if rows vote."""
        if self.gain is not None:
            return self.gain < -1
        gain = self.value - self.baseline
        return gain < 0 if self.registered.better == "higher" else gain > 0

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

    def nearest(self, metric: Metric, gallery: Ints, k: int) -> tuple[Floats, Ints]:
        """Return distances and rows of a gallery nearest to each unseen row but itself."""
        inside = np.isin(self.unseen, gallery).any()
        depth = min(k + int(inside), len(gallery))
        search = Gallery(metric, self.X[gallery]).search(self.X[self.unseen])
        distances, found = search.nearest(depth)
        found = gallery[found]
        if not inside:
            return distances, found
        # Of copies of a row, another one may come first: the row itself goes to the end.
        order = np.argsort(found == self.unseen[:, None], axis=1, kind="stable")[:, :-1]
        by_row = np.take_along_axis(distances, order, axis=1)
        return by_row, np.take_along_axis(found, order, axis=1)

    @cached_property
    def votes(self) -> tuple[HeldOutVotes, HeldOutVotes]:
        """Neighbours of the unseen rows among the known ones, without and with learning."""
        queries, actual = self.X[self.unseen], self.y[self.unseen]
        X, y = self.X[self.known], self.y[self.known]
        linear, n_classes = LinearPrior.of(X, y), 0
        if y.dtype.kind != "f":
            n_classes = int(self.y.max()) + 1
        place = np.empty(len(self.y), dtype=np.intp)
        place[self.known] = np.arange(len(self.known))
        plain, learned = (
            HeldOutVotes.of((distances, place[rows]), (actual, y), queries, linear, None, n_classes)
            for distances, rows in (
                self.nearest(metric, self.known, MOST_VOTERS) for metric in self.metrics
            )
        )
        return plain, learned


Votes = tuple[tuple[int, SoftVotes | None], tuple[int, SoftVotes | None]]
"""How many whole votes are best, and the best soft votes, without and with learning."""


def expect_error(folds: Sequence[Fold], n_rows: int, votes: Votes) -> Expected:
    """Error of the nearest neighbours among `n_rows` rows, on the unseen rows of all folds."""
    found, gain, groups, growth = _missed(folds, n_rows, votes)
    fall = _ERROR_FALL**growth
    plain, learned = (_error(fall * float(own.mean()), own, groups) for own in found)
    size = n_rows, len(np.unique(folds[0].y))
    return Expected(ERROR.label, *learned, plain[0], len(found[0]), *plain[1:], *size, gain=gain)


def _missed(
    folds: Sequence[Fold], n_rows: int, votes: Votes
) -> tuple[list[Vector], float, Ints | None, float]:
    """Return what votes without and with learning miss the unseen rows by, and three more.

    These are what learning gains with whole votes, the groups, and how often rows double.
    """
    (plain, _), (whole, soft) = votes
    found, power = [], 2 if folds[0].votes[0].numbers else 1
    for j, own in enumerate((SoftVotes(plain), soft or SoftVotes(whole))):
        found.append(np.concatenate([fold.votes[j].missed(own) for fold in folds]))
    whole_votes = [
        sum(
            fold.votes[0].missed(SoftVotes(k)) ** power
            - fold.votes[1].missed(SoftVotes(k)) ** power
            for k in NUMBERS
        )
        for fold in folds
    ]
    groups = None
    if folds[0].groups is not None:
        groups = np.concatenate([np.asarray(fold.groups)[fold.unseen] for fold in folds])
    gains = np.concatenate(whole_votes)
    each = np.arange(len(gains)) if groups is None else groups
    noise = math.sqrt(group_variance(gains - gains.mean(), each)[0])
    gain = float(gains.mean()) / noise if noise > 0 else 0.0
    growth = n_rows / float(np.mean([len(fold.known) for fold in folds]))
    return found, gain, groups, math.log2(growth)


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


def expect_numbers(folds: Sequence[Fold], n_rows: int, votes: Votes) -> Expected:
    """R2 and mean absolute error of the nearest neighbours among `n_rows` rows.

    The variance of the numbers is that of all rows; that it is estimated, too, and from some of the
    same rows, is part of the interval.
    """
    y = folds[0].y
    missed, gain, _, growth = _missed(folds, n_rows, votes)
    unseen = np.concatenate([fold.unseen for fold in folds])
    found = []
    for power, unit, noise in ((2, (y - y.mean()) ** 2, R2.noise), (1, np.ones(len(y)), MAE.noise)):
        fall = _SQUARES_FALL ** (growth * power / 2)
        own = []
        for losses in (each**power for each in missed):
            value = fall * float(losses.mean()) / float(unit.mean())
            settings: Any = {
                "ratio": value,
                "rows": unseen,
                "noise": noise,
                "groups": folds[0].groups,
            }
            own.append((value, *ratio_interval(losses, unit, **settings)))
        found.append(own)
    plain, learned = ((1 - value, 1 - high, 1 - low) for value, low, high in found[0])
    plain_mae, learned_mae = found[1]
    n = len(unseen)
    mae = Expected(MAE.label, *learned_mae, plain_mae[0], n, *plain_mae[1:], n_rows)
    return Expected(R2.label, *learned, plain[0], n, *plain[1:], n_rows, mae=mae, gain=gain)


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
        found = fold.nearest(fold.metrics[place], gallery, max(depth, 1))[1]
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
