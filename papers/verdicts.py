"""Verdicts: what the stored runs say about each printed number, and about the order of methods.

A difference is ours minus the printed number, with the sign turned so that positive is better. Its
95 % interval is Welch's, from the printed standard deviation and number of runs and from our runs.
Where the paper prints no spread, ours is taken for both; where it prints no number of runs, ours.

- reproduced: the two means are equivalent, for the 90 % interval lies within `bound` (two
  one-sided tests at the 5 % level)
- consistent: the 95 % interval has zero in it, and our runs are many enough; the spread of the
  paper's few runs leaves it open whether the means are equivalent
- better, worse: the interval has no zero in it
- undecided: it has, but our own runs are too few
- protocol unknown: the row's baselines do not agree with theirs, so that it says nothing

One cell alone is judged mildly where the paper has few runs. `joint_tests` put the rows of a table
together, and tell whether the differences of all of them are chance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.special import chdtrc, ndtr, ndtri, stdtr, stdtrit

from papers import results
from papers.cells import Cell, documents, match
from papers.results import Line
from papers.task import PAPERS, Array, Task, protocol, tasks

BASELINES = {
    "boostmetric": ("Euclid", "RCA", "LMNN"),
    "metricboost": ("Euclid", "Mahal", "COP A"),
    "drmetric": ("Euclid", "L1", "chi2"),
    "maxmargin": ("Euclid", "RCA", "LMNN"),
    "msnca": ("kNN", "SVM", "LMNN"),
}
"""Methods of a row that must agree before others are judged: the first, and one of the others.

The first learns nothing. The others have one solution, but programs of the same name differ, for
instance in how they shrink a covariance: therefore one that agrees is enough. COP A was chosen
before its results were looked at: of MetricBoost's comparators it alone has neither a random subset
nor a parameter to tune.
"""
BASELINE_TABLES = {("boostmetric", "T2"): "T1"}
"""Tables without baselines, and the table with those of the same data and size of split."""
COUNTED_ONCE = {("boostmetric", "T2"): "v=1e-7"}
"""Tables whose columns are the same fits but for rounding, and the one that counts for a row."""
WORDS = (
    "reproduced",
    "consistent",
    "better",
    "worse",
    "undecided",
    "protocol unknown",
    "not run",
)
LEVEL = 0.05
BASELINE_LEVEL = 0.01
"""Of the baselines of a table, one or two would miss by chance alone at 5 %."""
LEAST_BOUND, MOST_BOUND = 0.5, 2.0
CAPPED, NEARER = 9.0, 0.1
"""The most that a squared difference counts where a reading is chosen, in units of the bound; and
by how much the mean must be smaller than that of the literal reading."""

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
    difference, error, degrees = welch(outcome)
    width = float(stdtrit(degrees, 1 - level / 2)) * error if error > 0 else 0.0
    return difference, difference - width, difference + width


def welch(outcome: Outcome) -> tuple[float, float, float]:
    """Return the difference, positive if better, its standard error and degrees of freedom."""
    cell, n = outcome.cell, len(outcome.lines)
    runs = printed_runs(cell) or n
    sd = outcome.sd if cell.sd is None else cell.sd
    parts = outcome.sd**2 / n, sd**2 / runs
    error = float(np.sqrt(sum(parts)))
    spent = sum(part**2 / max(m - 1, 1) for part, m in zip(parts, (n, runs), strict=True))
    difference = (outcome.mean - cell.value) * (1 if cell.better == "higher" else -1)
    return difference, error, error**4 / spent if spent > 0 else 1.0


def standardised(outcome: Outcome) -> float:
    """Return the difference as a standard normal score with the tail of Welch's test."""
    difference, error, degrees = welch(outcome)
    if error == 0:
        return 0.0 if difference == 0 else float(np.copysign(8.0, difference))
    tail = max(float(stdtr(degrees, -abs(difference) / error)), 1e-15)
    return float(np.copysign(-ndtri(tail), difference))


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


def bound(cell: Cell) -> float:
    """Return the points by which two means may differ and still count as equivalent.

    One printed standard deviation, or a tenth of the printed error where none is printed; at least
    half a point and at most two.
    """
    error = cell.value if cell.better == "lower" else 100 - cell.value
    scale = error / 10 if cell.sd is None else cell.sd
    return min(max(scale, LEAST_BOUND), MOST_BOUND)


def compared(outcome: Outcome, level: float = LEVEL) -> str:
    """Return the verdict of an outcome by its intervals alone."""
    most = bound(outcome.cell)
    difference, low, high = interval(outcome, 2 * level)
    if -most <= low and high <= most:
        return "reproduced"
    difference, low, high = interval(outcome, level)
    if low <= 0 <= high:
        return "consistent" if own_width(outcome) <= most else "undecided"
    return "better" if difference > 0 else "worse"


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
        word, why = "protocol unknown", "seconds of another machine; see the page on speed"
    elif outcome.cell.method not in BASELINES[outcome.cell.paper][:2]:
        why = _baseline_problem(outcome, found)
        word = "protocol unknown" if why else word
    return replace(outcome, word=word, why=why)


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
    word = compared(row, BASELINE_LEVEL)
    if word in ("better", "worse"):
        return f"{row.cell.method} is {row.mean:.2f}, printed {row.cell.value}"
    return f"{row.cell.method} has too few runs" if word == "undecided" else ""


