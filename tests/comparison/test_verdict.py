"""Categories of verdicts."""

from __future__ import annotations

import json

import pytest

from nearfar.comparison import Category
from nearfar.evidence.gain import Gain
from nearfar.evidence.verdict import (
    Verdict,
    categorise,
    reported_search,
    reported_sentence,
    search_headline,
    verdict_text,
)
from nearfar.measures.registry import ERROR


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
    assert categorise(0.1, probability) is expected
    assert categorise(0.0, probability) is Category.SAME
    assert categorise(-0.1, probability, 0.95) is Category.WORSE


@pytest.mark.parametrize(
    ("rise", "probability", "harm", "of_unseen", "expected"),
    [
        (0.1, 0.95, 0.0, 0.0, Category.CLEARLY_BETTER),
        (0.1, 0.75, 0.0, 0.74, Category.PROBABLY_BETTER),
        (0.1, 0.95, 0.0, 0.75, Category.CANNOT_TELL),
        (0.1, 0.95, 0.0, 0.95, Category.WORSE),
        (0.1, 0.5, 0.96, 0.0, Category.CANNOT_TELL),
        (0.0, 0.95, 0.95, 0.95, Category.SAME),
        (-0.1, 0.9, 0.94, 0.0, Category.SAME),
        (-0.1, 0.0, 0.95, 0.0, Category.WORSE),
    ],
)
def test_a_change_may_be_worse(rise, probability, harm, of_unseen, expected):
    assert categorise(rise, probability, harm, of_unseen) is expected


def test_words_of_a_new_version():
    gain, figures = Gain(0.01, -0.002, 0.02, 0.6), "AUC 0.900 -> 0.910"
    words = {"unseen": False, "old": "the old version", "cases": "pairs"}
    assert search_headline(Category.CANNOT_TELL, "new", figures, gain, 0.1, **words) == (
        "These pairs cannot tell: AUC 0.900 -> 0.910 on these pairs (60 % probability that it is "
        "better). Expected gain 0.010 (-0.002 to 0.020) after shrinkage."
    )
    assert search_headline(Category.SAME, "new", figures, gain, 0.3, **words) == (
        "No clear gain: AUC 0.900 -> 0.910 on these pairs (30 % probability that it is "
        "worse). Keep the old version."
    )
    lowered = search_headline(Category.WORSE, "new", figures, gain, 0.3, **words, lowered=True)
    assert lowered.startswith("Keep the old version. ")
    assert "--answers" not in lowered
    assert "answers=" not in lowered


def test_a_category_is_its_words():
    figures = {"gain": 0.1, "low": 0.0, "high": 0.2, "probability": 0.96}
    verdict = Verdict("a", "a", "b", Category.CLEARLY_BETTER, **figures, headline="Use a.")
    assert verdict.category == "clearly better"
    assert "category='clearly better'" in repr(verdict)
    assert json.loads(json.dumps(verdict.to_dict()))["category"] == "clearly better"
    assert type(verdict.to_dict()["category"]) is str


def test_every_category_has_its_sentences():
    gain, reference = Gain(0.1, 0.0, 0.2, 0.96), "Euclidean (standardised)"
    names = {"reference": (reference, "9.0 %"), "method": ("mine", "8.0 %"), "guess": "the mean"}
    for category in set(Category) - {Category.USELESS}:
        assert search_headline(category, "mine", "nDCG@10 0.1", gain, 0.0).endswith(".")
        assert reported_search(category, "mine").endswith(".")
    for category in Category:
        sentences = verdict_text(category, ERROR, gain, **names).split(". ")
        assert max(len(sentence.replace(" %", "%").split()) for sentence in sentences) <= 25
    for category in set(Category) - {Category.NOTHING, Category.USELESS}:
        for recommended in (None, "mine", "LDA", reference):
            sentence = reported_sentence(category, "mine", reference, recommended)
            assert "mine" in sentence
            assert "Euclidean distance" in sentence
            assert ("recommends LDA" in sentence) == (recommended == "LDA")
