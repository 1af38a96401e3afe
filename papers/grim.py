"""Which test sizes and numbers of runs can give the printed means (the GRIM test).

The mean error or accuracy of several runs with equally large test parts is a number of rows
divided by ``test rows x runs``. Few such fractions round to a mean printed with two decimals, so a
row of means tells which sizes are possible.

Three kinds of number do not follow this rule: a standard deviation; a mean over folds, or runs, of
unequal size; and a mean of the classes' accuracies. If no size fits, one of the last two may be the
reason. With 10,000 answers or more (two decimals) every mean is possible.

`folds_fit` tests means over folds whose sizes differ by one row. A standard deviation over runs has
a rule of its own, which `spread_fits` tests: the squares of the runs' numbers of rows add up to an
integer that is even or odd as their sum is.

    python -m papers grim [--paper P] [--table T] [--row R] [--test N] [--runs N]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from math import ceil, floor, prod

from papers.cells import Cell, Document, documents, match, table_cells

SHARES = {
    "20 %": Fraction(1, 5),
    "25 %": Fraction(1, 4),
    "30 %": Fraction(3, 10),
    "33 %": Fraction(1, 3),
    "40 %": Fraction(2, 5),
    "50 %": Fraction(1, 2),
    "all": Fraction(1),
}
"""Shares of test rows that are tried; "all" is cross-validation, with the errors of all folds
added."""

FOOTER = """\
* the printed number of runs. "By chance": how often as many different means, drawn at random, would
fit the fewest runs of the line. A mean over parts of unequal size and a mean of the classes'
accuracies do not follow this rule; a standard deviation follows one of its own."""


@dataclass(frozen=True)
class Fit:
    """A number of test rows and of runs that can give all means of a row."""

    test_rows: int
    runs: int
    chance: float


def fits(means: Iterable[str], answers: int) -> bool:
    """Return whether each mean, printed in percent, is a number of ``answers`` out of all, rounded.

    Halves may be rounded up or down.

    Examples
    --------
    >>> from papers.grim import fits
    >>> fits(["26.23", "10.38"], 53 * 10), fits(["26.23", "10.38"], 54 * 10)
    (True, False)
    """
    return all(_counts(mean, answers) for mean in means)


def chance(means: Iterable[str], answers: int) -> float:
    """Return how often as many different means, drawn at random, would fit.

    Equal means count once: two methods can have the same predictions.

    Examples
    --------
    >>> from papers.grim import chance
    >>> round(chance(["5.18", "32.71", "7.51", "2.96"], 5500), 3)
    0.092
    """
    return prod(min(1.0, (answers + 1) / (10 ** (2 + _decimals(m)) + 1)) for m in set(means))


def spread_fits(mean: str, sd: str, test_rows: int, runs: int, *, ddof: int) -> bool:
    """Return whether integer numbers of rows in each run can give a printed mean and spread.

    The condition is necessary: sum and sum of squares are integers of the same parity, and not
    closer together than equal runs would make them. `ddof` is 1 if the squares are divided by
    ``runs - 1``.

    Examples
    --------
    >>> from papers.grim import spread_fits
    >>> [spread_fits("2.22", "2.10", 45, 10, ddof=ddof) for ddof in (0, 1)]
    [False, True]
    """
    low, high = (bound * test_rows / 100 for bound in _rounded(sd))
    for total in _counts(mean, test_rows * runs):
        each, more = divmod(total, runs)
        balanced = runs * each**2 + more * (2 * each + 1)
        least = (runs - ddof) * max(low, Fraction(0)) ** 2 + Fraction(total**2, runs)
        most = (runs - ddof) * high**2 + Fraction(total**2, runs)
        first = max(ceil(least), balanced)
        first += (first - total) % 2
        if first <= most:
            return True
    return False


def folds_fit(mean: str, rows: int, folds: int) -> bool:
    """Return whether a mean over folds, whose sizes differ by one row at most, is possible.

    Examples
    --------
    >>> from papers.grim import folds_fit
    >>> folds_fit("72.40", 178, 5), folds_fit("72.61", 178, 5)
    (True, False)
    """
    size, larger = divmod(rows, folds)
    low, high = (bound * folds / 100 for bound in _rounded(mean))
    for right in range(larger * (size + 1) + 1):
        rest = Fraction(right, size + 1)
        least, most = ceil((low - rest) * size), floor((high - rest) * size)
        if max(least, 0) <= min(most, (folds - larger) * size):
            return True
    return False


def pairs(means: Sequence[str], tests: Iterable[int], runs: Iterable[int]) -> Iterator[Fit]:
    """Yield the test sizes and numbers of runs that can give all means.

    Sizes at which every mean is possible say nothing and are left out.

    Examples
    --------
    >>> from papers.grim import pairs
    >>> wine = ["26.23", "10.38", "2.26", "27.36", "5.47", "2.64"]
    >>> [(fit.test_rows, fit.runs) for fit in pairs(wine, range(45, 60), [10])]
    [(53, 10)]
    """
    runs = list(runs)
    for test in tests:
        for number in runs:
            likely = chance(means, test * number)
            if likely < 1.0 and fits(means, test * number):
                yield Fit(test, number, likely)


def usual_sizes(rows: int) -> dict[str, int]:
    """Return the test sizes of the usual shares, rounded down and up.

    Examples
    --------
    >>> from papers.grim import usual_sizes
    >>> usual_sizes(178)["30 % down"], usual_sizes(178)["30 % up"], usual_sizes(178)["50 %"]
    (53, 54, 89)
    """
    found = {}
    for name, share in SHARES.items():
        low, high = floor(share * rows), ceil(share * rows)
        if low == high:
            found[name] = low
        else:
            found |= {f"{name} down": low, f"{name} up": high}
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the sizes that fit each row."""
    options = _options(arguments)
    blocks = [
        block
        for paper, document in documents().items()
        for table in document["table"]
        if options.paper in (None, paper) and options.table in (None, table["id"])
        for block in _table_report(paper, table, options)
    ]
    if not blocks:
        print("No row matches, or no size of its data is known: give the test size with --test.")
        return 1
    print("\n\n".join([*blocks, FOOTER]))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m papers grim",
        description="Which test sizes and numbers of runs can give the printed means.",
    )
    parser.add_argument("--paper", help="only this paper, for instance boostmetric")
    parser.add_argument("--table", help="only this table, for instance T1")
    parser.add_argument("--row", help="only this row, for instance Wine")
    parser.add_argument("--test", type=int, help="this test size instead of the usual shares")
    parser.add_argument("--runs", type=int, default=60, help="try 1 to this many runs (60)")
    return parser.parse_args(arguments)


