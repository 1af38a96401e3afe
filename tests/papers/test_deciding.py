"""Further runs: how many, and of which tasks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from papers.cells import published
from papers.deciding import MOST_RUNS, deciding, wanted
from papers.task import StoredSplit, tasks
from papers.verdicts import Outcome, compared

CELL = next(cell for cell in published() if cell.id == "boostmetric/T1/Wine/Euclid")
TASK = next(task for task in tasks("boostmetric") if task.key == (CELL.id, "B1", "reference"))


def outcome(values, word=None):
    lines = tuple(
        {"run": run, "value": value, "seconds": 1.0, "n": [125, 53]}
        for run, value in enumerate(values)
    )
    found = Outcome(CELL, "B1", "reference", lines, stale=False)
    return replace(found, word=word or compared(found))


def spread(size, n):
    """Values around the printed 26.23."""
    return [CELL.value + (size if run % 2 else -size) for run in range(n)]


def test_undecided_cells_get_as_many_runs_as_their_spread_asks_for():
    few = outcome(spread(6.0, 10))
    assert few.word == "undecided"
    number = wanted(TASK, few)
    assert 10 < number < MOST_RUNS
    assert outcome(spread(6.0, number)).word == "consistent"
    assert wanted(TASK, outcome(spread(500.0, 10))) == MOST_RUNS


def test_others_are_only_completed():
    decided = outcome(spread(0.1, 12))
    assert decided.word == "consistent"
    assert wanted(TASK, decided) == 12
    assert wanted(TASK, outcome(spread(0.1, 4))) == 10
    assert wanted(TASK, outcome(spread(6.0, 4), "protocol unknown")) == 10
    stored = replace(TASK, runs=1, split=StoredSplit())
    assert wanted(stored, outcome([30.0], "undecided")) == 1


@pytest.mark.parametrize("reading", ["B1", "B5"])
def test_only_the_chosen_reading_counts(reading):
    found = {(CELL.id, "B1", "reference"): outcome(spread(6.0, 10))}
    waiting = deciding([replace(TASK, reading=reading)], found)
    assert bool(waiting) == (reading == "B1")
    assert [run for _, run in waiting] == list(range(10, 10 + len(waiting)))


def test_cross_validations_have_as_many_repetitions_as_printed():
    task = next(task for task in tasks("metricboost") if task.variant == "paper")
    cell = next(cell for cell in published() if cell.id == task.cell)
    lines = tuple({"run": run, "value": cell.value, "n": [36, 142]} for run in range(40))
    found = Outcome(cell, task.reading, "paper", lines, stale=False, word="reproduced")
    assert task.split.number == 5
    assert wanted(task, found) == 200
