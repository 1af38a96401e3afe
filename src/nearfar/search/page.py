"""A report on a search: whether adapted vectors find better results, and which queries change."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nearfar.evidence.verdict import expectation_text, reported_search
from nearfar.measures.registry import measures_for
from nearfar.page.blocks import (
    Bar,
    BarGroup,
    Bars,
    Block,
    Code,
    Facts,
    Figure,
    Figures,
    Markup,
    Neighbor,
    Queries,
    Query,
    Section,
    Table,
    Text,
    shortened,
    versions,
)
from nearfar.page.figures import svgs
from nearfar.page.page import LOOKS, Headline, render_page, write_page
from nearfar.plots.canvas import grid, named_lines
from nearfar.runtime.messages import command_line, ordered
from nearfar.search.comparison import SearchComparison
from nearfar.search.cutoff import Cutoff, search_target
from nearfar.search.files import SearchInput

if TYPE_CHECKING:
    from nearfar.plots.canvas import AxesGrid
    from nearfar.search.adapt import Adapted

# As much as one reads: lines of a table of queries, queries with results, results of each.
_CHANGES = 10
_SHOWN_QUERIES = 4
_SHOWN_RESULTS = 5
# Cut-offs that are drawn, each with a marker.
_SHOWN_POINTS = 25


def write_search_report(
    path: str | os.PathLike[str],
    found: Adapted,
    *,
    title: str = "",
    facts: Sequence[tuple[str, str]] = (),
    tested: str = "",
) -> None:
    """Write a report on a search as one HTML file that needs no network.

    Parameters
    ----------
    title: Heading of the page, instead of the name of the documents.
    facts: Names and values for the appendix.
    tested: What the searches get at the cut-off.
    """
    data, compared, verdict = found.data, found.comparison, found.comparison.verdict
    method = verdict.method or compared.untouched.name
    gain = f"{verdict.gain:z.3f} ({verdict.low:z.3f} to {verdict.high:z.3f})"
    basis = f"Measured on {len(compared.queries)} searches"
    if compared.folds is None:
        basis += ". The adapter was not learned from them, as far as its file tells."
    else:
        basis += f", each held out in one of {compared.n_folds} folds."
    headline = Headline(
        compared.measure,
        "Search",
        "untouched vectors",
        f"{method} vectors",
        f"{verdict.before:.3f}",
        f"{verdict.after:.3f}",
        verdict.category.text("searches"),
        LOOKS[verdict.category],
        reported_search(verdict.category, method),
        expectation_text(gain, verdict.probability) if compared.adapted else "",
        basis,
    )
    rows = [
        ("Judgements", repr(data.relevance)[1:-1].removeprefix("Relevance: ")),
        ("Comparison", compared.title),
        *facts,
        ("Versions", versions()),
    ]
    command: list[Block] = [Code("Command", line)] if (line := command_line()) else []
    sections = [_comparison(compared)]
    if compared.adapted:
        sections.append(_changes(data, compared))
    if found.cutoff is not None:
        sections.append(_cutoff(found.cutoff, tested))
    sections.append(Section("Appendix", "appendix", [*command, Facts(rows)]))
    size = f"{len(compared.queries)} queries, {compared.n_documents} documents"
    page = render_page(
        title or data.name,
        title=title or f"{data.name}: a judged search",
        subject=f"{size}, vectors of length {data.X.shape[1]}",
        headlines=[headline],
        reason=compared.notes[-1],
        notes=ordered(list(found.notes)),
        sections=sections,
    )
    write_page(path, page)


def _comparison(compared: SearchComparison) -> Section:
    """Return the verdict in words, bars for each measure, and the table."""
    blocks: list[Block] = [Text([compared.verdict.headline])]
    caption = (
        "Longer is better. The lines are 90 % intervals. The same queries are searched, so that "
        "differences are surer than the lines suggest."
    )
    for measure in compared.untouched.values:
        bars = []
        for result in compared.values():
            value, (low, high) = result.means[measure], result.interval(measure)
            best = result.name == compared.verdict.recommended
            marks = ("best", "recommended") if best else ("", "")
            lengths = 100 * value, 100 * low, 100 * high
            bars.append(Bar(result.name, f"{value:.3f}", *lengths, *marks))
        main = measure == compared.measure
        if main:
            value = compared.headroom
            name = f"best order of the first {compared.depth}"
            bars.append(Bar(name, f"{value:.3f}", 100 * value, 100 * value, 100 * value))
        blocks.append(Bars(measure, [BarGroup("", bars)], caption, summary="" if main else measure))
    blocks.append(Markup(compared.to_html(verdict=False), summary="All figures as a table"))
    explanations = [measure.explanation for measure in measures_for("searches")]
    unjudged = "Documents without a judgement count as not relevant."
    explained = " ".join(filter(None, [*explanations, unjudged]))
    blocks.append(Text([explained], summary="The measures"))
    return Section("Does it help?", "comparison", blocks)


def _changes(data: SearchInput, compared: SearchComparison) -> Section:
    """Return the queries that change most, with their first results before and after."""
    gaining, losing = compared.changes(_CHANGES)
    up, down = compared.counts()
    same = len(compared.queries) - up - down
    blocks: list[Block] = [
        Text([f"{up} searches gain, {down} lose, and {same} stay the same ({compared.measure})."])
    ]
    for caption, changes in (
        ("Searches that gain most", gaining),
        ("Searches that lose most", losing),
    ):
        rows = [
            [shortened(c.text), f"{c.before:.3f}", f"{c.after:.3f}", f"{c.gain:+.3f}"]
            for c in changes
        ]
        if rows:
            blocks.append(Table(["query", "before", "after", "change"], rows, caption))
    half = _SHOWN_QUERIES // 2
    shown = gaining[:half] + losing[:half]
    examples = []
    for change in shown:
        place = int(np.searchsorted(compared.queries, change.query))
        documents, grades = data.relevance.of(change.query)
        relevant = set(documents[grades > 0].tolist())
        neighbors = {
            result.name: [
                Neighbor(shortened(data.document_names[found]), same_class=found in relevant)
                for found in result.ranking.documents[place, :_SHOWN_RESULTS].tolist()
            ]
            for result in (compared.untouched, compared.best)
        }
        examples.append(Query(shortened(change.text), neighbors))
    if examples:
        blocks.append(Text(["Their first results; a check mark is a relevant document."]))
        blocks.append(Queries(examples))
    return Section("Which searches change?", "changes", blocks)


def _cutoff(cutoff: Cutoff, tested: str) -> Section:
    """Return what is certified of a cut-off, and what others would return."""
    step = max(1, len(cutoff.curve["cutoff"]) // _SHOWN_POINTS)
    curve = {name: values[::step] for name, values in cutoff.curve.items()}
    names = {"recall": "recall", "precision": "precision", "empty": "no answer"}
    lines = {label: (curve["cutoff"], curve[name]) for name, label in names.items()}
    sizes = {"documents in an answer": (curve["cutoff"], curve["size"])}

    def draw() -> AxesGrid:
        axes = grid(None, 2, 1, (5.0, 3.2))
        top = named_lines(lines, axes[0, 0], ylabel="share")
        top.axhline(search_target(cutoff.target).value, color="gray", linestyle=":")
        bottom = named_lines(sizes, axes[1, 0], yscale="log", xlabel="cut-off on the score")
        for ax in (top, bottom):
            ax.axvline(cutoff.value, color="gray")
        return axes

    caption = (
        f"Judged queries that were set aside, by cut-off, among {cutoff.n_documents} documents. "
        f"The upright line is the certified cut-off, the dotted line the target, {cutoff.target}."
    )
    (figure,) = svgs(draw, caption, "cutoff")
    text = Text([*str(cutoff).splitlines(), *filter(None, [tested])])
    blocks: list[Block] = [text, Figures([Figure(figure, caption)])]
    return Section("When is nothing returned?", "cutoff", blocks)
