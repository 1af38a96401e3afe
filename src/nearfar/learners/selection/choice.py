"""How many iterations, and how much of what was learned: chosen on held-out data.

A fit passes through metrics M_1, M_2, ...; the prior metric is M_0. Trial fits on parts of the data
give the likelihood of what they did not see (`held_out`) under

    M(n, t) = (1 - t) M_0 + t M_n,     each with the same mean squared distance,

and n and t are those of the largest likelihood. The fit to all data then stops after n iterations,
and is shrunk to the prior; at t = 0 the result is the prior.

How many rows to learn from, where learning from all of them takes long.

Trial fits learn from 2,000 rows, 4,000, 8,000 and so on; each sample contains the one before. All
are judged on the same held-out rows. When twice as many rows did not help beyond noise, the fit
learns from as many as that, and from 8,000 at least. If they always help, it learns from 32,000, or
from all rows if there are fewer, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from nearfar.learners.problem import shortest_factor
from nearfar.learners.selection.held_out import (
    HeldOut,
    mean_squared_distance,
    optimal_weights,
    sample,
)
from nearfar.metrics.metric import Metric
from nearfar.metrics.variants import GatedMetric
from nearfar.numerics.linear_algebra import by_spread
from nearfar.rows import Points
from nearfar.typing import Floats, Vector

MAX_TRIAL_ROWS = 2000
"""The most rows that a trial fit learns from."""

# Rows whose mean squared distance is compared; more of them would change it little.
_MAX_ROWS = 1000

# Relative increase of the likelihood for which to double the number of iterations.
_WORTHWHILE = 1e-3

# Relative accuracy of the likelihood at a stage, far below what is worthwhile.
_TOLERANCE = 1e-6

Path = tuple[Metric, Generator[tuple[int, Any], None, None]]
"""The prior, and the metrics along a fit, each with its number of iterations."""


class NotLinearError(ValueError):
    """Only linear metrics can be added up, and so be validated."""


class RowsTried(NamedTuple):
    """A trial fit to some rows.

    `value` is the mean log-likelihood of held-out data, `gain` its increase over the trial fit to
    half as many rows, and `noise` the standard error of that.
    """

    n_rows: int
    value: float
    gain: float = float("nan")
    noise: float = float("nan")


@dataclass(frozen=True, eq=False)
class Selection:
    """What was chosen.

    Attributes
    ----------
    n_iterations: Number of iterations; None for all.
    shrinkage: Share of the prior in the mean squared distance, 1 - t.
    n_rows: Number of rows to learn from; None for all.
    curve: What trial fits to more and more rows were worth, if there were any.
    note: Why that many rows, in words.
    start: The metric that the fit continues from, if a trial fit went to the end.
    value: Mean log-likelihood of held-out data, under the best sum of prior and metric.
    weights: shape (2,). Weights of the prior and of the metric in it.
    stages: Where each trial fit was.
    held_out: What judged each trial fit.
    """

    n_iterations: int | None = None
    shrinkage: float = 0.0
    n_rows: int | None = None
    curve: tuple[RowsTried, ...] = ()
    note: str = ""
    start: Any = None
    value: float = math.nan
    weights: Vector | None = None
    stages: Sequence[Stage] = ()
    held_out: Sequence[HeldOut] = ()

    @property
    def n_tried(self) -> int:
        """Iterations of the longest trial fit."""
        return max(at.n_iterations for at in self.stages)

    @property
    def terms(self) -> Floats:
        """Log-likelihood of each held-out row."""
        parts: Any = zip(self.held_out, self.stages, strict=True)
        return np.concatenate([part.terms(self.weights, at.tables)[0] for part, at in parts])

    @property
    def without_stages(self) -> Selection:
        """The same, without the large tables of the trial fits."""
        return replace(self, stages=(), held_out=())

    def shrinkage_to(
        self, prior: Metric, X: Points, n_components: int | None, scale: Vector
    ) -> Shrinkage:
        """Return what shrinks a metric that was learned from the rows X."""
        rows = sample(np.arange(len(X)), _MAX_ROWS, np.random.RandomState(0))
        return Shrinkage(self.shrinkage, prior, X[rows], n_components, scale)


@dataclass(frozen=True, eq=False)
class Shrinkage:
    """Adds a prior to learned metrics.

    Attributes
    ----------
    share: Share of the prior in the mean squared distance.
    X: shape (n_samples, n_features). A sample of the rows that were learned from.
    n_components: The most components of the result.
    scale: shape (n_features,). Units of the features of the map: rows are orthogonal in
        them.
    """

    share: float
    prior: Metric
    X: Floats
    n_components: int | None
    scale: Vector

    def apply(self, metric: Metric) -> Metric:
        """Shrink a metric, which keeps its mean squared distance."""
        learned = mean_squared_distance(metric, self.X)
        given = mean_squared_distance(self.prior, self.X)
        if self.share == 0 or not (learned > 0 and given > 0):
            return metric
        weights = np.sqrt([self.share * learned / given, 1 - self.share])
        parts = [self._sum(part, weights) for part in metric.parts]
        if isinstance(metric, GatedMetric):
            return GatedMetric(parts, metric.V, metric.b)
        return parts[0].with_votes(metric.votes)

    def _sum(self, part: Metric, weights: Floats) -> Metric:
        factor = np.vstack([weights[0] * self.prior.L, weights[1] * part.L])
        L = shortest_factor(factor * self.scale)
        if self.n_components is not None and self.n_components < len(L):
            points = part.rows_of(self.X) / self.scale
            L = by_spread(L, np.cov(points, rowvar=False))[1][: self.n_components]
        L = L / self.scale
        return Metric(L, part.feature_names, feature_map=part.feature_map, unit_rows=part.unit_rows)


class Stage(NamedTuple):
    """Where a trial fit is: iterations so far, their metric, and its table after the prior's."""

    n_iterations: int
    metric: Metric
    tables: Floats


