from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_1samp, ttest_rel
from sklearn.neighbors import KNeighborsClassifier

from nearfar import Metric, Pairs, Triplets, measures
from nearfar.evidence.intervals import mean_interval
from nearfar.learners.selection.expectation import (
    Expected,
    Fold,
    expect_error,
    expect_judgements,
    expect_ranking,
)

IDENTITY = Metric.identity(2)
WHOLE = (3, None), (3, None)


def fold(known, test, groups=None, metrics=(IDENTITY, IDENTITY)):
    """Metrics of known rows, and others to test them on; both with classes."""
    n, (points, y) = len(known[0]), (np.concatenate(pair) for pair in zip(known, test, strict=True))
    rows = np.arange(len(points))
    return Fold(metrics, points, y, rows[:n], rows[n:], groups)


def stripes(rng, n):
    """Rows of a class for each of ten stripes."""
    X = rng.uniform(size=(n, 2))
    return X, (10 * X[:, 0]).astype(int)


@pytest.mark.parametrize("n", [1, 2, 40, 400])
def test_with_all_rows_there_it_is_about_the_error_of_three_neighbours(rng, n):
    X, y = stripes(rng, n)
    test, y_test = stripes(rng, 200)
    voters = KNeighborsClassifier(min(3, n)).fit(X, y)
    expected = expect_error([fold((X, y), (test, y_test))], n_rows=n, votes=WHOLE)
    assert expected.value == pytest.approx(np.mean(voters.predict(test) != y_test), abs=0.06)
    assert (expected.low, expected.high) == mean_interval(
        expected.value, 1.3 * expected.value * (1 - expected.value) / 200, 200
    )
    assert expected.rows == n


@pytest.mark.slow
def test_errors_with_more_rows_are_less_and_not_less_than_true(rng):
    test, y_test = stripes(rng, 4000)
    truth, naive, found = [], [], []
    for _ in range(10):
        X, y = stripes(rng, 400)
        voters = KNeighborsClassifier(3).fit(X, y)
        truth.append(np.mean(voters.predict(test) != y_test))
        part = fold((X[:300], y[:300]), (test, y_test))
        naive.append(expect_error([part], 300, votes=WHOLE).value)
        found.append(expect_error([part], 400, votes=WHOLE).value)
    # Where errors fall steeply, as here, the usual fall is too little: the statement is cautious.
    # Ten independent draws: t of 9 degrees of freedom exceeds 4.8 once in a thousand.
    assert ttest_rel(found, truth).statistic > -4.8
    assert ttest_rel(naive, found).statistic > 4.8


def test_no_error_stays_none(rng):
    X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 20, axis=0) + rng.uniform(size=(40, 2))
    y = np.repeat([0, 1], 20)
    assert expect_error([fold((X, y), (X, y))], n_rows=60, votes=WHOLE).value == 0


def test_in_words():
    expected = Expected("error", 0.104, 0.059, 0.177, 0.397, 96, 0.35, 0.44, 300, 3)
    assert str(expected) == (
        "error 10.4 % among 300 rows (90 % interval 5.9 % to 17.7 %); 39.7 % (35.0 % to 44.0 %) "
        "without learning"
    )
    ranking = Expected("MAP@R", 0.5, 0.4, 0.6, 0.3, 96, 0.2, 0.4, 300, 3)
    assert str(ranking) == (
        "MAP@R 0.500 among 300 rows of 3 classes (90 % interval 0.400 to 0.600); 0.300 (0.200 to "
        "0.400) without learning"
    )
    judged = replace(expected, measure="triplet error", rows=0)
    assert str(judged).startswith("triplet error 10.4 % (90 % interval")
    assert str(judged).endswith("without learning, on new judgements of these objects")


def test_weights_of_judgements_count(rng):
    X = rng.normal(size=(60, 2))
    index = np.array([rng.choice(60, 3, replace=False) for _ in range(200)])
    weight, similar = rng.integers(1, 4, size=200), rng.random(200) < 0.4
    metrics = Metric([[1.0, 0.0]]), IDENTITY
    triplets = Triplets(index, weight)
    found = expect_judgements(metrics, X, triplets)
    assert found.value == pytest.approx(1 - measures.triplet_accuracy(IDENTITY, X, triplets))
    assert found.baseline == pytest.approx(1 - measures.triplet_accuracy(metrics[0], X, triplets))
    pairs = Pairs(index[:, :2], similar, weight)
    found = expect_judgements(metrics, X, pairs)
    assert found.value == pytest.approx(1 - measures.verification(IDENTITY, X, pairs).auc)
    assert found.low < found.value < found.high


def test_no_wrong_judgement_is_not_certain():
    X = np.arange(40.0)[:, None] * [1.0, 0.0]
    triplets = Triplets([[i, i + 1, i + 20] for i in range(15)])
    found = expect_judgements((IDENTITY, IDENTITY), X, triplets)
    assert (found.value, found.low) == (0, 0)
    z = student.ppf(0.95, 14)
    assert found.high == pytest.approx(z**2 / (15 + z**2))


def test_rows_are_ranked_among_those_learned_from(rng):
    known, test = stripes(rng, 200), stripes(rng, 60)
    found = expect_ranking([fold(known, test)], whole_classes=False)
    truth = measures.map_at_r(IDENTITY, *known, X_query=test[0], y_query=test[1])
    assert found.value == found.baseline == pytest.approx(truth)
    assert found.low < found.value < found.high
    assert (found.baseline_low, found.baseline_high) == (found.low, found.high)
    assert (found.rows, found.classes, found.n) == (200, 10, 60)


class TestNewClasses:
    @staticmethod
    def classes(rng, n, first=0):
        y = first + np.repeat(np.arange(n), 12)
        return rng.standard_normal((n, 2))[y - first] + 0.2 * rng.standard_normal((len(y), 2)), y

    def test_they_are_ranked_among_all_rows(self, rng):
        """Euclidean distance learns nothing: known and new classes are alike, whatever the size."""
        differences, among_each_other = [], []
        for _ in range(8):
            new, known = self.classes(rng, 5, first=15), self.classes(rng, 15)
            found = expect_ranking([fold(known, new)], whole_classes=True)
            truth = np.mean(
                [measures.map_at_r(IDENTITY, *self.classes(rng, 20)) for _ in range(20)]
            )
            differences.append(found.value - truth)
            among_each_other.append(measures.map_at_r(IDENTITY, *new) - truth)
            assert (found.rows, found.classes, found.n) == (240, 20, 60)
        # Eight independent draws: t of 7 degrees of freedom exceeds 5.4 once in a thousand.
        assert np.abs(ttest_1samp(differences, 0).statistic) < 5.4
        assert ttest_1samp(among_each_other, 0).statistic > 5.4

    def test_classes_that_were_easy_to_learn_do_not_flatter(self, rng):
        """Known classes are far away: a row of new ones meets only rows of other new ones."""
        new, known = self.classes(rng, 6, first=15), self.classes(rng, 15)
        far = known[0] + 1.0, known[1]
        found = expect_ranking([fold(far, new)], whole_classes=True).value
        among = [np.concatenate(pair) for pair in zip(new, far, strict=True)]
        assert found < measures.average_precisions(IDENTITY, *among)[:72].mean()
