"""Verdicts on searches, in words."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar.comparison.gains import (
    SEARCH_NOISE,
    SEARCH_SPREADS,
    Gain,
    expected_gains,
    observe_rows,
)
from nearfar.retrieval.verdict import category, judge, untried


@pytest.mark.parametrize(
    ("after", "probability", "p_value", "expected"),
    [
        (0.5, 0.96, 0.001, "clearly better"),
        (0.5, 0.80, 0.04, "probably better"),
        (0.5, 0.50, 0.2, "too few searches to tell"),
        (0.5, 0.10, 0.2, "no clear gain"),
        (0.4, 0.50, 1.0, "no clear gain"),
        (0.3, 0.50, 0.2, "no clear gain"),
        (0.3, 0.01, 0.01, "worse"),
    ],
)
def test_categories(after: float, probability: float, p_value: float, expected: str) -> None:
    assert category(0.4, after, Gain(0.0, 0.0, 0.0, probability), p_value) == expected


def test_sentences_have_the_figures() -> None:
    gain = Gain(0.051, 0.02, 0.08, 0.999)
    found = judge("both", "nDCG@10", 0.412, 0.463, gain, 0.001, alone=True)
    assert found.headline == (
        "It helps: nDCG@10 0.412 -> 0.463 on searches it has not seen (clearly better: over 99 %). "
        "Expected gain 0.051 (0.020 to 0.080)."
    )
    assert judge("both", "nDCG@10", 0.412, 0.463, gain, 0.001, alone=False).headline.startswith(
        "Use both: nDCG@10 0.412 -> 0.463"
    )
    assert found.to_dict()["after"] == 0.463
    assert str(found) == found.headline


@pytest.mark.parametrize(
    ("after", "probability", "start", "named"),
    [
        (0.45, 0.80, "It helps: nDCG@10 0.400 -> 0.450", "Use both: "),
        (
            0.41,
            0.50,
            "Too few judged searches to tell: ",
            "Too few judged searches to tell (both): ",
        ),
        (0.39, 0.10, "No clear gain: ", "No clear gain (both): "),
        (0.20, 0.00, "It does harm: ", "Adapting does harm (both): "),
    ],
)
def test_sentences_of_other_verdicts(
    after: float, probability: float, start: str, named: str
) -> None:
    gain, p_value = Gain(0.0, -0.01, 0.01, probability), 0.01 if after < 0.3 else 0.2
    for alone, expected in ((True, start), (False, named)):
        found = judge("both", "nDCG@10", 0.4, after, gain, p_value, alone=alone)
        assert found.headline.startswith(expected)
        assert found.headline.endswith("Keep the untouched vectors.") == (after < 0.4)


def test_nothing_to_compare() -> None:
    found = untried("nDCG@10", 0.4)
    assert found.category == "nothing to compare"
    assert not found.helps


@pytest.mark.parametrize("n_queries", [30, 225])
def test_noise_is_hardly_ever_called_better(n_queries: int) -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(300):
        changed = rng.random(n_queries) < 0.5
        difference = np.where(changed, rng.normal(0.0, 0.2, n_queries), 0.0)
        gain = expected_gains([observe_rows(difference, SEARCH_NOISE)], 0.6, SEARCH_SPREADS)[0]
        found.append(category(0.4, 0.4 + float(difference.mean()), gain, p_value=1.0))
    assert found.count("clearly better") <= 3
    assert found.count("probably better") <= 15