def _sibling(cell: Cell, method: str) -> str:
    table = BASELINE_TABLES.get((cell.paper, cell.table), cell.table)
    return f"{cell.paper}/{table}/{cell.row}/{method}"


@dataclass(frozen=True)
class JointTest:
    """Whether the differences of a column's rows together are chance.

    `chi_square` is the sum of their squared standardised differences; `mean` is their mean, which
    shows a common direction: positive is better than printed.
    """

    table: str
    method: str
    reading: str
    rows: int
    chi_square: float
    mean: float

    @property
    def p_value(self) -> float:
        """Chance of a sum as large."""
        return float(chdtrc(self.rows, self.chi_square))

    @property
    def p_direction(self) -> float:
        """Chance of a mean as far from zero."""
        return float(2 * ndtr(-abs(self.mean) * np.sqrt(self.rows)))


def joint_tests(found: Mapping[Key, Outcome], variant: str = "paper") -> Iterator[JointTest]:
    """Yield the joint tests of the own method's columns, of rows whose baselines agree."""
    columns: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for each in found.values():
        judged = each.word not in ("protocol unknown", "not run")
        if each.variant == variant and judged and counts(each.cell):
            name = (each.cell.table, each.cell.method, each.reading)
            columns[name].append(standardised(each))
    for name, scores in columns.items():
        z = np.array(scores)
        yield JointTest(*name, len(z), float((z**2).sum()), float(z.mean()))


def counts(cell: Cell) -> bool:
    """Return whether a cell counts; of columns that are the same fits only one does."""
    return COUNTED_ONCE.get((cell.paper, cell.table), cell.method) == cell.method


def literal(paper: str) -> str:
    """Return the reading that is the printed text, and our first guess where it says nothing."""
    return next(iter(protocol(paper).READINGS))


def single(found: Mapping[Key, Outcome], paper: str) -> str:
    """Return the reading of a whole paper that is nearest to the own method's printed numbers.

    Of the readings with results for all cells that the literal one has, it is the one with the
    smallest mean squared difference in units of `bound`, each capped. The literal one stays
    if no other is nearer by `NEARER`. The number of runs plays no part. It is chosen by the results
    that it explains: it says what may have been run, not what the text says.
    """
    first = literal(paper)
    own: dict[str, dict[str, float]] = defaultdict(dict)
    for each in found.values():
        counted = counts(each.cell) and "seconds" not in each.cell.measure
        if counted and each.cell.paper == paper and each.variant == "paper" and each.lines:
            units = (each.mean - each.cell.value) / bound(each.cell)
            own[each.reading][each.cell.id] = min(units**2, CAPPED)
    whole = [name for name in protocol(paper).READINGS if own[name].keys() >= own[first].keys()]

    def distance(name: str) -> float:
        return float(np.mean([own[name][cell] for cell in own[first]] or [0.0]))

    nearest = min(whole, key=distance)
    return nearest if distance(first) - distance(nearest) > NEARER else first


def of_reading(
    found: Mapping[Key, Outcome], readings: Mapping[str, str]
) -> dict[tuple[str, str], Outcome]:
    """Return one outcome for each cell and variant, of one reading for each paper.

    Where a cell or a variant has no task under it, its first-listed reading counts.
    """
    first = {(each.cell.id, each.variant): each for each in reversed(list(found.values()))}
    mine = [each for each in found.values() if each.reading == readings[each.cell.paper]]
    return first | {(each.cell.id, each.variant): each for each in mine}


def headline(found: Mapping[Key, Outcome]) -> dict[str, dict[str, str]]:
    """Return the literal and the single reading of each paper."""
    return {
        "as printed": {paper: literal(paper) for paper in PAPERS},
        "one reading": {paper: single(found, paper) for paper in PAPERS},
    }


def orders(found: Mapping[Key, Outcome]) -> Iterator[Order]:
    """Yield, for each own method and comparator of a row, whether the printed order holds here.

    The test is paired by split, and corrected for splits that share rows: the variance of a mean
    is that of the differences times 1 / runs + test rows / training rows.
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
    p_value = fold_test(ahead, test / train)
    printed = sign * (own.cell.value - other.cell.value) > 0
    return Order(own, other, printed, float(ahead.mean()), p_value)


def fold_test(difference: Array, test_share: float) -> float:
    """p-value of the mean over folds that share training rows; 0 for a single fold.

    It is Student's test, with the variance increased for these rows (C. Nadeau, Y. Bengio:
    Inference for the generalization error, Machine Learning 52, 2003).
    """
    tested = difference[~np.isnan(difference)]
    if len(tested) < 2:
        return 0.0
    if not tested.any():
        return 1.0
    error = float(tested.std(ddof=1)) * (1 / len(tested) + test_share) ** 0.5
    ratio = abs(float(tested.mean())) / error if error > 0 else np.inf
    return float(2 * stdtr(len(tested) - 1, -ratio))
