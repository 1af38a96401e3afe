"""`compare`: methods on the same folds of a table, by its labels, numbers or judgements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nearfar.columns import Columns
from nearfar.columns.measured import Measured
from nearfar.comparison import Comparison
from nearfar.comparison import compare as compare_rows
from nearfar.comparison.methods import ALL, Learners, default_methods
from nearfar.comparison.tasks import Features, stratified_order
from nearfar.evidence.verdict import UNSCALED
from nearfar.frames.reader import columns_named
from nearfar.frames.reading import read_table
from nearfar.frames.table import Table
from nearfar.runtime.messages import Note, collecting_notes, command_line, forwards
from nearfar.runtime.progress import parse_seconds
from nearfar.tables.checkpoint import FitCheckpoint
from nearfar.tables.fitting import Progress, no_progress, supervision_of
from nearfar.tables.methods import (
    METHOD_NAMES,
    SIMPLE,
    full_name,
    name_of,
    named_learners,
    settings_beside,
)
from nearfar.typing import Ints

# Options that `learn` does not have, or with another meaning.
_NOT_OF_LEARN = ["split", "json", "checkpoint", "budget", "folds", "neighbors", "classifiers"]


@forwards(read_table, "label numbers triplets pairs group ids drop numeric categorical text impute")
def compare(
    source: object = "",
    *,
    method: Sequence[str] = (),
    budget: str | None = "120s",
    checkpoint: str | PathLike[str] | None = None,
    split: Literal["rows", "classes"] = "rows",
    goal: Literal["classification", "ranking"] | None = None,
    folds: int = 5,
    neighbors: int = 0,
    random_state: int = 0,
    classifiers: bool = True,
    progress: Progress = no_progress,
    **reading: Any,
) -> Compared:
    """Compare Euclidean distance, plain methods and learners by cross-validation.

    Euclidean distance and the plain methods always take part. Methods learn from labels, numbers,
    triplets or pairs, and are tested on others.

    Parameters
    ----------
    source: Table, array, name of a dataset, or - for stdin.
    method: Method to compare; by default AutoMetric, the papers' methods, NCA, LMNN and closed
        forms. METHODS.
    budget: Time limit of the comparison: 60s, 5m or 1h.
    checkpoint: Save progress in this file; run the same command again to continue.
    split: What folds hold out: rows, or whole classes that nothing learned from.
    goal: What the next command is for; by default both.
    folds: Number of cross-validation folds.
    neighbors: Number of neighbours; 0 chooses it for each method.
    random_state: Random seed.
    classifiers: Show the errors of logistic regression and gradient boosting beside the methods.
    progress: Called with what is done, the total, and what is next.
    **reading: What to learn from, and what columns are: see `read_table`.
    """
    limit = parse_seconds(budget)
    learners = named_learners(method, seed=random_state)
    inputs = [source, *(reading.get(name) for name in ("label", "triplets", "pairs", "group"))]
    file = None if checkpoint is None else Path(checkpoint)
    with FitCheckpoint(file, inputs, fits=False) as kept, collecting_notes() as notes:
        table = read_table(source, required=True, **reading)
        plain = {each.name for each in default_methods((), supervision=table.kind)}
        for name in map(full_name, set(method) - {ALL}):
            if SIMPLE.get(name, UNSCALED) not in plain:
                raise ValueError(f"{name} learns from labels, not from {table.kind}.")
        comparison = compare_table(
            table,
            learners,
            cv=folds,
            n_neighbors=neighbors or "auto",
            random_state=random_state,
            classifiers=classifiers,
            budget=limit,
            split=split,
            checkpoint=kept.comparison,
            progress=progress,
        )
    return Compared(comparison, table.source, goal, [*notes, *comparison.findings])


compare.__doc__ = (compare.__doc__ or "").replace("METHODS", f"{', '.join(METHOD_NAMES)}, {ALL}")


@dataclass(frozen=True)
class Compared:
    """A comparison; prints as its table, and the commands that learn what it recommends."""

    comparison: Comparison
    source: str
    goal: str | None
    notes: Sequence[Note]

    def to_dict(self) -> dict[str, object]:
        """Return the comparison and its notes for JSON."""
        notes = [each.text for each in self.notes]
        return {"source": self.source, **self.comparison.to_dict(), "notes": notes}

    def __str__(self) -> str:
        return "\n".join([str(self.comparison), *self._next_commands()])

    def _next_commands(self) -> Iterator[str]:
        """Yield the command that learns what is recommended, once for each method."""
        names: set[str] = set()
        goals = dict(self.comparison.goals)
        for goal in [self.goal] if self.goal in goals else list(goals):
            used = goals[goal].recommended
            name = None if used is None else name_of(used.method)
            if used is None or name is None or name in names:
                continue
            changes: dict[str, Any] = dict.fromkeys(_NOT_OF_LEARN)
            changes |= {"method": name, "set": settings_beside(name, used.method)}
            changes["goal"] = goal if names or self.goal else None
            if command := command_line("learn", **changes):
                yield f"{f'For {goal}' if names else 'Next'}: {command}"
            names.add(name)


def compare_table(
    table: Table,
    learners: Learners = None,
    *,
    budget: float | None = None,
    spent: float = 0.0,
    **options: Any,
) -> Comparison:
    """Compare methods by the labels, numbers, triplets or pairs of a table.

    What becomes of columns is learned again from the training rows of each fold. `spent` seconds of
    the budget are gone already; `options` are those of `nearfar.compare`.
    """
    features = features_of(table)
    comparison = compare_rows(
        table.X if features is None else features.rows,
        supervision_of(table),
        learners,
        features=None if features is None else features.transformer,
        groups=table.groups,
        numbers=table.kind == "numbers",
        budget=None if budget is None else max(budget - spent, 0.0),
        **options,
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
