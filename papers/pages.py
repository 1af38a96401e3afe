"""A page for each paper in the documentation: what is between its markers, from stored results.

A page has ``<!-- papers: boostmetric -->`` and ``<!-- end of papers -->``; what is between them is
written by ``python -m papers report``. Its tables have two readings, never mixed in a row: the
literal one, and the one for the whole paper.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from papers.cells import Cell, documents, published
from papers.curves import drawing as curve_drawing
from papers.curves.curve import stored
from papers.readings import experiment, readings
from papers.task import protocol
from papers.verdicts import (
    BASELINE_TABLES,
    WORDS,
    Key,
    Order,
    Outcome,
    bound,
    counts,
    headline,
    joint_tests,
    literal,
    of_reading,
    orders,
)

DOCS = Path(__file__).parent.parent / "docs" / "results"
MARKED = re.compile(
    r"(?P<start><!-- papers: (?P<paper>\w+) -->\n).*?(?P<end><!-- end of papers -->)", re.DOTALL
)
MARKS = {
    "reproduced": "=",
    "consistent": "≈",
    "better": "+",
    "worse": "−",
    "undecided": "?",
    "protocol unknown": "·",
}


def page_of(paper: str) -> Path:
    """Return the page of a paper."""
    return DOCS / ("nca.md" if paper == "msnca" else f"{paper}.md")


def write(found: dict[Key, Outcome]) -> None:
    """Fill the pages of all papers."""
    for paper in documents():
        path = page_of(paper)
        path.write_text(filled(path.read_text("utf-8"), found), "utf-8")


def filled(text: str, found: dict[Key, Outcome]) -> str:
    """Return a page with today's results between its markers."""

    def generated(match: re.Match[str]) -> str:
        body = "\n".join(lines(match["paper"], found))
        return f"{match['start']}{body}\n{match['end']}"

    return MARKED.sub(generated, text)


def lines(paper: str, found: dict[Key, Outcome]) -> Iterator[str]:
    """Yield the generated part of a page."""
    mine = {key: each for key, each in found.items() if each.cell.paper == paper}
    told = {name: each[paper] for name, each in headline(found).items()}
    yield (
        "Cells are our mean ± standard deviation, in brackets what is printed, and the verdict: "
        "= reproduced, ≈ consistent, + better, − worse, ? undecided, · protocol unknown, † stale "
        "([the rules](papers.md#how-cells-are-judged)). `python -m papers explain CELL` prints all "
        "that is known about a cell.\n"
    )
    for table in documents()[paper]["table"]:
        cells = [c for c in published() if (c.paper, c.table) == (paper, table["id"])]
        yield from _grid(table["id"], table["measure"], cells, mine, told)
    yield from _readings(paper, mine, told)
    yield from _joint(mine)
    yield from _orders(list(orders(mine)), told)
    yield from _worse(mine, told)
    yield from _unknown(mine, told)
    yield from _figures(paper)
    yield from _questions(paper)


def _grid(
    table: str, measure: str, cells: list[Cell], found: dict[Key, Outcome], told: dict[str, str]
) -> Iterator[str]:
    printed = {(cell.row, cell.method): cell for cell in cells}
    ids = {cell.id for cell in cells}
    here = [outcome for (cell, _, _), outcome in found.items() if cell in ids]
    if not here:
        return
    own = {each.reading for each in here}
    shown = [name for name in dict.fromkeys(told.values()) if name in own] or sorted(own)
    yield f"### {table}: {measure}\n"
    columns = list(_columns(cells, here))
    names = (m if v in ("", "reference") else f"{m}, {v}" for m, v in columns)
    yield from header("row", "reading", "runs", *names)
    for name in dict.fromkeys(cell.row for cell in cells):
        for reading in shown:
            by_column = {
                (each.cell.method, each.variant): each
                for each in here
                if (each.cell.row, each.reading) == (name, reading)
            }
            if by_column:
                runs = sorted({len(each.lines) for each in by_column.values() if each.lines})
                many = f"{runs[0]}–{runs[-1]}" if len(runs) > 1 else f"{runs[0] if runs else 0}"
                texts = (_cell(printed.get((name, c[0])), by_column.get(c)) for c in columns)
                yield row(name, reading, many, *texts)
    yield ""


