"""Verdicts: what the stored runs say about each printed number, and about the order of methods.

A difference is ours minus the printed number, with the sign turned so that positive is better. Its
95 % interval is Welch's, from the printed standard deviation and number of runs and from our runs.
Where the paper prints no spread, ours is taken for both; where it prints no number of runs, ours.
Baselines are judged by the 99 % interval: at 95 %, one or two of a table's baselines would miss by
chance alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import ndtri, stdtrit

from nearfar.comparison.significance import fold_test
from papers import results
from papers.cells import Cell, documents, match
from papers.results import Line
from papers.task import Array, Task, tasks

BASELINES = {
    "boostmetric": ("Euclid", "RCA", "LMNN"),
    "metricboost": ("Euclid", "Mahal"),
    "drmetric": ("Euclid", "L1", "chi2"),
    "maxmargin": ("Euclid", "RCA", "LMNN"),
    "msnca": ("kNN", "SVM", "LMNN"),
}
"""Methods of a row that must agree before others are judged: the first, and one of the others.

The first learns nothing. The others have one solution, but programs of the same name differ, for
instance in how they shrink a covariance: therefore one that agrees is enough.
"""
BASELINE_TABLES = {("boostmetric", "T2"): "T1"}
"""Tables without baselines, and the table with those of the same data and size of split."""
WORDS = ("reproduced", "better", "worse", "undecided", "protocol unknown", "not run")
LEVEL = 0.05
BASELINE_LEVEL = 0.01
FEWEST_CELLS = 5
"""A reading with fewer cells of the own method does not explain a paper."""

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Outcome:
    """What the runs of a task give.

    `stale` says that the method's code or parameters, or the data's preparation, differ today.
    """

    cell: Cell
    reading: str
    variant: str
    lines: tuple[Line, ...]
    stale: bool
    word: str = "not run"
    why: str = ""

    @property
    def values(self) -> Array:
        """Values of the runs, in percent."""
        return np.array([line["value"] for line in self.lines])

    @property
    def mean(self) -> float:
        """Mean of the runs."""
        return float(self.values.mean())

    @property
    def sd(self) -> float:
        """Spread of the runs; of a single run, that of its number of errors."""
        if len(self.lines) > 1:
            return float(self.values.std(ddof=1))
        return float(np.sqrt(self.mean * (100 - self.mean) / self.lines[0]["n"][1]))


@dataclass(frozen=True)
class Order:
    """Whether a paper's own method is ahead of another one, printed and here."""

    own: Outcome
    other: Outcome
    printed_ahead: bool
    ahead: float
    p_value: float

    @property
    def word(self) -> str:
        """Return "holds", "reversed" or "not significant"."""
        if self.p_value >= LEVEL:
            return "not significant"
        return "holds" if (self.ahead > 0) == self.printed_ahead else "reversed"


def outcomes(folder: Path = results.FOLDER) -> dict[Key, Outcome]:
    """Return the outcome of every task, with its verdict."""
    stored = results.by_cell(folder)
    found = {task.key: _collected(task, stored[task.cell, task.variant]) for task in tasks()}
    return {key: _judged(outcome, found) for key, outcome in found.items()}


def _collected(task: Task, lines: list[Line]) -> Outcome:
    today = results.described(task)
    current = [line for line in lines if results.is_current(line, today)]
    older = [line for line in lines if line["reading"] == task.reading]
    if older and not current:
        last = {name: older[-1].get(name) for name in today}
        older = [line for line in older if results.is_current(line, last)]
    kept = {line["run"]: line for line in (current or older)}
    runs = tuple(kept[run] for run in sorted(kept))
    return Outcome(
        results.cells()[task.cell], task.reading, task.variant, runs, bool(older and not current)
    )


