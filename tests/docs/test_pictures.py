"""Pictures of the site show stored results, and the links in them lead somewhere."""

from __future__ import annotations

import re
import runpy

import pytest

from docs.pages import ROOT
from docs.test_api_page import listed

DRAW = runpy.run_path(str(ROOT / "docs/images/draw.py"))
FIGURES = DRAW["figures"]()


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_those_of_the_stored_results(name):
    stored = (ROOT / "docs/images" / name).read_text()
    assert stored == FIGURES[name], "run `python docs/images/draw.py`"


def test_every_figure_is_on_a_page():
    pages = "\n".join(path.read_text() for path in ROOT.glob("docs/**/*.md"))
    assert {name for name in FIGURES if f"images/{name}\n" not in pages} == set()


def test_links_of_the_chart_lead_to_pages():
    links = re.findall(r'href="([^"]+)"', FIGURES["choose.html"])
    assert len(links) >= len(DRAW["CHOICES"])
    generated = {f"../api/generated/{module}.{name}.html" for module, name in listed()}
    pages = [link for link in links if link not in generated]
    sources = [ROOT / "docs/methods" / link.replace(".html", ".md") for link in pages]
    assert [str(source) for source in sources if not source.exists()] == []


def test_captions_have_the_means_of_the_tables():
    """Captions agree with the tables of the documentation, which are made elsewhere."""
    results = (ROOT / "docs/results/beyond-linear.md").read_text()
    for name, row in (("tables.html", "Euclidean 3-NN"), ("forest.html", "random forest")):
        stated = re.search(rf"\| {row} \| ([\d.]+) \|", results)[1]
        assert f"{float(stated):.1f} % mean error" in FIGURES[name]
    search = (ROOT / "docs/reference/retrieval.md").read_text()
    before, after = re.search(
        r"\| Cranfield \| 180 \| query \| ([\d.]+) → ([\d.]+) ", search
    ).groups()
    assert f"from {before} to {after} with 180 judged" in FIGURES["search.html"]
    untuned = (ROOT / "docs/reference/untuned.md").read_text()
    judged = untuned[untuned.index("benchmarks/judgements.py: begin") :]
    for method in ("Euclidean", "AutoMetric"):
        stated = re.search(rf"\| {method} \| ([\d.]+), ", judged)[1]
        assert f"{stated} %" in FIGURES["judgements.html"]