def _columns(cells: list[Cell], here: list[Outcome]) -> Iterator[tuple[str, str]]:
    """Yield methods and their variants that have tasks; a method without any comes once."""
    for method in dict.fromkeys(cell.method for cell in cells if counts(cell)):
        variants = dict.fromkeys(each.variant for each in here if each.cell.method == method)
        yield from ((method, variant) for variant in variants or ("",))


def _cell(cell: Cell | None, outcome: Outcome | None) -> str:
    if cell is None:
        return ""
    spread = "" if cell.sd is None else f" ± {cell.sd:.{cell.sd_decimals}f}"
    printed = f"({cell.value:.{cell.decimals}f}{spread})"
    if outcome is None or not outcome.lines:
        return f"– {printed}"
    mark = MARKS[outcome.word] + (" †" if outcome.stale else "")
    return f"{outcome.mean:.2f} ± {outcome.sd:.2f} {printed} {mark}"


def _readings(paper: str, found: dict[Key, Outcome], told: dict[str, str]) -> Iterator[str]:
    """Yield what each reading takes, and the verdicts of the own method under it."""
    known = {each.id: each for reading in readings() for each in reading.candidates}
    first = set(protocol(paper).READINGS[literal(paper)])
    yield "### The own method as printed, under each reading\n"
    yield (
        "A reading is what is not printed, or contradicts what is; * was added after results of "
        "another one were seen. Rows of readings of single rows are in `explain`.\n"
    )
    yield from header("reading", "differs from the first in", "cells", *WORDS[:-1])
    for name, candidates in protocol(paper).READINGS.items():
        words = Counter(
            each.word
            for each in found.values()
            if (each.reading, each.variant) == (name, "paper") and each.lines and counts(each.cell)
        )
        other = [known[each] for each in candidates if each not in first]
        late = "*" if any(each.afterwards for each in other) else ""
        what = "; ".join(each.what for each in other) or "as printed"
        roles = [role for role, reading in told.items() if reading == name]
        bold = f"**{name}**{late} ({', '.join(roles)})" if roles else name + late
        yield row(bold, what, words.total(), *(words[word] for word in WORDS[:-1]))
    yield ""


def _joint(found: dict[Key, Outcome]) -> Iterator[str]:
    tests = [each for each in joint_tests(found) if each.rows > 1]
    if not tests:
        return
    yield "### Rows together\n"
    yield (
        "For rows whose baselines agree: the sum of the squared standardised differences, the "
        "chance of a larger one if all were chance, and their mean (positive: better than "
        "printed) with the chance of one as far from zero.\n"
    )
    names = ("table", "method", "reading", "rows", "sum of squares", "p", "mean", "p")
    yield from header(*names)
    for each in tests:
        yield row(
            each.table,
            each.method,
            each.reading,
            each.rows,
            f"{each.chi_square:.1f}",
            f"{each.p_value:.2g}",
            f"{each.mean:+.2f}",
            f"{each.p_direction:.2g}",
        )
    yield ""


def _orders(found: list[Order], told: dict[str, str]) -> Iterator[str]:
    """Yield, for each method that is compared with, the rows where the printed order holds."""
    mine = [each for each in found if each.own.variant == "paper" and counts(each.own.cell)]
    mine = [each for each in mine if each.own.reading in told.values()]
    if not mine:
        return
    yield "### Order of the methods\n"
    yield (
        "Rows where the printed order of the own method and another one holds here or is "
        "reversed: paired by split, corrected for shared rows, at the 5 % level.\n"
    )
    yield from header(
        "reading", "table", "own method", "compared with", "holds", "reversed", "open"
    )
    groups: dict[tuple[str, str, str, str], dict[str, list[str]]] = {}
    for order in mine:
        own, other = order.own, order.other
        name = (own.reading, own.cell.table, own.cell.method, other.cell.method)
        words = groups.setdefault(name, {"holds": [], "reversed": [], "not significant": []})
        words[order.word].append(own.cell.row + ("" if order.printed_ahead else " (other ahead)"))
    for name, words in groups.items():
        holds, turned, not_decided = words.values()
        yield row(*name, ", ".join(holds), ", ".join(turned), len(not_decided) or "")
    yield ""


