from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from nearfar import BoostMetric, compare
from nearfar.comparison import GoalComparison, MethodResult, default_methods
from nearfar.comparison.goal_verdict import categorise

METHODS = default_methods(["BoostMetric", "DRMetric"])
UNSCALED, EUCLIDEAN, LDA, BOOST, DR = 0, 1, 6, 7, 8


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
    "none is significantly better": (
        {UNSCALED: slice(0, 40), EUCLIDEAN: slice(0, 20), LDA: slice(1, 20), BOOST: slice(2, 20)},
        None,
        ("LDA", "too few rows to tell"),
    ),
    "unscaled rows are best": (
        {UNSCALED: slice(0, 4), EUCLIDEAN: slice(0, 20), BOOST: slice(0, 20)},
        None,
        ("BoostMetric", "no difference that matters"),
    ),
    "learned": (
        {EUCLIDEAN: slice(0, 40), LDA: slice(0, 30), BOOST: slice(0, 10)},
        "BoostMetric",
        ("BoostMetric", "clearly better"),
    ),
    "a plain method is as good": (
        {EUCLIDEAN: slice(0, 40), LDA: slice(0, 11), BOOST: slice(0, 10)},
        "LDA",
        ("LDA", "clearly better"),
    ),
    "a plain method is best": (
        {EUCLIDEAN: slice(0, 40), LDA: slice(0, 2), BOOST: slice(0, 10)},
        "LDA",
        ("LDA", "clearly better"),
    ),
    "the best of several learners": (
        {EUCLIDEAN: slice(0, 40), BOOST: slice(0, 10), DR: slice(0, 9)},
        "DRMetric",
        ("DRMetric", "clearly better"),
    ),
    "probably better, but not significantly": (
        {EUCLIDEAN: slice(0, 8), LDA: slice(5, 8), BOOST: slice(0, 20)},
        None,
        ("LDA", "probably better"),
    ),
}


@pytest.mark.parametrize("case", VERDICTS)
@pytest.mark.parametrize("goal", ["classification", "ranking"])
def test_verdicts(case, goal):
    wrong, winner, guess = VERDICTS[case]
    found = goal_comparison(wrong, goal)
    if goal == "classification":
        assert (found.verdict.method, found.verdict.category) == guess
    assert (found.winner and found.winner.name) == winner
    gain = found.gains[found.verdict.method]
    assert found.verdict.probability == gain.probability
    assert (found.verdict.low, found.verdict.gain, found.verdict.high) == (
        gain.low,
        gain.gain,
        gain.high,
    )
    assert found.verdict.low < found.verdict.gain < found.verdict.high
    chosen = next(r for r in found.results if r.name == found.verdict.method)
    expected = categorise(gain.probability, promising=found.promises(chosen))
    assert found.verdict.category == expected
    assert str(found.verdict) == found.verdict.headline
    assert found.verdict.to_dict()["reference"] == found.reference.name


def headline(wrong, goal="classification"):
    return goal_comparison(wrong, goal).verdict.headline


def test_headlines_say_how_much_and_how_sure():
    wrong = {EUCLIDEAN: slice(0, 40), LDA: slice(0, 30), BOOST: slice(0, 10)}
    assert headline(wrong) == (
        "Use BoostMetric: error 10.0 % instead of 40.0 % with Euclidean distance (clearly better: "
        "over 99 %). Expected gain 27.7 points (19.0 to 36.4). The best plain method, LDA, has "
        "30.0 %."
    )
    assert headline(wrong, "ranking").startswith(
        "Use BoostMetric: MAP@R 0.900 instead of 0.600 with Euclidean distance (clearly better: "
    )
    few = {EUCLIDEAN: slice(0, 20), BOOST: slice(2, 20)}
    assert headline(few).startswith(
        "Too few rows to tell: error 20.0 % with Euclidean distance, 18.0 % with BoostMetric "
        "(better: "
    )
    none = {UNSCALED: slice(0, 4), BOOST: slice(0, 9)}
    assert headline(none).startswith(
        "Keep Euclidean distance on unscaled rows: error 4.0 %. No other method makes a "
        "difference that matters; the best, BoostMetric, has 9.0 % (better: "
    )
    assert headline({EUCLIDEAN: slice(0, 20)}) == (
        "No other method was tried: error 20.0 % with Euclidean distance."
    )


