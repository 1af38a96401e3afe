"""Comparisons on a table: what folds it allows, and methods on labels, numbers and judgements."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from nearfar.columns import Columns
from nearfar.columns.measured import Measured
from nearfar.comparison import Comparison, compare
from nearfar.comparison.compared_methods import Learners
from nearfar.comparison.splits import judgement_groups, stratified_order
from nearfar.comparison.tasks import Features
from nearfar.constraints import Pairs, kind_of
from nearfar.runtime.notes import note
from nearfar.runtime.option_names import option
from nearfar.runtime.quoting import counted
from nearfar.tables.reader import columns_named
from nearfar.tables.table import Table
from nearfar.typing import Array, Ints
from nearfar.workflow.fitting import Progress, no_progress, supervision_of

# Rows that are compared in any case, and numbers in rows for each second of the budget: beyond,
# baselines alone would take all of it.
_FEWEST_ROWS, _VALUES_PER_SECOND = 20_000, 1e5


def compare_table(
    table: Table,
    learners: Learners = None,
    *,
    cv: int = 5,
    n_neighbors: int | Literal["auto"] = 3,
    random_state: int = 0,
    classifiers: bool = True,
    budget: float | None = None,
    split: Literal["rows", "classes"] = "rows",
    checkpoint: Path | None = None,
    progress: Progress = no_progress,
    spent: float = 0.0,
) -> Comparison:
    """Compare methods by the labels, numbers, triplets or pairs of a table.

    The parameters are those of `nearfar.compare`. What becomes of columns is learned again from the
    training rows of each fold. With a budget, a sample of many rows is compared, and a note says
    so. `spent` seconds of the budget are gone already; the sample does not depend on them, so that
    a checkpoint can be continued.
    """
    sample, n_rows = None, len(table)
    if budget is not None and table.y is not None:
        n_rows = affordable_rows(table, budget)
        budget = max(budget - spent, 0.0)
    if n_rows < len(table):
        more = f"increase {option('budget')} for more"
        note(f"compared methods on {n_rows} of {len(table)} rows, for lack of time; {more}.")
        sample = sampled_rows(table, n_rows, random_state)
        table = table.take(sample)
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
        numbers=table.kind == "numbers",
        classifiers=classifiers,
        budget=budget,
        random_state=random_state,
        progress=progress,
        checkpoint=checkpoint,
    )
    comparison.sample = sample
    comparison.name_copies(table.n_copies)
    comparison.remedy = f"Increase {option('budget')} to try everything"
    if table.leaking:
        it = "it" if len(table.leaking) == 1 else "they"
        comparison.caveat = (
            f"see the note on {columns_named(table.leaking)}: {it} may give the answer away"
        )
    return comparison


def affordable_rows(table: Table, seconds: float) -> int:
    """Return how many rows there is time for."""
    return max(_FEWEST_ROWS, int(_VALUES_PER_SECOND * seconds / table.X.shape[1]))


def sampled_rows(table: Table, n_rows: int, random_state: int = 0) -> Ints:
    """Return a sample of the rows, in their order; of classes a stratified one."""
    codes = np.zeros(len(table), dtype=np.intp)
    if table.kind == "labels":
        codes = np.unique(supervision_of(table), return_inverse=True)[1]
    return np.sort(stratified_order(codes, np.random.default_rng(random_state))[:n_rows])


def features_of(table: Table) -> Features | None:
    """Return what the columns are made of and how; None if all rows give the same numbers.

    They do if features are columns of numbers, or become numbers without anything to fill in.
    """
    if table.columns is None or table.cells is None:
        return None
    if all(isinstance(kind, Measured) and not kind.indicator for kind in table.columns.kinds_):
        return None
    return Features(table.cells, Columns(kinds=table.columns.kinds_, impute=table.columns.impute))


def check_folds(table: Table, cv: int, n_neighbors: int | str, split: str) -> None:
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
    if table.kind != "labels" and split == "classes":
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
        if table.kind == "numbers" and cv > len(table) // 2:
            raise ValueError(f"{folds} is more than half of the {len(table)} rows.")
        # Folds hold out as many small numbers as large ones.
        labels = np.arange(len(table)) % 2 if table.kind == "numbers" else supervision
        check = _check_classes if split == "classes" else _check_labels
        check(labels, cv, n_neighbors)


def _check_classes(labels: Array, cv: int, _: int | str) -> None:
    number = len(np.unique(labels))
    if number < 4:
        classes = option("split", "classes")
        raise ValueError(f"{classes} needs four classes or more; there are {number}.")
    if cv > number // 2:
        raise ValueError(
            f"{option('folds', cv)} is more than half of the {number} classes; every fold holds "
            f"out two classes or more. Use at most {option('folds', number // 2)}."
        )


def _check_labels(labels: Array, cv: int, n_neighbors: int | str) -> None:
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
    if not isinstance(n_neighbors, str) and n_neighbors > most:
        neighbors = option("neighbors", n_neighbors)
        raise ValueError(f"{neighbors} is more than the {most} training rows of a fold.")
    if sizes.min() < cv:
        smallest = f"the smallest class has {counted(sizes.min(), 'row')}"
        note(f"{smallest}, fewer than the {cv} folds.", warning=True)
