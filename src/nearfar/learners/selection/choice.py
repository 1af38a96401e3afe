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
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
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
_PATIENCE = 1
"""Stages without an improvement after which trial fits end."""

_WORTHWHILE = 1e-3
"""Relative increase of the likelihood for which to double the number of iterations."""

_TOLERANCE = 1e-5

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
    with ExitStack() as stack:
        for part in held_out_parts(
            X,
            supervision,
            fraction=fraction,
            validation=validation,
            random_state=np.random.RandomState(seed),
            max_rows=MAX_TRIAL_ROWS,
        ):
            try:
                trials.append(stack.enter_context(closing(Trial.of(follow, X[part.rows], part))))
            except NotLinearError:
                raise
            except ValueError as error:
                # A part of few rows or constraints may have nothing to learn from.
                reason = str(error)
        if trials:
            return best_choice(trials).selection
    if required:
        warnings.warn(
            f"validation_fraction={fraction} has no effect: no trial fit succeeded "
            f"({reason.rstrip('.')}).",
            ConvergenceWarning,
            stacklevel=4,
        )
    return Selection()


class Trial:
    """A fit to a part of the data, as its held-out part sees it.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Rows that are learned from.
    held_out : HeldOut
    prior : Metric
    path : generator of (int, Metric)
        The metrics along the fit, each with its number of iterations.

    Attributes
    ----------
    n_iterations : int
        Number of iterations so far.
    metric : Metric
        What they resulted in.
    tables : array of shape (2, ...)
        Tables of the prior and of the metric, both with a mean squared distance of one.
    """

    def __init__(
        self, X: Floats, held_out: HeldOut, prior: Metric, path: Iterator[tuple[int, Any]]
    ) -> None:
        self.X, self.held_out, self.path = X, held_out, path
        self.n_iterations = 0
        table = self._table(prior)
        if table is None:
            raise ValueError("All distances are zero.")
        self.prior = table
        if not self.advance():
            raise ValueError("All distances are zero.")

    @classmethod
    def of(cls, follow: Follow, X: Floats, part: Part) -> Trial:
        """Begin a fit to the rows X of a part."""
        return cls(X, part.held_out, *follow(X, part.supervision))

    def advance(self) -> bool:
        """Go on to the next metric; return whether there is one."""
        for number, metric in self.path:
            if not isinstance(metric, Metric):
                raise NotLinearError("Only metrics can be validated; use validation_fraction=None.")
            table = self._table(metric)
            if table is not None:
                self.n_iterations, self.metric = number, metric
                self.tables = np.stack([self.prior, table])
                return True
        return False

    def close(self) -> None:
        """End the fit."""
        self.path.close()  # type: ignore[attr-defined]

    def _table(self, metric: Metric) -> Floats | None:
        size = mean_squared_distance(metric, self.X)
        return self.held_out.table(metric) / size if size > 0 else None


@dataclass(frozen=True, eq=False)
class Choice:
    """The stage of some trial fits that makes held-out data most likely.

    Attributes
    ----------
    selection : Selection
    value : float
        Mean log-likelihood of held-out data, under the best sum of prior and metric.
    n_iterations : int
        Number of iterations at that stage.
    metrics : list of Metric
        The metric of each trial fit.
    tables : list of arrays
        Their tables, without those of the prior.
    """

    selection: Selection
    value: float
    n_iterations: int
    metrics: list[Metric]
    tables: list[Floats]

    @classmethod
    def of(cls, trials: Sequence[Trial], found: Weights) -> Choice:
        """Choose what the trial fits have now."""
        shrinkage = float(found.weights[0] / found.weights.sum()) if found.weights.any() else 1.0
        number = max(trial.n_iterations for trial in trials)
        return cls(
            Selection(number, shrinkage),
            found.value,
            number,
            [trial.metric for trial in trials],
            [trial.tables[1] for trial in trials],
        )


def best_choice(trials: Sequence[Trial]) -> Choice:
    """Follow trial fits side by side, until held-out data no longer become more likely."""
    best: Choice | None = None
    start: Vector | None = None
    n_worse = 0
    moving = True
    while moving:
        found = optimal_weights(
            [(trial.held_out, trial.tables) for trial in trials], start, tolerance=_TOLERANCE
        )
        start = found.weights
        if best is None or found.value > best.value + _WORTHWHILE * abs(best.value):
            best, n_worse = Choice.of(trials, found), 0
        else:
            n_worse += 1
        if n_worse >= _PATIENCE:
            return best
        moved = [trial.advance() for trial in trials]
        moving = any(moved)
    assert best is not None
    if n_worse == 0:
        return replace(best, selection=replace(best.selection, n_iterations=None))
    return best
