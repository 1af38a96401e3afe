from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_rel
from sklearn.neighbors import KNeighborsClassifier

from nearfar import Metric, Pairs, Triplets, evaluate
from nearfar.evaluate.intervals import mean_interval
from nearfar.learners.selection.expectation import (
    Expected,
    expect_error,
    expect_judgements,
    expect_ranking,
)

IDENTITY = Metric.identity(2)


def stripes(rng, n):
    """Rows of a class for each of ten stripes."""
    X = rng.uniform(size=(n, 2))
    return X, (10 * X[:, 0]).astype(int)


@pytest.mark.parametrize("n", [1, 2, 40])
def test_with_all_rows_there_it_is_the_error_of_three_neighbours(rng, n):
    X, y = stripes(rng, n)
    test, y_test = stripes(rng, 200)
    voters = KNeighborsClassifier(min(3, n)).fit(X, y)
    expected = expect_error((IDENTITY, IDENTITY), X, y, test, y_test, n_rows=n)
    assert expected.value == pytest.approx(np.mean(voters.predict(test) != y_test))
    assert (expected.low, expected.high) == mean_interval(
        expected.value, expected.value * (1 - expected.value) / 200, 200
    )


def test_errors_are_extrapolated_to_all_rows(rng):
    test, y_test = stripes(rng, 4000)
    truth, naive, found = [], [], []
    for _ in range(10):
        X, y = stripes(rng, 400)
        voters = KNeighborsClassifier(3).fit(X, y)
        truth.append(np.mean(voters.predict(test) != y_test))
        known = X[:300], y[:300]
        naive.append(expect_error((IDENTITY, IDENTITY), *known, test, y_test, 300).value)
        found.append(expect_error((IDENTITY, IDENTITY), *known, test, y_test, 400).value)
    # Ten independent draws: t of 9 degrees of freedom exceeds 4.8 once in a thousand.
    assert np.abs(ttest_rel(found, truth).statistic) < 4.8
    assert ttest_rel(naive, truth).statistic > 4.8


def test_no_error_stays_none(rng):
    X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 20, axis=0) + rng.uniform(size=(40, 2))
    y = np.repeat([0, 1], 20)
    assert expect_error((IDENTITY, IDENTITY), X, y, X, y, n_rows=60).value == 0


def test_in_words():
    expected = Expected("error", 0.104, 0.059, 0.177, 0.397, 96)
    assert str(expected) == "error 10.4 % (90 % interval 5.9 % to 17.7 %); 39.7 % without learning"
    ranking = Expected("MAP@R", 0.5, 0.4, 0.6, 0.3, 96)
    assert str(ranking) == "MAP@R 0.500 (90 % interval 0.400 to 0.600); 0.300 without learning"
    judged = replace(expected, measure="triplet error")
    assert str(judged).endswith("39.7 % without learning, on new judgements of these objects")
    with pytest.warns(FutureWarning, match="before is now Expected.baseline"):
        assert expected.before == 0.397


def test_weights_of_judgements_count(rng):
    X = rng.normal(size=(60, 2))
    index = np.array([rng.choice(60, 3, replace=False) for _ in range(200)])
    weight, similar = rng.integers(1, 4, size=200), rng.random(200) < 0.4
    metrics = Metric([[1.0, 0.0]]), IDENTITY
    triplets = Triplets(index, weight)
    found = expect_judgements(metrics, X, triplets)
    assert found.value == pytest.approx(1 - evaluate.triplet_accuracy(IDENTITY, X, triplets))
    assert found.baseline == pytest.approx(1 - evaluate.triplet_accuracy(metrics[0], X, triplets))
    pairs = Pairs(index[:, :2], similar, weight)
    found = expect_judgements(metrics, X, pairs)
    assert found.value == pytest.approx(1 - evaluate.verification(IDENTITY, X, pairs).auc)
    assert found.low < found.value < found.high


def test_no_wrong_judgement_is_not_certain():
    X = np.arange(40.0)[:, None] * [1.0, 0.0]
    triplets = Triplets([[i, i + 1, i + 20] for i in range(15)])
    found = expect_judgements((IDENTITY, IDENTITY), X, triplets)
    assert (found.value, found.low) == (0, 0)
    z = student.ppf(0.95, 14)
    assert found.high == pytest.approx(z**2 / (15 + z**2))


def test_rankings_are_those_of_map_at_r(rng):
    X, y = stripes(rng, 200)
    found = expect_ranking((IDENTITY, IDENTITY), X, y)
    assert found.value == found.baseline == pytest.approx(evaluate.map_at_r(IDENTITY, X, y))
    assert found.low < found.value < found.high