def interval(outcome: Outcome, level: float = LEVEL) -> tuple[float, float, float]:
    """Return the difference from the printed number, positive if better, and its interval."""
    cell, n = outcome.cell, len(outcome.lines)
    runs = printed_runs(cell) or n
    sd = outcome.sd if cell.sd is None else cell.sd
    parts = outcome.sd**2 / n, sd**2 / runs
    error = float(np.sqrt(sum(parts)))
    degrees = sum(part**2 / max(m - 1, 1) for part, m in zip(parts, (n, runs), strict=True))
    width = float(stdtrit(error**4 / degrees, 1 - level / 2)) * error if error > 0 else 0.0
    difference = (outcome.mean - cell.value) * (1 if cell.better == "higher" else -1)
    return difference, difference - width, difference + width


def printed_runs(cell: Cell) -> int | None:
    """Return the printed number of runs.

    A run of ours is a fold where the paper cross-validates. A printed spread may be that of whole
    cross-validations; without one their folds count.
    """
    table = next(table for table in documents()[cell.paper]["table"] if table["id"] == cell.table)
    runs: int | None = match(table.get("runs", {}), cell.row)
    folds: int | None = table.get("folds")
    if runs is None or folds is None:
        return runs or folds
    return runs * folds if cell.sd is None else runs


def compared(outcome: Outcome, level: float = LEVEL) -> str:
    """Return the verdict of an outcome by its interval alone.

    A difference is small if it is at most a tenth of the printed error. An interval with zero in it
    is too wide if our runs alone make it reach farther than one point and than a tenth of the
    printed error: more runs would tell more. The spread of the printed runs cannot be lessened.
    """
    difference, low, high = interval(outcome, level)
    if low <= 0 <= high:
        return "reproduced" if own_width(outcome) <= limit(outcome) else "undecided"
    if abs(difference) <= _tenth(outcome):
        return "reproduced"
    return "better" if difference > 0 else "worse"


def limit(outcome: Outcome) -> float:
    """Return how wide half of the interval of our mean may be, for a verdict."""
    return max(1.0, _tenth(outcome))


def _tenth(outcome: Outcome) -> float:
    """Return a tenth of the printed error."""
    value = outcome.cell.value
    return (value if outcome.cell.better == "lower" else 100 - value) / 10


def own_width(outcome: Outcome) -> float:
    """Return half of the width of the interval of our mean; a single run has that of its errors."""
    n = len(outcome.lines)
    quantile = stdtrit(n - 1, 1 - LEVEL / 2) if n > 1 else ndtri(1 - LEVEL / 2)
    return float(quantile * outcome.sd / np.sqrt(n))


def _judged(outcome: Outcome, found: Mapping[Key, Outcome]) -> Outcome:
    if not outcome.lines:
        return outcome
    word, why = compared(outcome), ""
    if "seconds" in outcome.cell.measure:
        word, why = "protocol unknown", "seconds of another machine; only the order compares"
    elif outcome.cell.method not in BASELINES[outcome.cell.paper][:2]:
        why = _baseline_problem(outcome, found)
        word = "protocol unknown" if why else word
    return Outcome(
        outcome.cell, outcome.reading, outcome.variant, outcome.lines, outcome.stale, word, why
    )


def _baseline_problem(outcome: Outcome, found: Mapping[Key, Outcome]) -> str:
    """Return why the row's baselines do not support a verdict, or nothing."""
    cell = outcome.cell
    first, *others = (
        found.get((_sibling(cell, method), outcome.reading, "reference"))
        for method in BASELINES[cell.paper]
    )
    rows = [row for row in others if row is not None and row.cell.id != cell.id]
    if first is None:
        return "no baseline is printed"
    problems = [_disagrees(row) for row in rows]
    if problem := _disagrees(first):
        return problem
    return " and ".join(problems) if all(problems) else ""


def _disagrees(row: Outcome) -> str:
    """Return how a baseline differs from its printed number, or nothing."""
    if not row.lines:
        return f"{row.cell.method} is not run"
    if compared(row, BASELINE_LEVEL) in ("better", "worse"):
        return f"{row.cell.method} is {row.mean:.2f}, printed {row.cell.value}"
    return ""


