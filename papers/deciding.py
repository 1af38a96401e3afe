"""Which further runs would decide what is undecided.

A cell is undecided if the interval of our mean is too wide, whatever the mean is. The number of
runs that makes it narrow enough follows from their spread. Runs are therefore added for precision,
never for a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

import numpy as np

from papers import results
from papers.runner import FIRST_RUNS
from papers.task import Folds, OtherSplit, PerClass, RandomSplit, Task
from papers.verdicts import (
    BASELINES,
    Key,
    Outcome,
    bound,
    compared,
    headline,
    own_width,
    printed_runs,
)

MOST_RUNS = 200
SPARE = 1.1
"""Runs beyond the estimated number, for the spread is an estimate too."""


def deciding(tasks: Iterable[Task], found: dict[Key, Outcome]) -> list[tuple[Task, int]]:
    """Return the runs to add, of the cells that need the least time first.

    Only the literal and the single reading of a paper count, as in the totals. Cells with fewer
    runs than printed, or than ten, are completed too.
    """
    told = {(paper, name) for each in headline(found).values() for paper, name in each.items()}
    waiting = []
    seen: set[str] = set()
    for task in tasks:
        outcome = found.get(task.key)
        if outcome is None or not outcome.lines or (outcome.cell.paper, task.reading) not in told:
            continue
        # Readings that differ elsewhere share their runs.
        today = results.described(task)
        name = results.digest({key: today[key] for key in today if key != "reading"})
        if name in seen:
            continue
        seen.add(name)
        done = {line["run"] for line in outcome.lines}
        runs = [run for run in range(wanted(task, outcome)) if run not in done]
        seconds = float(np.median([line["seconds"] for line in outcome.lines]))
        waiting += [((seconds * len(runs), task.key, run), task, run) for run in runs]
    return [(task, run) for _, task, run in sorted(waiting, key=lambda each: each[0])]


def wanted(task: Task, outcome: Outcome) -> int:
    """Return how many runs a task should have: as many as printed, ten at least.

    A run is a fold where the paper cross-validates.
    """
    cell, n = outcome.cell, len(outcome.lines)
    least = min(max(printed_runs(cell) or 0, FIRST_RUNS), task.runs)
    if outcome.stale or n < least:
        return least
    word = compared(outcome) if cell.method in BASELINES[cell.paper] else outcome.word
    if word != "undecided":
        return n
    drawn = isinstance(task.split, RandomSplit | OtherSplit | Folds | PerClass)
    most = max(MOST_RUNS, task.runs) if drawn else task.runs
    return min(most, ceil(SPARE * n * (own_width(outcome) / bound(cell)) ** 2))
