"""What a fit to all rows has beside the metric: how often votes are right, and notes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from nearfar.frames.table import Table
from nearfar.learners.base import MetricLearner
from nearfar.measures.neighbor_votes import (
    NUMBERS,
    Reliability,
    best_number,
    chosen_shares,
    class_shares,
)
from nearfar.metrics.gallery import Gallery
from nearfar.metrics.training_facts import Votes, class_digest
from nearfar.metrics.variants import as_metric
from nearfar.neighbors.calibration import cross_fitted
from nearfar.runtime.messages import note, option
from nearfar.runtime.progress import stage
from nearfar.supervision import Pairs, Triplets
from nearfar.typing import Array, Ints

Progress = Callable[[int, int, str], None]
"""Called with what is done, the total, and what is next."""


def supervision_of(table: Table) -> Array | Triplets | Pairs:
    """Return what to learn from, or raise ValueError if there is nothing."""
    if table.supervision is None:
        ways = f"{option('label')}, {option('triplets')} or {option('pairs')}"
        raise ValueError(f"{table.name} has nothing to learn from; give {ways}.")
    return table.supervision


def no_progress(done: int, total: int, label: str) -> None:
    """Show nothing."""


@stage("learning how often votes are right")
def votes_of(fitted: MetricLearner, learner: MetricLearner, table: Table) -> Votes | None:
    """Return how often votes are right on rows that took no part: others learn without them.

    Of numbers, return how many neighbours predict best. A learner that puts rows aside says what
    the votes on them were.
    """
    X, y, numbers = table.X, table.y, table.kind == "numbers"
    asked = getattr(fitted, "held_out_votes_", None)
    best = getattr(fitted, "n_neighbors_", None)
    if y is None:
        return None
    if numbers and best is not None:
        return Votes("", [], [], best)
    classes, codes = np.unique(y, return_inverse=True)
    values = y if numbers else codes
    most = min(NUMBERS[-1], len(X) // 2)

    def found(learned: Ints, seen: Ints, asked: Ints) -> Array:
        groups = None if table.groups is None else table.groups[learned]
        metric = as_metric(clone(learner).fit(X[learned], y[learned], groups=groups).metric_)
        return values[seen[Gallery(metric, X[seen]).search(X[asked]).nearest(most)[1]]]

    held_out = asked or cross_fitted(found, X, values, table.groups)
    if held_out is None:
        return None
    votes, actual = held_out
    if numbers:
        return Votes("", [], [], best_number([(votes, actual)], numbers=True))
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
    return Votes(class_digest(classes), counted, right, best)


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
