"""How many iterations, and how much of what was learned: chosen on held-out data.

A fit passes through metrics M_1, M_2, ...; the prior metric is M_0. Trial fits on parts of the data
give the likelihood of what they did not see (`held_out`) under

    M(n, t) = (1 - t) M_0 + t M_n,     each with the same mean squared distance,

and n and t are those of the largest likelihood. The fit to all data then stops after n iterations,
and is shrunk to the prior: t = 0 is to leave the distance as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nearfar.constraints import ConstraintsOver
from nearfar.learners.held_out import (
    HeldOut,
    Part,
    Weighing,
    held_out_parts,
    mean_squared_distance,
    sample,
    weigh,
)
from nearfar.metrics.gated import GatedMetric
from nearfar.metrics.metric import Metric
from nearfar.rows import Points
from nearfar.runtime.history import History, Iterations
from nearfar.typing import Floats, Vector

if TYPE_CHECKING:
    from nearfar.learners.base import MetricLearner

MAX_TRIAL_ROWS = 2000
"""The most rows that a trial fit learns from."""

_MAX_ROWS = 1000


@dataclass(frozen=True)
class Plan:
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
        return Metric(L, part.feature_names, unit_rows=part.unit_rows)


def choose_plan(
    learner: MetricLearner, X: Points, supervision: Any, scale: str | None, fraction: float
) -> Plan:
    """Choose the number of iterations and the shrinkage on held-out parts.

    Parameters
    ----------
    learner : MetricLearner
    X : array of shape (n_samples, n_features)
    supervision : array of class codes, or constraints
    scale : {"standard", "unit", "cosine"} or None
    fraction : float
        Share of the data that each trial fit holds out.
    """
    if isinstance(supervision, ConstraintsOver):
        supervision = supervision.constraints
    seed = learner.random_state if isinstance(learner.random_state, int) else 0
    trials = []
    for part in held_out_parts(
        X,
        supervision,
        fraction=fraction,
        validation=learner.validation,
        random_state=np.random.RandomState(seed),
        max_rows=MAX_TRIAL_ROWS,
    ):
        try:
            trials.append(Trial.of(learner, X[part.rows], part, scale, seed))
        except ValueError:
            # A part of few rows or constraints may have nothing to learn from.
            continue
    return best_plan(trials)[0] if trials else Plan()


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
        Tables of the metrics after so many.
    """

    held_out: HeldOut
    prior: Floats
    numbers: list[int]
    tables: list[Floats]

    @classmethod
    def of(
        cls,
        learner: MetricLearner,
        X: Floats,
        part: Part,
        scale: str | None,
        seed: int,
        *,
        one_map: bool = False,
    ) -> Trial:
        """Follow a fit to the rows X of a part; with `one_map`, refuse metrics with a gate."""
        prior, path = learner._trial(X, part.supervision, scale, seed)
        numbers, tables = [], []
        for number, metric in path:
            linear = isinstance(metric, Metric) and metric.kernel_map is None
            if not linear or (one_map and len(metric.parts) > 1):
                raise ValueError("Only linear metrics can be added up.")
            size = mean_squared_distance(metric, X)
            if size > 0:
                numbers.append(number)
                tables.append(part.held_out.table(metric) / size)
        size = mean_squared_distance(prior, X)
        if not tables or size <= 0:
            raise ValueError("All distances are zero.")
        return cls(part.held_out, part.held_out.table(prior) / size, numbers, tables)

    def after(self, number: int) -> tuple[HeldOut, Floats]:
        """Return the tables of the prior and of the metric after so many iterations."""
        place = int(np.searchsorted(self.numbers, number, side="right")) - 1
        return self.held_out, np.stack([self.prior, self.tables[max(0, place)]])


def best_plan(trials: Sequence[Trial]) -> tuple[Plan, Weighing]:
    """Return the plan under which held-out data are most likely, and the weights behind it."""
    best: Weighing | None = None
    start: Vector | None = None
    chosen = 0
    numbers = sorted({number for trial in trials for number in trial.numbers})
    for number in numbers:
        found = weigh([trial.after(number) for trial in trials], start)
        start = found.weights
        if best is None or found.value > best.value:
            best, chosen = found, number
    assert best is not None
    shrinkage = float(best.weights[0] / best.weights.sum()) if best.weights.any() else 1.0
    return Plan(None if chosen == numbers[-1] else chosen, shrinkage), best
