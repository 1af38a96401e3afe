"""Comparisons on a table: what folds it allows, methods on labels and judgements, and numbers."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Literal

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, KFold

from nearfar.comparison import Comparison, compare
from nearfar.comparison.compared_methods import (
    STANDARDISED,
    UNSCALED,
    Learners,
    euclidean_metrics,
)
from nearfar.comparison.splits import judgement_groups
from nearfar.comparison.tasks import Features
from nearfar.constraints import Pairs, kind_of
from nearfar.evaluate import knn_r2
from nearfar.learners.base import MetricLearner
from nearfar.runtime.notes import note
from nearfar.runtime.option_names import option
from nearfar.runtime.quoting import counted
from nearfar.tables.reader import columns_named
from nearfar.tables.table import Table
from nearfar.typing import Array, Vector
from nearfar.workflow.evaluation import LEARNED
from nearfar.workflow.fitting import Progress, no_progress, supervision_of


def compare_table(
    table: Table,
    learners: Learners = None,
    *,
    cv: int = 5,
    n_neighbors: int = 3,
    random_state: int = 0,
    classifiers: bool = True,
    budget: float | None = None,
    split: Literal["rows", "classes"] = "rows",
    checkpoint: Path | None = None,
    progress: Progress = no_progress,
) -> Comparison:
    """Compare methods by the labels, triplets or pairs of a table.

    The parameters are those of `nearfar.compare`. What becomes of columns is learned again from the
    training rows of each fold.
    """
    check_folds(table, cv, n_neighbors, split)
    features = features_of(table)
    comparison = compare(
        table.X if features is None else features.rows,
        supervision_of(table),
        learners,
        features=None if features is None else features.transformer,
        cv=cv,
        groups=table.groups,
        split=split,
        n_neighbors=n_neighbors,
        classifiers=classifiers,
        budget=budget,
        random_state=random_state,
        progress=progress,
        checkpoint=checkpoint,
    )
    comparison.n_copies = table.n_copies
    comparison.remedy = f"Increase {option('budget')} to try everything"
    if table.leaking:
        it = "it" if len(table.leaking) == 1 else "they"
        comparison.caveat = (
            f"see the note on {columns_named(table.leaking)}: {it} may give the answer away"
        )
    return comparison


def features_of(table: Table) -> Features | None:
    """Return what the columns are made of and how; None if features are columns of numbers."""
    if table.columns is None or table.cells is None:
        return None
    return Features(table.cells, table.columns.column_transformer())


def check_folds(table: Table, cv: int, n_neighbors: int, split: str) -> None:
    """Raise ValueError if there is too little for the folds; the message says how many there are.

    `compare` refuses the same in the words of its parameters.
    """
    supervision, folds = supervision_of(table), option("folds", cv)
    listed = None if isinstance(supervision, np.ndarray) else supervision
    if table.groups is not None:
        groups = table.groups if listed is None else table.groups[listed.index]
        number = len(np.unique(groups))
        if cv > number:
            what = "of rows" if listed is None else f"that have {kind_of(listed)}"
            raise ValueError(f"{folds} is more than the {counted(number, 'group')} {what}.")
    if listed is not None and split == "classes":
        label = option("label")
        raise ValueError(f"{option('split', 'classes')} needs class labels; give {label}.")
    if listed is not None and table.groups is None:
        number = len(np.unique(judgement_groups(listed, cv)))
        what = counted(number, "anchor")
        if isinstance(listed, Pairs):
            what = f"{counted(number, 'group')} of pairs that share rows"
        what = f"{number} people who answered" if listed.n_raters > 1 else what
        if cv > number:
            raise ValueError(f"{folds} is more than the {what}.")
    if isinstance(supervision, np.ndarray):
        check = _check_classes if split == "classes" else _check_labels
        check(supervision, cv, n_neighbors)


def _check_classes(labels: Array, cv: int, _: int) -> None:
    number = len(np.unique(labels))
    if number < 4:
        classes = option("split", "classes")
        raise ValueError(f"{classes} needs four classes or more; there are {number}.")
    if cv > number // 2:
        raise ValueError(
            f"{option('folds', cv)} is more than half of the {number} classes; every fold holds "
            f"out two classes or more. Use at most {option('folds', number // 2)}."
        )


def _check_labels(labels: Array, cv: int, n_neighbors: int) -> None:
    sizes = np.unique(labels, return_counts=True)[1]
    largest = int(sizes.max())
    if largest < 2:
        raise ValueError("Every row has a class of its own; there is nothing to learn from.")
    if cv > largest:
        raise ValueError(
            f"{option('folds', cv)} is more than the rows of the largest class ({largest}); "
            f"use at most {option('folds', largest)}."
        )
    most = len(labels) - int(np.ceil(len(labels) / cv))
    if n_neighbors > most:
        neighbors = option("neighbors", n_neighbors)
        raise ValueError(f"{neighbors} is more than the {most} training rows of a fold.")
    if sizes.min() < cv:
        smallest = f"the smallest class has {counted(sizes.min(), 'row')}"
        note(f"{smallest}, fewer than the {cv} folds.", warning=True)


def held_out_regression(
    learner: MetricLearner,
    table: Table,
    *,
    cv: int = 5,
    n_neighbors: int = 3,
    random_state: int = 0,
    progress: Progress = no_progress,
) -> dict[str, Vector]:
    """Return R^2 of nearest neighbours with each distance, on the rows of each fold.

    Parameters
    ----------
    learner : MetricLearner
        It learns from numbers.
    table : Table
        With numbers to predict.
    cv : int
        Number of folds; a group is never on both sides of one.
    n_neighbors : int
        Number of neighbours whose mean predicts.
    random_state : int
        Seed of the folds.
    progress : callable, optional

    Returns
    -------
    dict of str to array of shape (cv,)
        For unscaled and standardised Euclidean distance, and "learned".
    """
    y, groups = np.asarray(table.supervision), table.groups
    if cv > len(y) or n_neighbors > len(y) - -(-len(y) // cv):
        raise ValueError(f"{len(y)} rows are too few for {cv} folds and {n_neighbors} neighbours.")
    if groups is not None and cv > groups.max() + 1:
        raise ValueError(f"{option('folds', cv)} is more than the {groups.max() + 1} groups.")
    scores: dict[str, list[float]] = {name: [] for name in (UNSCALED, STANDARDISED, LEARNED)}
    kind = KFold if groups is None else GroupKFold
    splitter = kind(cv, shuffle=True, random_state=random_state)
    features = features_of(table)
    for number, (train, test) in enumerate(splitter.split(table.X, groups=groups)):
        progress(number, cv, "folds")
        X = table.X if features is None else features.fitted(train)(np.arange(len(y)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            inner = None if groups is None else groups[train]
            metric = clone(learner).fit(X[train], y[train], groups=inner).metric_
        for name, scored in {**euclidean_metrics(X[train]), LEARNED: metric}.items():
            rows = X[train], y[train], X[test], y[test]
            scores[name].append(knn_r2(scored, *rows, n_neighbors=n_neighbors))
    return {name: np.array(values) for name, values in scores.items()}


def describe_regression(scores: dict[str, Vector]) -> str:
    """Say whether learning from numbers helped.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.workflow.comparing import describe_regression
    >>> scores = {"Euclidean (unscaled)": [0.5, 0.6], "Euclidean (standardised)": [0.6, 0.7]}
    >>> scores["learned"] = [0.8, 0.9]
    >>> describe_regression({name: np.array(r2) for name, r2 in scores.items()})
    'The learned metric is better than Euclidean (standardised) by 20.0 points.'
    """
    baseline = max((STANDARDISED, UNSCALED), key=lambda name: scores[name].mean())
    gain = scores[LEARNED] - scores[baseline]
    # Folds share training rows; two standard errors are a rough bound, as for the table's marks.
    noise = 2 * gain.std(ddof=1) / np.sqrt(len(gain))
    if gain.mean() > noise:
        return f"The learned metric is better than {baseline} by {100 * gain.mean():.1f} points."
    if gain.mean() < -noise:
        return f"The learned metric is worse than {baseline}; use {baseline}."
    return f"Learning did not clearly help: the difference to {baseline} is within noise."
