from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from nearfar import Metric
from nearfar.evaluate.intervals import mean_interval
from nearfar.learners.expectation import expect_error

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
    assert np.mean(found) == pytest.approx(np.mean(truth), rel=0.05)
    assert np.mean(naive) > 1.1 * np.mean(truth)


def test_no_error_stays_none(rng):
    X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 20, axis=0) + rng.uniform(size=(40, 2))
    y = np.repeat([0, 1], 20)
    assert expect_error((IDENTITY, IDENTITY), X, y, X, y, n_rows=60).value == 0
