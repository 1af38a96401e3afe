"""How many iterations, and how much of what was learned: chosen on held-out data.

A fit passes through metrics M_1, M_2, ...; the prior metric is M_0. Trial fits on parts of the data
give the likelihood of what they did not see (`held_out`) under

    M(n, t) = (1 - t) M_0 + t M_n,     each with the same mean squared distance,

and n and t are those of the largest likelihood. The fit to all data then stops after n iterations,
and is shrunk to the prior; at t = 0 the result is the prior.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nearfar.constraints import Supervision
from nearfar.learners.selection.held_out import (
    HeldOut,
    Part,
    Validation,
    Weights,
    held_out_parts,
    mean_squared_distance,
    optimal_weights,
    sample,
)
from nearfar.metrics.gated import GatedMetric
from nearfar.metrics.metric import Metric
from nearfar.rows import Points
from nearfar.runtime.history import History, Iterations
from nearfar.typing import Floats, Vector

MAX_TRIAL_ROWS = 2000
"""The most rows that a trial fit learns from."""

_MAX_ROWS = 1000

Path = tuple[Metric, Iterator[tuple[int, Any]]]
"""The prior, and the metrics along a fit, each with its number of iterations."""

Follow = Callable[[Floats, Supervision], Path]
"""Rows and their supervision -> the path of a fit to them."""


class NotLinearError(ValueError):
    """Only linear metrics can be added up, and so be validated."""


@dataclass(frozen=True)
class Selection:
    """What was chosen.

    Attributes
    ----------
    n_iterations : int or None
        Number of iterations; None for all.
    shrinkage : float
        Share of the prior in the mean squared distance, 1 - t.
    """

    n_iterations: int | None = None
    shrinkage: float = 0.0

    def limit(self, history: History, solver: Iterations) -> Iterations:
        """Stop a solver after the chosen number of iterations."""
        with closing(solver):
            while True:
                try:
                    iteration = next(solver)
                except StopIteration as end:
                    return str(end.value)
                yield iteration
                if self.n_iterations is not None and len(history) >= self.n_iterations:
                    return "validation"

    def shrinkage_to(self, prior: Metric, X: Points, n_components: int | None) -> Shrinkage:
        """Return what shrinks a metric that was learned from the rows X."""
        rows = sample(np.arange(len(X)), _MAX_ROWS, np.random.RandomState(0))
        return Shrinkage(self.shrinkage, prior, X[rows], n_components)


@dataclass(frozen=True, eq=False)
class Shrinkage:
    """Adds a prior to learned metrics.

    Attributes
    ----------
    share : float
        Share of the prior in the mean squared distance.
    prior : Metric
    X : array of shape (n_samples, n_features)
        A sample of the rows that were learned from.
    n_components : int or None
        The most components of the result.
    """

    share: float
    prior: Metric
    X: Floats
    n_components: int | None

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
        L = Metric.from_matrix(factor.T @ factor).L
        if self.n_components is not None and self.n_components < len(L):
            P = part.rows_of(self.X) @ L.T
            axes = np.linalg.eigh(np.cov(P, rowvar=False))[1][:, ::-1]
            L = axes[:, : self.n_components].T @ L
        return Metric(L, part.feature_names, kernel_map=part.kernel_map, unit_rows=part.unit_rows)


def choose_selection(
    follow: Follow,
    X: Points,
    supervision: Supervision,
    *,
    fraction: float,
    validation: Validation,
    seed: int,
    required: bool = False,
) -> Selection:
    """Choose the number of iterations and the shrinkage on held-out parts.

    Parameters
    ----------
    follow : callable
        Follows a fit.
    X : array of shape (n_samples, n_features)
    supervision : Supervision
    fraction : float
        Share of the data that each trial fit holds out.
    validation : {"rows", "classes"}
    seed : int
    required : bool, default=False
        Whether to warn if no trial fit succeeds.
    """
    trials: list[Trial] = []
    reason = "there is too little to hold out"
    for part in held_out_parts(
        X,
        supervision,
        fraction=fraction,
        validation=validation,
        random_state=np.random.RandomState(seed),
        max_rows=MAX_TRIAL_ROWS,
    ):
        try:
            trials.append(Trial.of(follow, X[part.rows], part))
        except NotLinearError:
            raise
        except ValueError as error:
            # A part of few rows or constraints may have nothing to learn from.
            reason = str(error)
    if trials:
        return best_selection(trials)[0]
    if required:
        warnings.warn(
            f"validation_fraction={fraction} has no effect: no trial fit succeeded "
            f"({reason.rstrip('.')}).",
            ConvergenceWarning,
            stacklevel=4,
        )
    return Selection()


@dataclass(frozen=True, eq=False)
class Trial:
    """A trial fit, as its held-out part sees it.

    Attributes
    ----------
    held_out : HeldOut
    prior : array
        Table of the prior.
    numbers : list of int
        Numbers of iterations.
    tables : list of arrays
        Tables of the metrics after these numbers of iterations.
    """

    held_out: HeldOut
    prior: Floats
    numbers: list[int]
    tables: list[Floats]

    @classmethod
    def of(
        cls, follow: Follow, X: Floats, part: Part, metrics: list[Metric] | None = None
    ) -> Trial:
        """Follow a fit to the rows X of a part; its metrics are added to `metrics`, if given."""
        prior, path = follow(X, part.supervision)
        numbers, tables = [], []
        for number, metric in path:
            if not isinstance(metric, Metric):
                raise NotLinearError("Only metrics can be validated; use validation_fraction=None.")
            size = mean_squared_distance(metric, X)
            if size > 0:
                numbers.append(number)
                tables.append(part.held_out.table(metric) / size)
                if metrics is not None:
                    metrics.append(metric)
        size = mean_squared_distance(prior, X)
        if not tables or size <= 0:
            raise ValueError("All distances are zero.")
        return cls(part.held_out, part.held_out.table(prior) / size, numbers, tables)

    def place(self, number: int | None) -> int:
        """Return the place of the last metric after at most `number` iterations."""
        if number is None:
            return len(self.numbers) - 1
        return max(0, int(np.searchsorted(self.numbers, number, side="right")) - 1)

    def after(self, number: int | None) -> tuple[HeldOut, Floats]:
        """Return the tables of the prior and of the metric after a number of iterations."""
        return self.held_out, np.stack([self.prior, self.tables[self.place(number)]])


def best_selection(trials: Sequence[Trial]) -> tuple[Selection, Weights]:
    """Return what makes held-out data most likely, and the weights behind it."""
    best: Weights | None = None
    start: Vector | None = None
    chosen = 0
    numbers = sorted({number for trial in trials for number in trial.numbers})
    for number in numbers:
        found = optimal_weights([trial.after(number) for trial in trials], start)
        start = found.weights
        if best is None or found.value > best.value:
            best, chosen = found, number
    assert best is not None
    shrinkage = float(best.weights[0] / best.weights.sum()) if best.weights.any() else 1.0
    return Selection(None if chosen == numbers[-1] else chosen, shrinkage), best
