"""Reports on searches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nearfar import Relevance, compare_retrieval
from nearfar.search.adapt import Adapted
from nearfar.search.files import SearchInput
from search.adapters import Stretched, noisy_searches


@pytest.fixture(scope="module")
def study() -> Adapted:
    Q, X, relevance, weights = noisy_searches()
    names = [f"find <thing> {row}" for row in range(len(Q))]
    found = compare_retrieval(Q, X, relevance, Stretched(weights), query_names=names)
    documents = [f"the thing {row}" for row in range(len(X))]
    return Adapted(SearchInput("things", Q, X, relevance, names, documents), found)


def page_of(study: Adapted, folder: Path) -> str:
    study.report(folder / "page.html", facts=[("Answers", "all")])
    return (folder / "page.html").read_text(encoding="utf-8")


def test_headline_has_two_numbers_and_a_badge(study: Adapted, tmp_path: Path) -> None:
    page = page_of(study, tmp_path)
    verdict = study.comparison.verdict
    assert '<span class="badge good">clearly better</span>' in page
    assert f"<strong>{verdict.before:.3f}</strong> <span>nDCG@10 with untouched vectors" in page
    assert f"<strong>{verdict.after:.3f}</strong> <span>nDCG@10 with adapted vectors" in page
    assert "Adapted vectors find better results." in page
    assert "<title>things: a judged search</title>" in page
    assert "80 queries, 150 documents, vectors of length 10" in page
    assert f"{study.comparison.headroom:.3f}" in page


def test_queries_that_change_most_have_their_text_and_results(
    study: Adapted, tmp_path: Path
) -> None:
    page = page_of(study, tmp_path)
    gaining, losing = study.comparison.changes(10)
    for change in gaining + losing:
        assert f"find &lt;thing&gt; {change.query}</th>" in page
        assert f"{change.gain:+.3f}" in page
    assert "<thing>" not in page
    answer = study.data.relevance.of(gaining[0].query)[0][0]
    assert f"✓ the thing {answer}" in page
    assert "Searches that gain most" in page
    assert "Searches that lose most" in page


def test_untouched_vectors_alone_can_be_reported(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(30, 3))
    relevance = Relevance(range(10), range(10))
    found = compare_retrieval(X[:10], X, relevance, {})
    ids = list(map(str, range(30)))
    page = page_of(Adapted(SearchInput("alone", X[:10], X, relevance, ids, ids), found), tmp_path)
    assert '<span class="badge same">nothing to compare</span>' in page
    assert "Which searches change?" not in page


def test_page_needs_no_network(study: Adapted, tmp_path: Path) -> None:
    page = page_of(study, tmp_path)
    assert 'src="http' not in page
    assert 'href="http' not in page
    assert "<dt>Answers</dt>" in page or "Answers" in page
