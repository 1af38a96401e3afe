from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from nearfar import BoostMetric, compare
from nearfar.comparison import GoalComparison, MethodResult, default_methods

METHODS = default_methods(["BoostMetric", "DRMetric"])
UNSCALED, EUCLIDEAN, LDA, BOOST, DR = 0, 1, 5, 6, 7


def result(number, *wrong_rows):
    """A result of one of the usual methods that is wrong on some of 100 rows."""
    wrong = np.zeros(100)
    for rows in wrong_rows:
        wrong[rows] = 1
    return MethodResult(
        METHODS[number],
        errors=np.array([wrong.mean()]),
        triplet_accuracies=np.ones(1),
        maps_at_r=np.array([1 - wrong.mean()]),
        seconds=np.array([0.1]),
        wrong=wrong,
        average_precision=1 - wrong,
    )


def goal_comparison(wrong, goal="classification", **options):
    return GoalComparison([result(*item) for item in wrong.items()], goal, **options)


VERDICTS = {
    "none is clearly better": (
        {UNSCALED: slice(0, 40), EUCLIDEAN: slice(0, 20), LDA: slice(1, 20), BOOST: slice(2, 20)},
        None,
        "Learning did not clearly help: 20.0 % error with Euclidean distance, 18.0 % with the best "
        "method, BoostMetric (within noise).",
        "Learning did not clearly help: MAP@R 0.800 with Euclidean distance, 0.820 with the best "
        "method, BoostMetric (within noise).",
    ),
    "unscaled rows are best": (
        {UNSCALED: slice(0, 4), EUCLIDEAN: slice(0, 20), BOOST: slice(0, 8)},
        None,
        "Learning did not help: Euclidean distance on unscaled rows is best, with 4.0 % error.",
        "Learning did not help: Euclidean distance on unscaled rows is best, with MAP@R 0.960.",
    ),
    "no learner": (
        {EUCLIDEAN: slice(0, 20), LDA: slice(1, 20)},
        None,
        "No method tried is clearly better: 20.0 % error with Euclidean distance, 19.0 % with the "
        "best method, LDA (within noise).",
        None,
    ),
    "learned": (
        {EUCLIDEAN: slice(0, 40), LDA: slice(0, 30), BOOST: slice(0, 10)},
        "BoostMetric",
        "Use BoostMetric: 10.0 % error instead of 40.0 % with Euclidean distance.",
        None,
    ),
    "a plain method is as good": (
        {EUCLIDEAN: slice(0, 40), LDA: slice(0, 12), BOOST: slice(0, 10)},
        "LDA",
        "Use LDA: 12.0 % error instead of 40.0 % with Euclidean distance. The best learner, "
        "BoostMetric, has 10.0 % (within noise).",
        "Use LDA: MAP@R 0.880 instead of 0.600 with Euclidean distance. The best learner, "
        "BoostMetric, has 0.900 (within noise).",
    ),
    "a plain method is best": (
        {EUCLIDEAN: slice(0, 40), LDA: slice(0, 2), BOOST: slice(0, 10)},
        "LDA",
        "Use LDA: 2.0 % error instead of 40.0 % with Euclidean distance. The best learner, "
        "BoostMetric, has 10.0 %.",
        None,
    ),
    "the best of several learners": (
        {EUCLIDEAN: slice(0, 40), BOOST: slice(0, 10), DR: slice(0, 9)},
        "DRMetric",
        "Use DRMetric: 9.0 % error instead of 40.0 % with Euclidean distance.",
        None,
    ),
}


@pytest.mark.parametrize("case", VERDICTS)
@pytest.mark.parametrize("goal", ["classification", "ranking"])
def test_verdicts(case, goal):
    wrong, winner, *sentences = VERDICTS[case]
    found = goal_comparison(wrong, goal)
    assert (found.winner and found.winner.name) == winner
    expected = dict(zip(("classification", "ranking"), sentences, strict=True))[goal]
    assert expected is None or found.verdict == expected


def test_a_plain_method_that_may_be_as_good_is_named():
    wrong = {EUCLIDEAN: slice(0, 40), LDA: slice(4, 40), BOOST: slice(9, 40)}
    found = goal_comparison(wrong)
    assert found.winner.name == "BoostMetric"
    assert found.verdict == (
        "Use BoostMetric: 31.0 % error instead of 40.0 % with Euclidean distance. It is not "
        "clearly better than LDA (36.0 %)."
    )


