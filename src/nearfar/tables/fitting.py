"""What a fit to all rows has beside the metric: how neighbours vote, and notes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nearfar.frames.table import Table
from nearfar.learners.base import MetricLearner
from nearfar.metrics.metric import Metric
from nearfar.metrics.training_facts import Votes, class_digest
from nearfar.metrics.variants import as_metric
from nearfar.neighbors.calibration import as_chosen, decide, held_out_votes
from nearfar.runtime.messages import note, option
from nearfar.runtime.progress import stage
from nearfar.supervision import Pairs, Triplets
from nearfar.typing import Array, Floats, Ints

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


@stage("learning how neighbours vote")
def votes_of(fitted: MetricLearner, learner: MetricLearner, table: Table) -> Votes | None:
    """Return how neighbours vote best on held-out rows, and how often they are right."""
    X, y, numbers = table.X, table.y, table.kind == "numbers"
    if y is None:
        return None
    classes, codes = np.unique(y, return_inverse=True)

    def fit_to(some: Ints) -> tuple[Metric, Callable[[Ints], Floats]]:
        groups = None if table.groups is None else table.groups[some]
        again = as_chosen(learner, fitted).fit(X[some], y[some], groups=groups)
        return as_metric(again.metric_), lambda rows: X[rows]

    values = y.astype(np.float64) if numbers else codes
    voting = decide(fitted, lambda: held_out_votes(fit_to, X, values, table.groups))
    curve, margins = voting.reliability, voting.margins
    votes = asdict(voting.votes) | {"linear": int(voting.votes.linear)}
    found = Votes("" if numbers else class_digest(classes), voting.best, **votes)
    if curve is not None:
        rows, sums, hits = (tuple(a.tolist()) for a in (curve.counted, curve.stated, curve.right))
        found = replace(found, counted=rows, stated=sums, right=hits)
    if margins is not None:
        scores = tuple(margins.scores.tolist())
        found = replace(found, base=margins.base, scores=scores, n_rows=margins.n_rows)
    return found


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