@pytest.mark.parametrize(
    ("lda", "boost", "ending"),
    [
        (10, 10, " BoostMetric does as well (10.0 %)."),
        (11, 10, " BoostMetric does as well (10.0 %)."),
        (10, 12, " BoostMetric may do as well (12.0 %)."),
        (10, 25, " The best learner, BoostMetric, has 25.0 %."),
        (12, 10, " LDA may do as well (12.0 %)."),
        (25, 10, " The best plain method, LDA, has 25.0 %."),
        (45, 10, ")."),
    ],
)
def test_plain_methods_and_learners_beside_each_other(lda, boost, ending):
    wrong = {EUCLIDEAN: slice(0, 40), LDA: slice(0, lda), BOOST: slice(0, boost)}
    assert headline(wrong).endswith(ending)
    assert headline(wrong).startswith("Use LDA" if lda <= boost + 1 else "Use BoostMetric")


def test_the_best_guess():
    found = goal_comparison({EUCLIDEAN: slice(0, 20), LDA: slice(0, 40), BOOST: slice(2, 20)})
    assert found.best.name == "BoostMetric"
    assert goal_comparison({EUCLIDEAN: slice(0, 20), LDA: slice(0, 40)}).best is None
    assert goal_comparison({EUCLIDEAN: slice(0, 20)}).best is None


def test_probabilities_of_two_methods():
    wrong = {EUCLIDEAN: slice(0, 40), LDA: slice(0, 12), BOOST: slice(0, 10)}
    found = goal_comparison(wrong)
    euclidean, lda, boost = found.results
    assert found.probability_better(boost, euclidean) > 0.99
    assert found.probability_better(euclidean, boost) < 0.01
    assert 0.3 < found.probability_better(boost, lda) < 0.75
    assert found.probability_better(lda, lda) < 0.5


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
        MethodResult(method, {"map_at_r": 1 - precision}, {"map_at_r": 1 - maps})
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
    zero, some = (
        MethodResult(method, {"map_at_r": 1 - np.array(one)}, {"map_at_r": 1 - np.array(other)})
        for method, one, other in zip(
            usual, (np.zeros(3), rows), (0 * np.array(folds), folds), strict=True
        )
    )
    found = GoalComparison([zero, some], "ranking").p_value(zero, some)
    if p == "rows":
        p = 2 * student.sf(0.55 / (2 * np.std([0.5, 0.6], ddof=1) / np.sqrt(2)), 1)
    assert found == pytest.approx(p)


def test_a_mark_needs_the_mean_to_agree():
    usual = METHODS[:2]
    wrong = np.concatenate([np.ones(4), np.zeros(16)])
    right = np.concatenate([np.zeros(4), np.full(16, 0.1)])
    one, other = (
        MethodResult(method, {"error": values}, {"error": np.array([values.mean()])})
        for method, values in zip(usual, (wrong, right), strict=True)
    )
    found = GoalComparison([one, other], "classification")
    assert found.p_value(other, one) == 1.0


def test_labels_without_meaning_have_no_winner(rng):
    X, y = rng.normal(size=(150, 4)), rng.integers(2, size=150)
    found = compare(X, y, [BoostMetric(max_iter=20)])
    assert found.classification.winner is None
    assert not found.classification.verdict.helps


def test_what_only_learning_finds_wins(rng):
    X, y = rng.normal(size=(400, 6)), np.arange(400) % 2
    X[:, 0] = y + 0.15 * rng.normal(size=400) + 2 * rng.integers(3, size=400)
    found = compare(X, y, ["NCA"])
    assert found.classification.winner.method.kind == "learned"
    assert found.classification.mark(found["LDA"]) != "+"
