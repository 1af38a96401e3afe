from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from nearfar import BoostMetric, compare
from nearfar.comparison import Category, GoalComparison, MethodResult, default_methods
from nearfar.comparison.goal_verdict import compare_losses
from nearfar.comparison.verdict import categorise

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
    "none is significantly better": (
        {UNSCALED: slice(0, 40), EUCLIDEAN: slice(0, 20), LDA: slice(1, 20), BOOST: slice(2, 20)},
        None,
        ("LDA", Category.CANNOT_TELL),
    ),
    "unscaled rows are best": (
        {UNSCALED: slice(0, 4), EUCLIDEAN: slice(0, 20), BOOST: slice(0, 20)},
        None,
        ("BoostMetric", Category.SAME),
    ),
    "learned": (
        {EUCLIDEAN: slice(0, 40), LDA: slice(0, 30), BOOST: slice(0, 10)},
        "BoostMetric",
        ("BoostMetric", Category.CLEARLY_BETTER),
    ),
    "a plain method is as good": (
        {EUCLIDEAN: slice(0, 40), LDA: slice(0, 11), BOOST: slice(0, 10)},
        "LDA",
        ("LDA", Category.CLEARLY_BETTER),
    ),
    "a plain method is best": (
        {EUCLIDEAN: slice(0, 40), LDA: slice(0, 2), BOOST: slice(0, 10)},
        "LDA",
        ("LDA", Category.CLEARLY_BETTER),
    ),
    "the best of several learners": (
        {EUCLIDEAN: slice(0, 40), BOOST: slice(0, 10), DR: slice(0, 9)},
        "DRMetric",
        ("DRMetric", Category.CLEARLY_BETTER),
    ),
    "probably better, but not significantly": (
        {EUCLIDEAN: slice(0, 8), LDA: slice(5, 8), BOOST: slice(0, 20)},
        None,
        ("LDA", Category.PROBABLY_BETTER),
    ),
    "cosine is the best of the baselines": (
        {UNSCALED: slice(0, 60), EUCLIDEAN: slice(0, 50), COSINE: slice(0, 30), LDA: slice(0, 10)},
        "LDA",
        ("LDA", Category.CLEARLY_BETTER),
    ),
    "a learner is better than Euclidean distance, but not than cosine": (
        {EUCLIDEAN: slice(0, 60), COSINE: slice(0, 30), BOOST: slice(0, 33)},
        None,
        ("BoostMetric", Category.SAME),
    ),
}


@pytest.mark.parametrize("case", VERDICTS)
@pytest.mark.parametrize("goal", ["classification", "ranking"])
def test_verdicts(case, goal):
    wrong, winner, guess = VERDICTS[case]
    found = goal_comparison(wrong, goal)
    if goal == "classification":
        assert (found.verdict.method, found.verdict.category) == guess
        used = guess[0] if found.verdict.helps else found.reference.name
        assert found.verdict.recommended == found.recommended.name == used
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
        "over 99 %). Expected gain 27.7 points (19.0 to 36.4) after shrinkage. The best "
        "plain method, LDA, has 30.0 %."
    )
    assert headline(wrong, "ranking").startswith(
        "Use BoostMetric: MAP@R 0.900 instead of 0.600 with Euclidean distance (clearly better: "
    )
    none = {UNSCALED: slice(0, 4), BOOST: slice(0, 9)}
    assert headline(none).startswith(
        "Keep Euclidean distance on unscaled rows: error 4.0 %. No other method that was "
        "tried makes a difference that matters; the best, BoostMetric, has 9.0 % (25 % "
        "probability that it is better)."
    )
    assert headline({EUCLIDEAN: slice(0, 20)}) == (
        "No other method was tried: error 20.0 % with Euclidean distance."
    )


