"""A fit to all rows: the fit itself, what it found, how sure its votes are."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from nearfar.comparison import Method
from nearfar.frames.table import Table
from nearfar.learners.base import MetricLearner
from nearfar.learners.selection.auto import AutoMetric
from nearfar.learners.selection.auto_problem import EUCLIDEAN
from nearfar.learners.selection.expectation import Expected
from nearfar.measures.neighbor_votes import (
    NUMBERS,
    Reliability,
    best_number,
    chosen_shares,
    class_shares,
)
from nearfar.metrics.gallery import Gallery
from nearfar.metrics.metric import Metric
from nearfar.metrics.training_facts import Votes, class_digest
from nearfar.metrics.variants import as_metric
from nearfar.neighbors.calibration import cross_fitted
from nearfar.runtime.messages import counted, note, option
from nearfar.runtime.progress import stage
from nearfar.supervision import Pairs, Triplets
from nearfar.tables.checkpoint import FitCheckpoint
from nearfar.typing import Array, Ints

Progress = Callable[[int, int, str], None]
"""Called with what is done, the total, and what is next."""

# So many shares of a blend fit in a line.
_SHARES_SHOWN = 6
_SCALED = {"standard": "standardised rows", "cosine": "rows of unit length"}


def supervision_of(table: Table) -> Array | Triplets | Pairs:
    """Return what to learn from, or raise ValueError if there is nothing."""
    if table.supervision is None:
        ways = f"{option('label')}, {option('triplets')} or {option('pairs')}"
        raise ValueError(f"{table.name} has nothing to learn from; give {ways}.")
    return table.supervision


def no_progress(done: int, total: int, label: str) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class MethodFit:
    """A method after learning from all rows.

    Attributes
    ----------
    metric: None if the method's distance is not a metric.
    learner: The fitted learner, if the method is one.
    iterations: Its iterations, including those before an interruption.
    votes: How often votes of neighbours are right on rows that took no part, if there are
        labels.
    """

    method: Method
    metric: Metric | None
    seconds: float
    learner: MetricLearner | None = None
    iterations: int | None = None
    votes: Votes | None = None

    @property
    def stopped(self) -> str | None:
        """Why a learner stopped."""
        return None if self.learner is None else self.learner.history_.stopped

    @property
    def expected(self) -> Expected | None:
        """What to expect on new data, if the learner put some data aside."""
        return getattr(self.learner, "expected_", None)

    @property
    def weights(self) -> dict[str, float] | None:
        """Shares of learners in a blend, the largest first; None if it is not a blend."""
        if not isinstance(self.learner, AutoMetric):
            return None
        weights: dict[str, float] = self.learner.weights_
        return {n: w for n, w in sorted(weights.items(), key=lambda item: -item[1]) if w > 0}

    @property
    def detail(self) -> str:
        """What the fit consists of: iterations, or shares of a blend; it ends a sentence."""
        if self.weights is not None and set(self.weights) == {EUCLIDEAN}:
            rows = _SCALED.get(str(getattr(self.learner, "scale_", None)), "unscaled rows")
            return f": nothing is better than Euclidean distance on {rows}"
        if self.weights is not None:
            names = {EUCLIDEAN: "Euclidean distance"}
            shares = [f"{100 * w:.0f} % {names.get(n, n)}" for n, w in self.weights.items()]
            n_more = len(shares) - _SHARES_SHOWN
            more = f" and {n_more} more" if n_more > 0 else ""
            return f": {', '.join(shares[:_SHARES_SHOWN])}{more}"
        if self.iterations is None:
            return ""
        return f" ({counted(self.iterations, 'iteration')}, stopped: {self.stopped})"


@stage("learning how often votes are right")
def calibrated(fit: MethodFit, table: Table) -> MethodFit:
    """Add how often votes are right on rows that took no part: the method learns without them.

    Of numbers, add how many neighbours predict best.

    A learner that puts rows aside says what the votes on them were.
    """
    estimator, X, y = fit.method.estimator, table.X, table.supervision
    asked = getattr(fit.learner, "held_out_votes_", None)
    best = getattr(fit.learner, "n_neighbors_", None)
    numbers = table.kind == "numbers"
    if fit.metric is None or not isinstance(y, np.ndarray):
        return fit
    if asked is None and fit.expected is not None and not numbers:
        return fit
    if numbers and best is not None:
        return replace(fit, votes=Votes("", [], [], best))
    classes, codes = np.unique(y, return_inverse=True)
    values = y if numbers else codes
    most = min(NUMBERS[-1], len(X) // 2)

    def votes_of(learned: Ints, seen: Ints, asked: Ints) -> Array:
        metric: Metric | None
        if isinstance(estimator, MetricLearner):
            groups = None if table.groups is None else table.groups[learned]
            metric = as_metric(clone(estimator).fit(X[learned], y[learned], groups=groups).metric_)
        else:
            metric = fit.method.learn(X[learned], y[learned])
        assert metric is not None
        return values[seen[Gallery(metric, X[seen]).search(X[asked]).nearest(most)[1]]]

    votes, actual = asked or cross_fitted(votes_of, X, values, table.groups) or (None, codes)
    if votes is None:
        return fit
    if numbers:
        return replace(fit, votes=Votes("", [], [], best_number([(votes, actual)], numbers=True)))
    by_count = [
        Reliability.of(class_shares(votes[:, :k], len(classes)), actual, k)
        for k in range(1, min(NUMBERS[-1], votes.shape[1]) + 1)
    ]
    if best is None:
        best, shares = chosen_shares(votes, actual, len(classes))
        by_count[best - 1] = Reliability.of(shares, actual, best)
    counted, right = (
        [getattr(r, name).tolist() for r in by_count] for name in ("counted", "right")
    )
    return replace(fit, votes=Votes(class_digest(classes), counted, right, best))


def fit_method(
    method: Method,
    table: Table,
    checkpoint: FitCheckpoint,
    seconds: float | None,
    progress: Progress = no_progress,
    *,
    compared: bool = False,
) -> MethodFit:
    """Learn from all rows.

    A learner that plans its time takes about `seconds`; others take what they need. If it was
    `compared`, the comparison tells what to expect, and the learner need not.
    """
    if seconds is not None and method.plans_time:
        method = method.within(seconds)
    if table.kind == "numbers":
        method = method.for_numbers()
    progress(0, 1, f"{method.name} on all rows")
    start, y = time.perf_counter(), supervision_of(table)
    with convergence_notes():
        if not isinstance(method.estimator, MetricLearner):
            metric = method.learn(table.X, y)
            described = None if metric is None else table.described(metric)
            return calibrated(MethodFit(method, described, time.perf_counter() - start), table)
        learner = clone(method.estimator)
        if compared and learner.tells_expected:
            learner.set_params(expected_folds=1)
        iterations = checkpoint.fit(learner, table.X, y, table.described, table.groups)
    if left_out := untried_candidates(learner):
        note(left_out, warning=True)
    metric = table.described(learner.metric_)
    fit = MethodFit(method, metric, time.perf_counter() - start, learner, iterations)
    return calibrated(fit, table)


@contextmanager
def convergence_notes() -> Iterator[None]:
    """Collect warnings about convergence as notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        yield
    for warning in caught:
        note(str(warning.message), warning=True)


def untried_candidates(learner: MetricLearner) -> str:
    """Say which candidates a blend left out, and why; empty if it tried them all."""
    names: dict[str, list[str]] = {}
    for entry in getattr(learner, "leaderboard_", []):
        if entry["note"]:
            names.setdefault(entry["note"].rstrip("."), []).append(entry["name"])
    parts = [f"{', '.join(group)} ({why})" for why, group in names.items()]
    return f"{type(learner).__name__} left out {'; '.join(parts)}." if parts else ""
