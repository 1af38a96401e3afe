from __future__ import annotations

import numpy as np
import pytest

from nearfar import BoostMetric, compare
from nearfar.comparison import Category, GoalComparison, MethodResult, default_methods

METHODS = default_methods(["BoostMetric", "DRMetric"])
UNSCALED, EUCLIDEAN, COSINE, L1, CHI_SQUARE, _, LDA, BOOST, DR = range(9)


def result(number, *wrong_rows):
    """A result of one of the usual methods that is wrong on some of 100 rows."""
    wrong = np.zeros(100)
    for rows in wrong_rows:
        wrong[rows] = 1
    losses = {"error": wrong, "map_at_r": wrong}
    means = {name: np.array([values.mean()]) for name, values in losses.items()}
    return MethodResult(METHODS[number], losses, means, seconds=np.array([0.1]))


def goal_comparison(wrong, goal="classification", **options):
    return GoalComparison([result(*item) for item in wrong.items()], goal, **options)


VERDICTS = {
    "none is clearly better": (
        {UNSCALED: slice(0, 40), EUCLIDEAN: slice(0, 20), LDA: slice(1, 20), BOOST: slice(2, 20)},
        ("BoostMetric", Category.CANNOT_TELL),
    ),
    "unscaled rows are best": (
        {UNSCALED: slice(0, 4), EUCLIDEAN: slice(0, 20), BOOST: slice(0, 20)},
        ("BoostMetric", Category.WORSE),
    ),
    "learned": (
        {EUCLIDEAN: slice(0, 40), LDA: slice(0, 30), BOOST: slice(0, 10)},
        ("BoostMetric", Category.CLEARLY_BETTER),
    ),
    "a plain method is as good": (
        {EUCLIDEAN: slice(0, 40), LDA: slice(0, 11), BOOST: slice(0, 10)},
        ("LDA", Category.CLEARLY_BETTER),
    ),
    "a plain method is best": (
        {EUCLIDEAN: slice(0, 40), LDA: slice(0, 2), BOOST: slice(0, 10)},
        ("LDA", Category.CLEARLY_BETTER),
    ),
    "the best of several learners": (
        {EUCLIDEAN: slice(0, 40), BOOST: slice(0, 10), DR: slice(0, 9)},
        ("DRMetric", Category.CLEARLY_BETTER),
    ),
    "probably better": (
        {EUCLIDEAN: slice(0, 8), LDA: slice(5, 8), BOOST: slice(0, 20)},
        ("LDA", Category.PROBABLY_BETTER),
    ),
    "cosine is the best of the baselines": (
        {UNSCALED: slice(0, 60), EUCLIDEAN: slice(0, 50), COSINE: slice(0, 30), LDA: slice(0, 10)},
        ("LDA", Category.CLEARLY_BETTER),
    ),
    "a learner is better than Euclidean distance, but not than cosine": (
        {EUCLIDEAN: slice(0, 60), COSINE: slice(0, 30), BOOST: slice(0, 33)},
        ("BoostMetric", Category.SAME),
    ),
    "nothing else": ({EUCLIDEAN: slice(0, 20)}, (None, Category.NOTHING)),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_verdicts(case):
    wrong, (method, category) = VERDICTS[case]
    found = goal_comparison(wrong)
    verdict = found.verdict
    assert (verdict.method, verdict.category) == (method, category)
    assert str(verdict) == verdict.headline
    assert verdict.to_dict()["reference"] == found.reference.name
    if method is None:
        assert found.recommended is None
        return
    used = method if verdict.helps else found.reference.name
    assert verdict.recommended == found.recommended.name == used
    gain = found.gains[method]
    assert (verdict.low, verdict.gain, verdict.high) == (gain.low, gain.gain, gain.high)
    assert verdict.low < verdict.gain < verdict.high


def test_headlines_say_how_much_and_how_sure():
    wrong = {EUCLIDEAN: slice(0, 40), LDA: slice(0, 30), BOOST: slice(0, 10)}
    assert goal_comparison(wrong).verdict.headline == (
        "Use BoostMetric: error 10.0 % instead of 40.0 % with Euclidean distance (clearly better: "
        "over 99 % sure). Expected gain 27.7 points (19.0 to 36.4) after shrinkage."
    )
    ranking = goal_comparison(wrong, "ranking").verdict.headline
    assert ranking.startswith("Use BoostMetric: MAP@R 0.900 instead of 0.600 ")
    none = goal_comparison({UNSCALED: slice(0, 4), BOOST: slice(0, 9)}).verdict.headline
    assert none.startswith("No clear difference: keep Euclidean distance on unscaled rows (error 4")


def test_what_is_no_better_than_a_guess_is_not_recommended(rng):
    labels = np.repeat(["a", "b"], [60, 40])
    useless = goal_comparison({EUCLIDEAN: slice(0, 45), LDA: slice(0, 41)}, labels=labels).verdict
    assert useless.category is Category.USELESS
    assert useless.recommended is None
    assert "largest class" in useless.headline
    good = goal_comparison({EUCLIDEAN: slice(0, 45), LDA: slice(0, 20)}, labels=labels).verdict
    assert good.recommended == "LDA"
    X, numbers = rng.normal(size=(100, 3)), rng.normal(size=100)
    verdict = compare(X, numbers, [], classifiers=False).by_goal("regression").verdict
    assert verdict.category is Category.USELESS
    assert "the mean" in verdict.headline


@pytest.mark.parametrize("goal", ["classification", "ranking"])
def test_the_best_baseline_is_the_reference_and_of_equal_ones_the_simplest(goal):
    names = {UNSCALED: 30, EUCLIDEAN: 30, COSINE: 30}
    for better, reference in [
        ({}, EUCLIDEAN),
        ({UNSCALED: 20, COSINE: 20}, UNSCALED),
        ({COSINE: 29}, EUCLIDEAN),
        ({COSINE: 15}, COSINE),
    ]:
        wrong = {number: slice(0, n) for number, n in (names | better).items()}
        assert goal_comparison(wrong, goal).reference.name == METHODS[reference].name


def test_a_distance_without_a_file_is_not_recommended():
    wrong = {EUCLIDEAN: slice(0, 40), L1: slice(0, 2), CHI_SQUARE: slice(0, 5), LDA: slice(0, 20)}
    found = goal_comparison(wrong)
    assert found.verdict.recommended == found.verdict.method == "LDA"
    assert found.mark(found.results[1]) == "+"
    alone = goal_comparison({EUCLIDEAN: slice(0, 40), L1: slice(0, 2)})
    assert alone.verdict.category == Category.NOTHING
    assert alone.recommended is None


def test_probabilities_of_two_methods():
    wrong = {EUCLIDEAN: slice(0, 40), LDA: slice(0, 12), BOOST: slice(0, 10)}
    found = goal_comparison(wrong)
    euclidean, lda, boost = found.results
    assert found.probability_better(boost, euclidean) > 0.99
    assert found.probability_better(euclidean, boost) < 0.01
    assert 0.3 < found.probability_better(boost, lda) < 0.75
    assert found.probability_better(lda, lda) < 0.5


def test_marks_are_clear_differences():
    wrong = {EUCLIDEAN: slice(0, 30), LDA: slice(2, 30), BOOST: slice(0, 5), DR: slice(0, 70)}
    found = goal_comparison(wrong)
    assert [found.mark(r) for r in found.results] == ["", "", "+", "-"]


def test_labels_without_meaning_have_no_winner(rng):
    X, y = rng.normal(size=(150, 4)), rng.integers(2, size=150)
    found = compare(X, y, [BoostMetric(max_iter=20)])
    assert not found.classification.verdict.helps


def test_what_only_learning_finds_wins(rng):
    X, y = rng.normal(size=(400, 6)), np.arange(400) % 2
    X[:, 0] = y + 0.15 * rng.normal(size=400) + 2 * rng.integers(3, size=400)
    found = compare(X, y, ["NCA"])
    assert found.classification.recommended.method.kind == "learned"
    assert found.classification.mark(found["LDA"]) != "+"
