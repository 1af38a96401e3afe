"""Comparisons on numbers: R2 and absolute errors of neighbours, beside regressions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.neighbors import KNeighborsRegressor

from nearfar import MLKR, compare
from nearfar.comparison.methods import BOOSTING, RIDGE, default_methods
from nearfar.comparison.tasks import row_folds
from nearfar.evidence.verdict import STANDARDISED, UNSCALED

X, Y = make_friedman1(200, n_features=7, noise=0.5, random_state=0)
FOLDS = row_folds(np.argsort(np.argsort(Y)) * 2 // 200, 5, None, 0)


@pytest.fixture(scope="module")
def found():
    return compare(X, Y, [MLKR(random_state=0)], n_neighbors=3)


def test_euclidean_distance_against_scikit_learn(found):
    """Every row is predicted once, by rows of other folds."""
    predicted = np.empty(len(Y))
    for train, test in FOLDS:
        predicted[test] = KNeighborsRegressor(3).fit(X[train], Y[train]).predict(X[test])
    errors = predicted - Y
    np.testing.assert_allclose(1 - found[UNSCALED].losses["r2"], 1 - errors**2 / Y.var())
    np.testing.assert_allclose(found[UNSCALED].losses["mae"], np.abs(errors))


def test_folds_have_small_and_large_numbers():
    median = np.median(Y)
    for _, test in FOLDS:
        assert (Y[test] < median).sum() == 20


def test_the_verdict(found):
    verdict = found.goals["regression"].verdict
    assert verdict.recommended == "MLKR"
    assert verdict.helps
    assert verdict.headline.startswith("Use MLKR: R² 0.")
    assert found.title == "3-NN R² ± std over 5 folds, 200 rows"
    assert "classification" not in found.goals


def test_regressions_are_beside_them(found):
    by_name = {result.name: 1 - result.loss("r2") for result in found.classifiers}
    assert by_name[BOOSTING] > by_name[RIDGE] > 1 - found[STANDARDISED].loss("r2")
    assert f"\n{RIDGE}" in str(found)
    assert [row["name"] for row in found.to_dict()["classifiers"]] == [RIDGE, BOOSTING]
    assert not compare(X, Y, [], classifiers=False).classifiers


def test_numbers_that_could_be_classes():
    y = np.digitize(Y, np.quantile(Y, [0.25, 0.5, 0.75]))
    assert set(compare(X, y, ["RCA"], classifiers=False).goals) == {"classification", "ranking"}
    forced = compare(X, y, ["AutoMetric"], numbers=True, classifiers=False, cv=2)
    assert forced["AutoMetric"].method.estimator.goal == "regression"
    assert 1 - forced["AutoMetric"].loss("r2") > 0.4


def test_the_usual_learners():
    names = {method.name for method in default_methods(supervision="numbers")}
    assert {"AutoMetric", "MLKR"} <= names
    assert "NCA" not in names


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "classes"}, "needs class labels; there are numbers"),
        ({"learners": ["NCA"]}, "NCA does not learn from numbers"),
        ({"cv": 1}, "cv must be"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        compare(X, Y, **options)


@pytest.mark.slow
def test_intervals_hold():
    """R2 of one column of noise and one that counts, cross-validated on 200 draws.

    The truth is the mean over training rows as many as those of a fold.
    """
    held, truths = 0, []
    rng = np.random.default_rng(0)
    big = rng.normal(size=(4000, 2))
    y = big[:, 0] + rng.normal(size=4000)
    for _ in range(20):
        rows = rng.permutation(4000)
        voters = KNeighborsRegressor(3).fit(big[rows[:80]], y[rows[:80]])
        truths.append(1 - voters.score(big[rows[80:]], y[rows[80:]]))
    for _ in range(200):
        x = rng.normal(size=(100, 2))
        y = x[:, 0] + rng.normal(size=100)
        goal = compare(x, y, [], n_neighbors=3, classifiers=False).goals["regression"]
        (result,) = [each for each in goal.results if each.name == UNSCALED]
        low, high = goal.interval(result)
        held += low <= np.mean(truths) <= high
    # 90 % of 200, within four standard errors.
    assert 163 <= held <= 197
