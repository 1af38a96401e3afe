"""Which further runs would decide what is undecided.

A cell is undecided if the interval of our mean is too wide, whatever the mean is. The number of
runs that makes it narrow enough follows from their spread. Runs are therefore added for precision,
never for a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

import numpy as np

from papers.runner import FIRST_RUNS
from papers.task import Folds, OtherSplit, PerClass, RandomSplit, Task
from papers.verdicts import Key, Outcome, chosen, limit, own_width

MOST_RUNS = 200
SPARE = 1.1
"""Runs beyond the estimated number, for the spread is an estimate too."""


def deciding(tasks: Iterable[Task], found: dict[Key, Outcome]) -> list[tuple[Task, int]]:
    """Return the runs to add, of the cells that need the least time first.

    Only the reading whose baselines agree best counts, as in the table of totals. Cells with a
    verdict from fewer than ten runs are completed too.
    """
    best = chosen(found)
    waiting = []
    for task in tasks:
        outcome = best.get((task.cell, task.variant))
        if outcome is None or outcome.reading != task.reading or not outcome.lines:
            continue
        done = {line["run"] for line in outcome.lines}
        runs = [run for run in range(wanted(task, outcome)) if run not in done]
        seconds = float(np.median([line["seconds"] for line in outcome.lines]))
        waiting += [((seconds * len(runs), task.key, run), task, run) for run in runs]
    return [(task, run) for _, task, run in sorted(waiting, key=lambda each: each[0])]


def wanted(task: Task, outcome: Outcome) -> int:
    """Return how many runs a task should have."""
    drawn = isinstance(task.split, RandomSplit | OtherSplit | Folds | PerClass) and task.runs > 1
    n = len(outcome.lines)
    if outcome.word == "protocol unknown":
        return n
    if outcome.stale or n < FIRST_RUNS:
        return min(FIRST_RUNS, task.runs)
    if outcome.word != "undecided":
        return n
    most = max(MOST_RUNS, task.runs) if drawn else task.runs
    return min(most, ceil(SPARE * n * (own_width(outcome) / limit(outcome)) ** 2))
