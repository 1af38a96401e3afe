"""Categories of verdicts."""

from __future__ import annotations

import json

import pytest

from nearfar.comparison import Category, MethodResult, default_methods
from nearfar.comparison.gains import Gain
from nearfar.comparison.verdict import Verdict, categorise
from nearfar.comparison.verdict_wording import reported_search, reported_sentence, search_headline


@pytest.mark.parametrize(
    ("probability", "expected"),
    [
        (0.95, Category.CLEARLY_BETTER),
        (0.94, Category.PROBABLY_BETTER),
        (0.75, Category.PROBABLY_BETTER),
        (0.74, Category.CANNOT_TELL),
        (0.26, Category.CANNOT_TELL),
        (0.25, Category.SAME),
    ],
)
def test_a_probability_decides(probability, expected):
    assert categorise(probability) is expected
    assert categorise(probability, worse=True) is Category.WORSE
    promising = expected not in (Category.CANNOT_TELL, Category.SAME)
    assert categorise(probability, promising=False) is (expected if promising else Category.SAME)


def test_a_category_is_its_words():
    figures = {"gain": 0.1, "low": 0.0, "high": 0.2, "probability": 0.96}
    verdict = Verdict("a", "a", "b", Category.CLEARLY_BETTER, **figures, headline="Use a.")
    assert verdict.category == "clearly better"
    assert "category='clearly better'" in repr(verdict)
    assert json.loads(json.dumps(verdict.to_dict()))["category"] == "clearly better"
    assert type(verdict.to_dict()["category"]) is str


def test_every_category_has_its_sentences():
    """Verdicts on searches are all but "not tested"; reports on metrics compare something."""
    gain, reference = Gain(0.1, 0.0, 0.2, 0.96), MethodResult(default_methods([])[1])
    for category in set(Category) - {Category.NOT_TESTED}:
        assert search_headline(category, "mine", "nDCG@10 0.1", gain, 0.0).endswith(".")
        assert reported_search(category, "mine").endswith(".")
    for category in set(Category) - {Category.NOTHING}:
        for recommended in (None, "mine", "LDA", reference.name):
            sentence = reported_sentence(category, "mine", reference, recommended)
            assert "mine" in sentence
            assert "Euclidean distance" in sentence
            assert ("recommends LDA" in sentence) == (recommended == "LDA")