def _sibling(cell: Cell, method: str) -> str:
    table = BASELINE_TABLES.get((cell.paper, cell.table), cell.table)
    return f"{cell.paper}/{table}/{cell.row}/{method}"


def chosen(found: Mapping[Key, Outcome]) -> dict[tuple[str, str], Outcome]:
    """Return one outcome for each cell and variant: of the reading whose baselines agree best.

    This reading is known only when the baselines have been run; `first_listed` is known before.
    """
    best = [min(row.values(), key=_misses) for row in _by_row(found).values()]
    return {(each.cell.id, each.variant): each for row in best for each in row}


def first_listed(found: Mapping[Key, Outcome]) -> dict[tuple[str, str], Outcome]:
    """Return one outcome for each cell and variant: of the reading listed first."""
    first = [next(iter(row.values())) for row in _by_row(found).values()]
    return {(each.cell.id, each.variant): each for row in first for each in row}


def explaining(found: Mapping[Key, Outcome]) -> dict[tuple[str, str], Outcome]:
    """Return one outcome for each cell and variant: of one reading for each paper.

    It is the reading under which the largest share of the own method's cells, and at least
    `FEWEST_CELLS` of them, is reproduced: it is chosen by the results that it explains. Rows
    without it have the reading of `chosen`.
    """
    words: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for each in found.values():
        if each.variant == "paper" and each.lines:
            words[each.cell.paper, each.reading][each.word] += 1
    shares = {
        key: counted["reproduced"] / counted.total()
        for key, counted in words.items()
        if counted.total() >= FEWEST_CELLS
    }
    best = {key[0]: key[1] for key in sorted(shares, key=lambda key: shares[key])}
    mine = [each for each in found.values() if each.reading == best.get(each.cell.paper)]
    return chosen(found) | {(each.cell.id, each.variant): each for each in mine}


def _by_row(found: Mapping[Key, Outcome]) -> dict[tuple[str, str, str], dict[str, list[Outcome]]]:
    """Return the outcomes of each row by reading, in the order of the protocol."""
    readings: dict[tuple[str, str, str], dict[str, list[Outcome]]] = {}
    for outcome in found.values():
        cell = outcome.cell
        row = readings.setdefault((cell.paper, cell.table, cell.row), {})
        row.setdefault(outcome.reading, []).append(outcome)
    return readings


def _misses(row: list[Outcome]) -> int:
    """Return how many baselines of a row under one reading are missing for a verdict."""
    agree = {each.cell.method: each.lines and not _disagrees(each) for each in row}
    first, *others = (agree.get(method) for method in BASELINES[row[0].cell.paper])
    return (not first) + (not any(others))


def orders(found: Mapping[Key, Outcome]) -> Iterator[Order]:
    """Yield, for each own method and comparator of a row, whether the printed order holds here.

    The test is paired by split, and corrected for splits that share rows.
    """
    rows: dict[tuple[str, str, str, str], list[Outcome]] = defaultdict(list)
    for outcome in found.values():
        cell = outcome.cell
        rows[cell.paper, cell.table, cell.row, outcome.reading].append(outcome)
    for row in rows.values():
        for own in row:
            for other in row:
                if own.cell.own and not other.cell.own and own.cell.value != other.cell.value:
                    order = _order(own, other)
                    if order is not None:
                        yield order


def _order(own: Outcome, other: Outcome) -> Order | None:
    theirs = {line["run"]: line for line in other.lines}
    pairs = [
        (line, theirs[line["run"]])
        for line in own.lines
        if line["run"] in theirs and line["split"] == theirs[line["run"]]["split"]
    ]
    if len(pairs) < 2:
        return None
    sign = 1 if own.cell.better == "higher" else -1
    ahead = np.array([sign * (mine["value"] - their["value"]) for mine, their in pairs])
    train, test = pairs[0][0]["n"]
    p_value = fold_test(ahead, min(train, test) / max(train, test))
    printed = sign * (own.cell.value - other.cell.value) > 0
    return Order(own, other, printed, float(ahead.mean()), p_value)
