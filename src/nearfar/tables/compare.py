"""Comparisons on a table: by its labels, numbers or judgements."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from nearfar.columns import Columns
from nearfar.columns.measured import Measured
from nearfar.comparison import Comparison, compare
from nearfar.comparison.methods import Learners
from nearfar.comparison.tasks import Features, stratified_order
from nearfar.frames.reader import columns_named
from nearfar.frames.table import Table
from nearfar.runtime.messages import option
from nearfar.tables.fitting import Progress, no_progress, supervision_of
from nearfar.typing import Ints


def compare_table(
    table: Table,
    learners: Learners = None,
    *,
    cv: int = 5,
    n_neighbors: int | Literal["auto"] = "auto",
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
    training rows of each fold. `spent` seconds of the budget are gone already.
    """
    check_split(table, split)
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
        budget=None if budget is None else max(budget - spent, 0.0),
        random_state=random_state,
        progress=progress,
        checkpoint=checkpoint,
    )
    comparison.name_copies(table.n_copies)
    if table.leaking:
        it = "it" if len(table.leaking) == 1 else "they"
        comparison.caveat = (
            f"see the note on {columns_named(table.leaking)}: {it} may give the answer away"
        )
    return comparison


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


def check_split(table: Table, split: str) -> None:
    """Raise ValueError if classes are to be held out, and there are too few; in words of options.

    `compare` refuses the same in the words of its parameters.
    """
    if split != "classes":
        return
    classes = option("split", "classes")
    if table.kind != "labels":
        raise ValueError(f"{classes} needs class labels; give {option('label')}.")
    number = len(np.unique(supervision_of(table)))
    if number < 4:
        raise ValueError(f"{classes} needs four classes or more; there are {number}.")
