"""Reports on searches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nearfar import Relevance, compare_retrieval
from nearfar.search.page import SearchStudy, write_search_report
from search.adapters import Stretched, noisy_searches


@pytest.fixture(scope="module")
def study() -> SearchStudy:
    Q, X, relevance, weights = noisy_searches()
    names = [f"find <thing> {row}" for row in range(len(Q))]
    found = compare_retrieval(Q, X, relevance, Stretched(weights), query_names=names)
    documents = [f"the thing {row}" for row in range(len(X))]
    return SearchStudy("things", found, relevance, X.shape[1], documents, "nearfar search-report")


def page_of(study: SearchStudy, folder: Path) -> str:
    write_search_report(folder / "page.html", study)
    return (folder / "page.html").read_text(encoding="utf-8")


def test_headline_has_two_numbers_and_a_badge(study: SearchStudy, tmp_path: Path) -> None:
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
    study: SearchStudy, tmp_path: Path
) -> None:
    page = page_of(study, tmp_path)
    gaining, losing = study.comparison.changes(10)
    for change in gaining + losing:
        assert f"find &lt;thing&gt; {change.query}</th>" in page
        assert f"{change.gain:+.3f}" in page
    assert "<thing>" not in page
    answer = study.relevance.of(gaining[0].query)[0][0]
    assert f"✓ the thing {answer}" in page
    assert "Searches that gain most" in page
    assert "Searches that lose most" in page


def test_untouched_vectors_alone_can_be_reported(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(30, 3))
    relevance = Relevance(range(10), range(10))
    found = compare_retrieval(X[:10], X, relevance, {})
    page = page_of(SearchStudy("alone", found, relevance, 3), tmp_path)
    assert '<span class="badge same">nothing to compare</span>' in page
    assert "Which searches change?" not in page


def test_page_needs_no_network(study: SearchStudy, tmp_path: Path) -> None:
    page = page_of(study, tmp_path)
    assert 'src="http' not in page
    assert 'href="http' not in page
    assert "nearfar search-report</code>" in page
