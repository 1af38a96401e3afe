"""A report on matched records: how sure the matches are, what decided, and near misses."""

from __future__ import annotations

import difflib
import html
import os
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from nearfar.page import blocks
from nearfar.page.page import render_page, write_page
from nearfar.runtime.messages import ordered

if TYPE_CHECKING:
    from nearfar.records.match import Matched

# As many as one reads.
_SHOWN_PAIRS = 8
_EXPLAINED = 200


def write_match_report(
    path: str | os.PathLike[str], matched: Matched, name: str, command: str = ""
) -> None:
    """Write a report on matches as one HTML file that needs no network.

    Parameters
    ----------
    matched: What `nearfar.match` returned.
    name: Heading of the page.
    command: The command that wrote the report; empty if there was none.
    """
    found = matched.matches
    lines = matched.summary.splitlines()
    facts = [
        ("Records", " and ".join(str(n) for n in found.n_records)),
        ("Candidates", str(len(found.candidates))),
        ("Threshold", f"log-odds {matched.matcher.threshold_:.4g}"),
        ("Versions", blocks.versions()),
    ]
    appendix: list[blocks.Block] = [blocks.Code("Command", command)] if command else []
    page = render_page(
        name,
        title=f"{name}: matched records",
        subject=f"{len(found.pairs)} matches among {len(found.candidates)} candidates",
        headlines=[],
        reason=lines[0],
        notes=ordered(list(matched.notes)),
        sections=[
            blocks.Section("How sure are the matches?", "rates", _rates(matched, lines[1:])),
            blocks.Section("What decided?", "fields", _fields(matched)),
            blocks.Section("Pairs to look at", "pairs", _near_misses(matched)),
            blocks.Section("Appendix", "appendix", [*appendix, blocks.Facts(facts)]),
        ],
    )
    write_page(path, page)


def _rates(matched: Matched, lines: list[str]) -> list[blocks.Block]:
    shares = dict(matched.rates)
    if matched.kept is not None:
        shares["known matches among candidates"] = matched.kept[:2]
    bars = [
        blocks.Bar(name, f"{100 * value:.1f}\u00a0%", 100 * value, 100 * low, 100 * high)
        for name, (value, (low, high)) in shares.items()
    ]
    caption = (
        "Precision and recall are those of the threshold, on pairs that were not learned from. "
        "With a target, the precision is that in these tables. The lines are 90 % intervals."
    )
    chart = [blocks.Bars("Shares", [blocks.BarGroup("", bars)], caption)] if bars else []
    return [*chart, blocks.Text(lines)]


def _fields(matched: Matched) -> list[blocks.Block]:
    """Return how much each field speaks for or against a match, over candidates near it."""
    near = matched.least_sure(np.arange(len(matched.matches.scores)), _EXPLAINED)
    parts = np.abs(matched.explained(near)).mean(axis=0)
    bars, fields = [], matched.matcher.fields_
    for place in np.argsort(-parts, kind="stable"):
        (name, kind, _), length = fields[place], 100 * parts[place] / max(parts.max(), 1e-12)
        value = f"{parts[place]:.2f}"
        bars.append(blocks.Bar(name, value, length, length, length, note=kind))
    caption = (
        f"Mean change of the log-odds by each field, of the {len(near)} least sure candidates."
    )
    return [blocks.Bars("Fields", [blocks.BarGroup("", bars)], caption)]


def _near_misses(matched: Matched) -> list[blocks.Block]:
    """Return the least sure pairs side by side, with differences marked."""
    found, (one, two) = matched.matches, (matched.sides[0], matched.sides[-1])
    others = np.flatnonzero(~found.same)
    misses = others[np.argsort(-found.scores[others], kind="stable")[:_SHOWN_PAIRS]]
    shown: list[blocks.Block] = []
    for place in list(dict.fromkeys([*found.doubtful, *misses]))[:_SHOWN_PAIRS]:
        i, j = found.candidates[place]
        lines = [("", *(html.escape(str(s.names([r])[0])) for s, r in ((one, i), (two, j))))]
        for name in [each.name for each in matched.matcher.fields_[:-1]]:
            cells = one.records.fields[name][i], two.records.fields[name][j]
            lines.append((html.escape(name), *_marked(*cells)))
        said = "A match" if found.same[place] else "No match"
        rows = "".join(
            f"<tr><th scope='row'>{name}</th><td>{a}</td><td>{b}</td></tr>" for name, a, b in lines
        )
        caption = f"{said}, probability {100 * expit(found.scores[place]):.1f} %"
        table = f"<table><caption>{caption}</caption><tbody>{rows}</tbody></table>"
        shown.append(blocks.Markup(table))
    return shown


def _marked(a: str | None, b: str | None) -> tuple[str, str]:
    """Return two texts as HTML, with what only one of them has marked."""
    sides: tuple[list[str], list[str]] = ([], [])
    first, second = a or "", b or ""
    for kind, i, k, j, m in difflib.SequenceMatcher(None, first, second, False).get_opcodes():
        for side, text in zip(sides, (first[i:k], second[j:m]), strict=True):
            part = html.escape(text)
            side.append(part if kind == "equal" or not part else f"<mark>{part}</mark>")
    return "".join(sides[0]), "".join(sides[1])