def test_the_best_is_not_one_that_is_much_worse_on_a_few_rows(rng):
    """Its gain is so uncertain that the expected one is that of any method."""
    unscaled = rng.exponential(0.05, 200)
    worse = unscaled + 20 * (np.arange(200) % 50 == 0)
    losses = {"Euclidean (unscaled)": unscaled, "inverse covariance": worse}
    verdict = compare_losses("regression", losses | {"MLKR": 0.999 * unscaled}).verdict
    assert (verdict.method, verdict.category) == ("MLKR", Category.SAME)
    assert "the best, MLKR, has" in verdict.headline
    # If all are worse, it is the least bad one.
    verdict = compare_losses("regression", losses | {"MLKR": unscaled + 0.1}).verdict
    assert verdict.headline.count("the best, MLKR, has") == 1


@pytest.mark.parametrize(("n_groups", "cases"), [(50, "groups"), (90, "rows"), (100, "rows")])
def test_too_few_groups(n_groups, cases):
    row = np.arange(100)
    wrong = {"Euclidean (unscaled)": row < 20, "LDA": (row < 10) | (row // 7 == 3)}
    losses = {name: rows.astype(float) for name, rows in wrong.items()}
    goal = compare_losses("classification", losses, groups=np.arange(100) % n_groups)
    assert goal.cases == cases
    assert f"Too few {cases} to be sure" in goal.verdict.headline


@pytest.mark.parametrize(
    ("lda", "boost", "ending"),
    [
        (10, 10, " BoostMetric does as well (10.0 %): a tie, which goes to the simpler method."),
        (
            11,
            10,
            " BoostMetric has 10.0 %, too small a difference to count: a tie, which goes to the "
            "simpler method.",
        ),
        (10, 12, " BoostMetric may do as well (12.0 %)."),
        (10, 25, " The best learner, BoostMetric, has 25.0 %."),
        (12, 10, " LDA may do as well (12.0 %)."),
        (25, 10, " The best plain method, LDA, has 25.0 %."),
        (45, 10, ") after shrinkage."),
    ],
)
def test_plain_methods_and_learners_beside_each_other(lda, boost, ending):
    wrong = {EUCLIDEAN: slice(0, 40), LDA: slice(0, lda), BOOST: slice(0, boost)}
    assert headline(wrong).endswith(ending)
    assert headline(wrong).startswith("Use LDA" if lda <= boost + 1 else "Use BoostMetric")


@pytest.mark.parametrize(
    ("wrong", "used", "beginning"),
    [
        ({}, None, "No other method was tried: error 20.0 % with Euclidean distance."),
        ({LDA: slice(0, 40)}, EUCLIDEAN, "Keep Euclidean distance: error 20.0 %. No other"),
        (
            {BOOST: slice(0, 20)},
            EUCLIDEAN,
            "Keep Euclidean distance: error 20.0 %. A tie with the best other method, BoostMetric: "
            "20.0 %. Too few rows to tell them apart (3",
        ),
        (
            {BOOST: [slice(0, 10), slice(20, 27)]},
            BOOST,
            "Use BoostMetric: error 17.0 % instead of 20.0 % with Euclidean distance. Too few rows "
            "to be sure (6",
        ),
        ({BOOST: slice(0, 5)}, BOOST, "Use BoostMetric: error 5.0 % instead of 20.0 % with Eucl"),
    ],
)
def test_what_is_recommended_comes_first(wrong, used, beginning):
    every = [(EUCLIDEAN, slice(0, 20)), *wrong.items()]
    results = [result(n, *(rows if isinstance(rows, list) else [rows])) for n, rows in every]
    found = GoalComparison(results, "classification")
    assert found.verdict.headline.startswith(beginning)
    assert found.verdict.recommended == (None if used is None else METHODS[used].name)
    assert found.recommended is next((r for r in results if r.method is METHODS[used or 0]), None)


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


def test_a_distance_without_a_file_is_named_but_not_recommended():
    wrong = {EUCLIDEAN: slice(0, 40), L1: slice(0, 2), CHI_SQUARE: slice(0, 5), LDA: slice(0, 20)}
    found = goal_comparison(wrong)
    assert found.verdict.recommended == found.verdict.method == "LDA"
    assert found.verdict.headline.endswith(
        " L1 has 2.0 %, but is not a linear map, and cannot be written as a metric."
    )
    assert "L1" not in headline(wrong | {L1: slice(0, 21), CHI_SQUARE: slice(0, 21)})
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
