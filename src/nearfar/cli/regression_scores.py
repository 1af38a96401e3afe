"""Cross-validation on numbers to predict: a learner and Euclidean distance."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, KFold

from nearfar.cli.errors import UserError
from nearfar.cli.terminal import say, show_table
from nearfar.comparison.compared_methods import STANDARDISED, UNSCALED, euclidean_metrics
from nearfar.evaluate import knn_r2
from nearfar.learners.base import MetricLearner
from nearfar.typing import Floats, Ints, Vector

LEARNED = "learned"


def held_out_regression(
    learner: MetricLearner,
    X: Floats,
    y: Vector,
    groups: Ints | None = None,
    *,
    folds: int,
    neighbors: int,
    seed: int,
    progress: Callable[[int, int, str], None],
) -> dict[str, Vector]:
    """Return R^2 of nearest neighbours with each distance, on the rows of each fold."""
    if folds > len(y) or neighbors > len(y) - -(-len(y) // folds):
        raise UserError(f"{len(y)} rows are too few for {folds} folds and {neighbors} neighbours.")
    scores: dict[str, list[float]] = {name: [] for name in (UNSCALED, STANDARDISED, LEARNED)}
    if groups is not None and folds > groups.max() + 1:
        raise UserError(f"--folds {folds} is more than the {groups.max() + 1} groups.")
    kind = KFold if groups is None else GroupKFold
    splitter = kind(folds, shuffle=True, random_state=seed)
    for number, (seen, unseen) in enumerate(splitter.split(X, groups=groups)):
        progress(number, folds, "folds")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            inner = None if groups is None else groups[seen]
            metric = clone(learner).fit(X[seen], y[seen], groups=inner).metric_
        for name, scored in {**euclidean_metrics(X[seen]), LEARNED: metric}.items():
            held_out = X[unseen], y[unseen]
            scores[name].append(knn_r2(scored, X[seen], y[seen], *held_out, n_neighbors=neighbors))
    return {name: np.array(values) for name, values in scores.items()}


def show_held_out(scores: dict[str, Vector]) -> None:
    """Print the scores, and whether learning helped."""
    rows = [
        (name, f"{100 * values.mean():.1f} ± {100 * values.std(ddof=1):.1f}")
        for name, values in scores.items()
    ]
    show_table(["distance", "held-out rows, R² %"], rows)
    baseline = max((STANDARDISED, UNSCALED), key=lambda name: scores[name].mean())
    gain = scores[LEARNED] - scores[baseline]
    noise = 2 * gain.std(ddof=1) / np.sqrt(len(gain))
    if gain.mean() > noise:
        say(f"The learned metric is better than {baseline} by {100 * gain.mean():.1f} points.")
    elif gain.mean() < -noise:
        say(f"The learned metric is worse than {baseline}; use {baseline}.")
    else:
        say(f"Learning did not clearly help: the difference to {baseline} is within noise.")
