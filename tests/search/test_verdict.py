"""Verdicts on searches, in words."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar.comparison import Category
from nearfar.evidence.gain import Gain
from nearfar.evidence.verdict import search_headline
from nearfar.search import SearchComparison, SearchResult
from nearfar.search.ranking import Ranking
from nearfar.typing import Vector

GAIN = Gain(0.051, 0.02, 0.08, 0.999)
FIGURES = "nDCG@10 0.412 -> 0.463"


def test_sentences_have_the_figures() -> None:
    assert search_headline(Category.CLEARLY_BETTER, "both", FIGURES, GAIN, 0.0) == (
        "It helps: nDCG@10 0.412 -> 0.463 on searches it has not seen (clearly better: over 99 %). "
        "Expected gain 0.051 (0.020 to 0.080) after shrinkage."
    )


@pytest.mark.parametrize(
    ("category", "alone", "named"),
    [
        (Category.CLEARLY_BETTER, "It helps: ", "Use both: "),
        (Category.PROBABLY_BETTER, "It probably helps: ", "Use both: "),
        (Category.CANNOT_TELL, "These searches cannot tell: ", "These searches cannot tell (both)"),
        (Category.SAME, "No clear gain: ", "No clear gain (both): "),
        (Category.WORSE, "It does harm: ", "Adapting does harm (both): "),
    ],
)
def test_sentences_of_all_verdicts(category: Category, alone: str, named: str) -> None:
    for only, expected in ((True, alone), (False, named)):
        headline = search_headline(category, "both", FIGURES, GAIN, 0.97, alone=only)
        assert headline.startswith(expected)
        keep = category in (Category.SAME, Category.WORSE)
        assert headline.endswith("Keep the untouched vectors.") == keep
        assert ("(clearly worse: 97 %)" in headline) == (category is Category.WORSE)


def test_searches_that_may_have_been_learned_from_are_not_called_unseen() -> None:
    headline = search_headline(Category.SAME, "both", FIGURES, GAIN, 0.0, unseen=False)
    assert "0.463 on these searches" in headline


def test_nothing_to_compare() -> None:
    result = compared(np.zeros(9))["untouched"]
    found = SearchComparison([result], folds=None, headroom=0.9, n_documents=1).verdict
    assert found.category is Category.NOTHING
    assert (found.method, found.recommended, found.helps) == (None, None, False)


def test_vectors_that_search_alike_are_the_same_however_few_searches_there_are() -> None:
    found = compared(np.zeros(3)).verdict
    assert found.probability > 0.25
    assert found.category is Category.SAME
    assert found.recommended == found.reference == "untouched"
    assert found.to_dict()["after"] == pytest.approx(0.4)
    assert str(found) == found.headline


def test_the_name_of_an_adapter_does_not_make_it_a_baseline() -> None:
    better = np.random.default_rng(0).normal(0.2, 0.1, 60)
    one, other = (compared(better, name) for name in ("adapted", "cosine"))
    assert one.gains["adapted"] == other.gains["cosine"]
    assert other.verdict.reference == "untouched"


@pytest.mark.parametrize("n_queries", [30, 225])
def test_noise_is_hardly_ever_called_better_or_worse(n_queries: int) -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(300):
        changed = rng.random(n_queries) < 0.5
        difference = np.where(changed, rng.normal(0.0, 0.2, n_queries), 0.0)
        found.append(compared(difference))
    categories = [each.verdict.category for each in found]
    assert categories.count(Category.CLEARLY_BETTER) <= 3
    assert categories.count(Category.PROBABLY_BETTER) <= 15
    assert categories.count(Category.WORSE) <= 3


@pytest.mark.parametrize("shift", [-0.2, -0.1, -0.02, 0.0, 0.02, 0.1, 0.2])
@pytest.mark.parametrize("n_queries", [20, 300])
def test_table_and_verdict_say_the_same(n_queries: int, shift: float) -> None:
    """A mark is the category of the verdict, for searches that gain and that lose alike."""
    found = compared(np.random.default_rng(1).normal(shift, 0.15, n_queries))
    marks = {Category.CLEARLY_BETTER: "+", Category.WORSE: "-"}
    assert found.mark(found.best) == marks.get(found.verdict.category, "")
    assert found.rows()[1]["mark"] == found.mark(found.best)
    if abs(shift) == 0.2 and n_queries == 300:
        assert found.verdict.category is (Category.CLEARLY_BETTER if shift > 0 else Category.WORSE)
        sure = found.verdict.probability if shift > 0 else found.verdict.harm
        assert sure > 0.99


def compared(difference: Vector, name: str = "adapted") -> SearchComparison:
    """Return a comparison with known differences."""
    n = len(difference)
    ranking = Ranking(np.arange(n), np.zeros((n, 1), dtype=np.intp), np.zeros((n, 1)))
    results = [
        SearchResult(search, ranking, {"nDCG@10": values})
        for search, values in (("untouched", np.full(n, 0.4)), (name, 0.4 + difference))
    ]
    return SearchComparison(results, folds=np.arange(n) % 5, headroom=0.9, n_documents=1)