def _table_report(paper: str, table: Document, options: argparse.Namespace) -> Iterator[str]:
    rows: dict[str, list[Cell]] = {}
    for cell in table_cells(paper, table):
        rows.setdefault(cell.row, []).append(cell)
    for row, cells in rows.items():
        sizes = _sizes(table, row)
        if options.test is not None:
            sizes = {"given": options.test}
        if sizes and options.row in (None, row):
            printed = match(table.get("runs", {}), row)
            known = table.get("sizes", {}).get(row, []) if "folds" in table else []
            folds = [_folds_report(cells, number, table["folds"]) for number in known]
            yield "\n".join([_row_report(cells, sizes, printed, options.runs), *folds])


def _sizes(table: Document, row: str) -> dict[str, int]:
    """Return the test sizes to try for a row: the printed one, and shares of the known sets."""
    sizes = {}
    if row in table.get("test_rows", {}):
        sizes["printed"] = table["test_rows"][row]
    known = table.get("sizes", {}).get(row, [])
    for rows in known:
        of = f" of {rows}" if len(known) > 1 else ""
        sizes |= {name + of: size for name, size in usual_sizes(rows).items()}
    return sizes


def _row_report(cells: list[Cell], sizes: dict[str, int], printed: int | None, most: int) -> str:
    means = [_text(cell) for cell in cells]
    lines = [f"{cells[0].paper}/{cells[0].table}/{cells[0].row}: {', '.join(means)}"]
    runs = range(1, most + 1)
    for name, size in sizes.items():
        found = list(pairs(means, [size], runs))
        if found:
            numbers = ", ".join(f"{fit.runs}{'*' * (fit.runs == printed)}" for fit in found)
            by_chance = _percent(found[0].chance)
            lines.append(f"  {name} ({size} rows): {numbers} runs; by chance {by_chance}")
            if printed and any(fit.runs == printed for fit in found) and cells[0].sd is not None:
                lines.append(f"    {printed}*: {_spreads(cells, size, printed)}")
        if name == "printed" and printed not in [None, *(fit.runs for fit in found)]:
            lines.append(f"    {printed}*: no; fewest runs for {_by_method(cells, size)}")
    lines.append("  " + _summary(means, sizes, runs, "Any number of runs"))
    if printed is not None:
        lines.append("  " + _summary(means, sizes, [printed], "The printed number of runs"))
    return "\n".join(lines)


def _folds_report(cells: list[Cell], rows: int, folds: int) -> str:
    possible = sum(folds_fit(_text(cell), rows, folds) for cell in cells)
    return f"  Mean of {folds} folds of {rows} rows, once: {possible} of {len(cells)} means fit."


def _summary(means: list[str], sizes: dict[str, int], runs: Iterable[int], name: str) -> str:
    """Return how many combinations fit, and how many would by chance."""
    tried = [size * number for size in set(sizes.values()) for number in runs]
    chances = [likely for answers in tried if (likely := chance(means, answers)) < 1.0]
    if not chances:
        return f"{name}: every mean is possible at these sizes."
    found = len(list(pairs(means, set(sizes.values()), runs)))
    return f"{name}: {found} of {len(chances)} fit; by chance {sum(chances):.2g} would."


def _spreads(cells: list[Cell], size: int, runs: int) -> str:
    """Return how many printed spreads fit, with either divisor."""
    fitting = [
        sum(
            spread_fits(_text(cell), f"{cell.sd:.{cell.sd_decimals}f}", size, runs, ddof=ddof)
            for cell in cells
            if cell.sd is not None
        )
        for ddof in (0, 1)
    ]
    of = f"of {sum(cell.sd is not None for cell in cells)} spreads"
    return f"{fitting[1]} {of} fit if divided by runs - 1, {fitting[0]} if by runs"


def _by_method(cells: list[Cell], size: int) -> str:
    """Return the fewest runs that each method alone allows."""
    fewest = {
        cell.method: next(runs for runs in count(1) if fits([_text(cell)], size * runs))
        for cell in cells
    }
    return ", ".join(f"{name} {runs}" for name, runs in fewest.items())


def _text(cell: Cell) -> str:
    return f"{cell.value:.{cell.decimals}f}"


def _counts(mean: str, answers: int) -> range:
    """Return the numbers of answers that round to a mean in percent; halves go up or down."""
    low, high = (bound * answers / 100 for bound in _rounded(mean))
    return range(max(0, ceil(low)), floor(high) + 1)


def _rounded(printed: str) -> tuple[Fraction, Fraction]:
    """Return the least and the largest number that is rounded to a printed one."""
    half = Fraction(1, 2 * 10 ** _decimals(printed))
    return Fraction(printed) - half, Fraction(printed) + half


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _decimals(mean: str) -> int:
    return len(mean.partition(".")[2])