@pytest.mark.parametrize("boost", [slice(1, 20), slice(0, 20)])
def test_an_incomplete_comparison_does_not_say_that_learning_does_not_help(boost):
    found = goal_comparison({EUCLIDEAN: slice(0, 20), BOOST: boost}, incomplete=True)
    assert found.verdict.startswith("No method tried is")


def test_p_values_are_those_of_fair_coins_adjusted():
    results = [
        result(EUCLIDEAN, slice(0, 10)),
        result(LDA, slice(5, 10)),
        result(BOOST),
        result(DR, slice(0, 10)),
    ]
    found = GoalComparison(results, "classification")
    assert found.p_value(results[1], results[0]) == pytest.approx(2 * 0.5**5)
    assert found.p_values["BoostMetric"] == pytest.approx(3 * 2 * 0.5**10)
    assert found.p_values["LDA"] == pytest.approx(2 * 2 * 0.5**5)
    assert found.p_values["DRMetric"] == 1.0
    assert [found.mark(r) for r in results] == ["", "", "+", ""]


def test_rankings_are_compared_by_rows_and_by_folds(rng):
    usual = METHODS[:2]
    one, other = rng.uniform(size=(2, 40))
    folds = rng.uniform(size=(2, 5))
    results = [
        MethodResult(method, maps_at_r=maps, average_precision=precision)
        for method, maps, precision in zip(usual, folds, (one, other), strict=True)
    ]
    found = GoalComparison(results, "ranking", test_share=0.25).p_value(*results)
    difference = one - other
    by_rows = difference.mean() / (2 * difference.std(ddof=1) / np.sqrt(40))
    change = folds[0] - folds[1]
    by_folds = change.mean() / (change.std(ddof=1) * np.sqrt(1 / 5 + 0.25))
    expected = max(2 * student.sf(abs(by_rows), 39), 2 * student.sf(abs(by_folds), 4))
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rows", "folds", "p"),
    [
        ([0.5, 0.6, np.nan], [0.5], "rows"),
        ([0.5, np.nan, np.nan], [0.5, 0.5], 1.0),
        ([0.0, 0.0, 0.0], [0.0, 0.0], 1.0),
        ([0.5, 0.5, 0.5], [0.5, 0.5], 0.0),
    ],
)
def test_rankings_of_few_rows_and_folds(rows, folds, p):
    usual = METHODS[:2]
    zero = MethodResult(usual[0], maps_at_r=np.zeros(len(folds)), average_precision=np.zeros(3))
    some = MethodResult(usual[1], maps_at_r=np.array(folds), average_precision=np.array(rows))
    found = GoalComparison([zero, some], "ranking").p_value(zero, some)
    if p == "rows":
        p = 2 * student.sf(0.55 / (2 * np.std([0.5, 0.6], ddof=1) / np.sqrt(2)), 1)
    assert found == pytest.approx(p)


def test_a_mark_needs_the_mean_to_agree():
    usual = METHODS[:2]
    wrong = np.concatenate([np.ones(4), np.zeros(16)])
    right = np.concatenate([np.zeros(4), np.full(16, 0.1)])
    one = MethodResult(usual[0], errors=np.array([wrong.mean()]), wrong=wrong)
    other = MethodResult(usual[1], errors=np.array([right.mean()]), wrong=right)
    found = GoalComparison([one, other], "classification")
    assert found.p_value(other, one) == 1.0


def test_labels_without_meaning_have_no_winner(rng):
    X, y = rng.normal(size=(150, 4)), rng.integers(2, size=150)
    found = compare(X, y, [BoostMetric(max_iter=20)])
    assert found.classification.winner is None
    assert "learning did not" in found.verdict


def test_what_only_learning_finds_wins(rng):
    X, y = rng.normal(size=(400, 6)), np.arange(400) % 2
    X[:, 0] = y + 0.15 * rng.normal(size=400) + 2 * rng.integers(3, size=400)
    found = compare(X, y, ["NCA"])
    assert found.classification.winner.method.kind == "learned"
    assert found.classification.mark(found["LDA"]) != "+"