class Trial:
    """A fit to a part of the data, as its held-out part sees it.

    Parameters
    ----------
    X: shape (n_samples, n_features). Rows that are learned from.
    path: The metrics along the fit, each with its number of iterations.
    any_form: Whether metrics with a gate will do, to which no prior can be added.

    Attributes
    ----------
    stage: The last stage. Its tables have a mean squared distance of one.
    """

    stage: Stage

    def __init__(
        self,
        X: Floats,
        held_out: HeldOut,
        prior: Metric,
        path: Iterator[tuple[int, Metric]],
        *,
        any_form: bool = False,
    ) -> None:
        self.X, self.held_out, self.path, self.any_form = X, held_out, path, any_form
        table = self._table(prior)
        if table is None:
            raise ValueError("All distances are zero.")
        self.prior = table
        if not self.advance():
            raise ValueError("All distances are zero.")

    def advance(self) -> bool:
        """Go on to the next metric; return whether there is one."""
        for number, metric in self.path:
            if not (isinstance(metric, Metric) or self.any_form):
                raise NotLinearError("Only metrics can be validated; use validation_fraction=None.")
            table = self._table(metric)
            if table is not None:
                self.stage = Stage(number, metric, np.stack([self.prior, table]))
                return True
        return False

    def _table(self, metric: Metric) -> Floats | None:
        size = mean_squared_distance(metric, self.X)
        return self.held_out.table(metric) / size if size > 0 else None


def best_choice(trials: Sequence[Trial], patience: int) -> Selection:
    """Follow trial fits side by side, until held-out data no longer become more likely.

    They end after `patience` stages without an improvement.
    """
    held_out = [trial.held_out for trial in trials]
    best, weights, n_worse, moving = Selection(value=-math.inf), None, 0, True
    while moving:
        stages = [trial.stage for trial in trials]
        parts = [(part, at.tables) for part, at in zip(held_out, stages, strict=True)]
        weights, value = optimal_weights(parts, weights, tolerance=_TOLERANCE)
        if not best.stages or value > best.value + _WORTHWHILE * abs(best.value):
            shrinkage = float(weights[0] / weights.sum()) if weights.any() else 1.0
            number = max(at.n_iterations for at in stages)
            best = Selection(
                number, shrinkage, value=value, weights=weights, stages=stages, held_out=held_out
            )
            n_worse = 0
        else:
            n_worse += 1
        advanced = [trial.advance() for trial in trials] if n_worse < patience else []
        moving = any(advanced)
    return replace(best, n_iterations=None) if n_worse == 0 else best


EXACT_ROWS = 16_000
"""Up to this number of rows, all are learned from: trial fits would take as long."""

LEAST_ROWS = 8000
"""The fewest rows that a larger table is learned from, also if half as many did as well."""

MOST_ROWS = 32_000
"""The most rows that are learned from unless all are asked for: time must not grow without end."""

MOST_HELD_OUT = 4000, 1000
"""Rows that judge, and rows that they are found among: noise depends on the number of the first."""

# Gain of the mean log-likelihood that is not worth four times the time: where all rows but one in a
# thousand find their class, more of them change nothing that matters.
_NEGLIGIBLE = 1e-3


def select_rows(n_rows: int, choose: Callable[[int], Selection]) -> Selection:
    """Try more and more rows; return the best choice, and how many rows to learn from.

    Parameters
    ----------
    n_rows: Number of rows that there are.
    choose: Number of rows -> what a trial fit to as many chose.
    """
    size = MAX_TRIAL_ROWS
    before = choose(size)
    curve, more_help = [RowsTried(size, before.value)], True
    while more_help and 4 * size <= min(n_rows, MOST_ROWS):
        size *= 2
        now = choose(size)
        gains = now.terms - before.terms
        gain, noise = float(gains.mean()), float(gains.std() / np.sqrt(len(gains)))
        more_help = gain > max(noise, _NEGLIGIBLE)
        curve.append(RowsTried(size, now.value, gain, noise))
        before = now if gain > 0 else before
    learned = min(n_rows, MOST_ROWS) if more_help else max(LEAST_ROWS, size)
    last = curve[-1]
    note = (
        f"Learned from {learned:,} of {n_rows:,} rows: {size:,} instead of {size // 2:,} changed "
        f"the held-out value by {last.gain:.1g}, with a standard error of {last.noise:.1g}."
    )
    if more_help and learned < n_rows:
        note += ' More rows may help: max_rows="all".'
    number = None if learned == n_rows else learned
    return replace(before.without_stages, n_rows=number, curve=tuple(curve), note=note)
