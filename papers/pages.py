"""Tables of measurements in the documentation, between markers, from stored results.

A page has ``<!-- papers: boostmetric T1 -->`` and ``<!-- end of papers -->``; what is between them
is written by ``python -m papers report``. Stale results are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from papers.cells import documents, published
from papers.verdicts import Key, Outcome, chosen

DOCS = Path(__file__).parent.parent / "docs"
MARKED = re.compile(
    r"(?P<start><!-- papers: (?P<paper>\w+) (?P<table>[^>]+?) -->\n).*?"
    r"(?P<end><!-- end of papers -->)",
    re.DOTALL,
)


def marked_pages() -> Iterator[Path]:
    """Yield the pages of the documentation that have markers."""
    for path in sorted(DOCS.glob("results/*.md")):
        if MARKED.search(path.read_text("utf-8")):
            yield path


def filled(text: str, found: dict[Key, Outcome]) -> str:
    """Return a page with the tables of today's results between its markers."""
    best = chosen(found)

    def table(match: re.Match[str]) -> str:
        body = "\n".join(lines(match["paper"], match["table"], best))
        return f"{match['start']}{body}\n{match['end']}"

    return MARKED.sub(table, text)


def lines(paper: str, table: str, best: dict[tuple[str, str], Outcome]) -> Iterator[str]:
    """Yield a table of Markdown: ours, and the printed number in brackets."""
    cells = [cell for cell in published() if (cell.paper, cell.table) == (paper, table)]
    measure = {each["id"]: each["measure"] for each in documents()[paper]["table"]}[table]
    columns = [
        (cell.method, variant)
        for cell in {cell.method: cell for cell in cells}.values()
        for variant in (("paper", "default") if cell.own else ("reference",))
    ]
    names = [m if v == "reference" else f"{m}, {v}" for m, v in columns]
    yield f"{measure[0].upper()}{measure[1:]}; in brackets the printed number.\n"
    yield f"| set | {' | '.join(names)} |"
    yield f"| --- |{' --- |' * len(names)}"
    for row in dict.fromkeys(cell.row for cell in cells):
        by_method = {cell.method: cell for cell in cells if cell.row == row}
        texts = []
        for method, variant in columns:
            cell = by_method.get(method)
            outcome = best.get((cell.id, variant)) if cell else None
            current = outcome is not None and bool(outcome.lines) and not outcome.stale
            ours = f"{outcome.mean:.1f}" if outcome is not None and current else "–"
            texts.append(f"{ours} ({cell.value:.{cell.decimals}f})" if cell else "")
        yield f"| {row} | {' | '.join(texts)} |"


def write(found: dict[Key, Outcome]) -> None:
    """Fill the tables of all pages."""
    for path in marked_pages():
        path.write_text(filled(path.read_text("utf-8"), found), "utf-8")
