"""Verdicts on searches, in words."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar.comparison.gains import Gain
from nearfar.retrieval import SearchComparison, SearchResult
from nearfar.retrieval.ranking import Ranking
from nearfar.retrieval.verdict import category, judge, untried
from nearfar.typing import Vector


@pytest.mark.parametrize(
    ("after", "probability", "harm", "expected"),
    [
        (0.5, 0.96, 0.0, "clearly better"),
        (0.5, 0.80, 0.0, "probably better"),
        (0.5, 0.50, 0.1, "too few searches to tell"),
        (0.5, 0.10, 0.1, "no clear gain"),
        (0.4, 0.50, 0.5, "no clear gain"),
        (0.3, 0.50, 0.94, "no clear gain"),
        (0.3, 0.01, 0.95, "worse"),
    ],
)
def test_categories(after: float, probability: float, harm: float, expected: str) -> None:
    assert category(0.4, after, Gain(0.0, 0.0, 0.0, probability), harm) == expected


def test_sentences_have_the_figures() -> None:
    gain = Gain(0.051, 0.02, 0.08, 0.999)
    found = judge("both", "nDCG@10", 0.412, 0.463, gain, 0.0, alone=True)
    assert found.headline == (
        "It helps: nDCG@10 0.412 -> 0.463 on searches it has not seen (clearly better: over 99 %). "
        "Expected gain 0.051 (0.020 to 0.080), corrected for chance."
    )
    assert judge("both", "nDCG@10", 0.412, 0.463, gain, 0.0, alone=False).headline.startswith(
        "Use both: nDCG@10 0.412 -> 0.463"
    )
    assert found.to_dict()["after"] == 0.463
    assert str(found) == found.headline


@pytest.mark.parametrize(
    ("after", "probability", "start", "named"),
    [
        (0.45, 0.80, "It probably helps: nDCG@10 0.400 -> 0.450", "Use both: "),
        (
            0.41,
            0.50,
            "These searches cannot tell: ",
            "These searches cannot tell (both): ",
        ),
        (0.39, 0.10, "No clear gain: ", "No clear gain (both): "),
        (0.20, 0.00, "It does harm: ", "Adapting does harm (both): "),
    ],
)
def test_sentences_of_other_verdicts(
    after: float, probability: float, start: str, named: str
) -> None:
    gain, harm = Gain(0.0, -0.01, 0.01, probability), 0.97 if after < 0.3 else 0.2
    for alone, expected in ((True, start), (False, named)):
        found = judge("both", "nDCG@10", 0.4, after, gain, harm, alone=alone)
        assert found.headline.startswith(expected)
        assert found.headline.endswith("Keep the untouched vectors.") == (after < 0.4)
        assert ("(clearly worse: 97 %)" in found.headline) == (after < 0.3)


def test_searches_that_may_have_been_learned_from_are_not_called_unseen() -> None:
    gain = Gain(0.051, 0.02, 0.08, 0.999)
    found = judge("both", "nDCG@10", 0.412, 0.463, gain, 0.0, alone=True, unseen=False)
    assert "0.463 on these searches (clearly better" in found.headline


def test_nothing_to_compare() -> None:
    found = untried("nDCG@10", 0.4)
    assert found.category == "nothing to compare"
    assert not found.helps


@pytest.mark.parametrize("n_queries", [30, 225])
def test_noise_is_hardly_ever_called_better_or_worse(n_queries: int) -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(300):
        changed = rng.random(n_queries) < 0.5
        difference = np.where(changed, rng.normal(0.0, 0.2, n_queries), 0.0)
        found.append(compared(difference))
    categories = [each.verdict.category for each in found]
    assert categories.count("clearly better") <= 3
    assert categories.count("probably better") <= 15
    assert categories.count("worse") <= 3


@pytest.mark.parametrize("shift", [-0.2, -0.1, -0.02, 0.0, 0.02, 0.1, 0.2])
@pytest.mark.parametrize("n_queries", [20, 300])
def test_table_and_verdict_say_the_same(n_queries: int, shift: float) -> None:
    """A mark is the category of the verdict, for searches that gain and that lose alike."""
    found = compared(np.random.default_rng(1).normal(shift, 0.15, n_queries))
    marks = {"clearly better": "+", "worse": "-"}
    assert found.mark(found.best) == marks.get(found.verdict.category, "")
    assert found.rows()[1]["mark"] == found.mark(found.best)
    if abs(shift) == 0.2 and n_queries == 300:
        assert found.verdict.category == ("clearly better" if shift > 0 else "worse")
        sure = found.verdict.probability if shift > 0 else found.verdict.harm
        assert sure > 0.99


def compared(difference: Vector) -> SearchComparison:
    """Return a comparison with known differences."""
    n = len(difference)
    ranking = Ranking(np.arange(n), np.zeros((n, 1), dtype=np.intp), np.zeros((n, 1)))
    results = [
        SearchResult(name, ranking, {"nDCG@10": values})
        for name, values in (("untouched", np.full(n, 0.4)), ("adapted", 0.4 + difference))
    ]
    return SearchComparison(results, folds=np.arange(n) % 5, headroom=0.9, n_documents=1)