def _worse(found: dict[Key, Outcome], told: dict[str, str]) -> Iterator[str]:
    """Yield the own method's cells that are worse, and what was tried."""
    paper = next(iter(found.values())).cell.paper if found else ""
    best = of_reading(found, {paper: told["one reading"]}).values()
    cells = [each for each in best if each.cell.own and each.word == "worse" and counts(each.cell)]
    if not cells:
        return
    yield "### Worse than printed, although the baselines agree\n"
    groups: dict[str, list[str]] = {}
    for each in cells:
        tried = experiment(each.cell.id, each.variant)
        name = f"{each.cell.table} {each.cell.row}, {each.cell.method} ({each.variant})"
        difference = f"{name}: bound {bound(each.cell):.1f} points"
        groups.setdefault(tried.says if tried else "Nothing yet.", []).append(difference)
    yield from header("cells, under the one reading", "what was tried")
    yield from (row("; ".join(names), says) for says, names in groups.items())
    yield ""


def _unknown(found: dict[Key, Outcome], told: dict[str, str]) -> Iterator[str]:
    """Yield why rows have an unknown protocol."""
    reasons: dict[str, list[str]] = {}
    for each in found.values():
        if each.why and each.reading in told.values() and each.variant == "paper":
            table = BASELINE_TABLES.get((each.cell.paper, each.cell.table), each.cell.table)
            name = f"{table} {each.cell.row} ({each.reading})"
            if name not in reasons.setdefault(each.why, []):
                reasons[each.why].append(name)
    if reasons:
        yield "### Rows with an unknown protocol\n"
        yield from header("reason", "rows")
        yield from (row(why, ", ".join(names)) for why, names in reasons.items())
        yield ""


def _figures(paper: str) -> Iterator[str]:
    drawn = {name: runs for name, runs in stored().items() if runs and name.startswith(f"{paper}/")}
    if not drawn:
        return
    yield "### Figures\n"
    yield (
        "Drawn from stored runs. Lines are means over runs, bands one standard deviation. Under "
        "each is what the paper's figure shows, and what differs here.\n"
    )
    for name, runs in drawn.items():
        yield f"![{name}](../../papers/figures/{curve_drawing.file_of(name)})\n"
        number = f"{len(runs)} run{'s' if len(runs) > 1 else ''}."
        yield f"{name}: {curve_drawing.caption(name)} {number}\n"


def _questions(paper: str) -> Iterator[str]:
    """Yield the questions without a settled answer that concern a paper."""
    asked = [each for each in readings() if each.cells[0].startswith(f"{paper}/")]
    rows = []
    for reading in asked:
        by_status: dict[str, list[str]] = {"open": [], "refuted": [], "settled": []}
        for candidate in reading.candidates:
            by_status[candidate.status].append(candidate.what)
        if not by_status["settled"]:
            told = ("; ".join(by_status[status]) for status in ("open", "refuted"))
            rows.append(row(reading.question, *told))
    if rows:
        yield "### What the paper does not print\n"
        yield "Questions without a settled answer; `papers/readings.toml` has the evidence.\n"
        yield from header("question", "open", "refuted")
        yield from rows
        yield ""


def header(*names: str) -> Iterator[str]:
    """Yield the first two lines of a table."""
    yield row(*names)
    yield row(*("---" for _ in names))


def row(*values: object) -> str:
    """Return a line of a table."""
    texts: Iterable[str] = (str(value).replace("|", "\\|") for value in values)
    return f"| {' | '.join(texts)} |"
