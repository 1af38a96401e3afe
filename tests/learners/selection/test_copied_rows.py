"""Copies of rows are never both learned from and held out."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from nearfar import NCA, AutoMetric, DRMetric, RandomPairs
from nearfar.evidence.intervals import mean_interval
from nearfar.learners.selection.expectation import Fold, expect_error
from nearfar.learners.selection.scale import choose_scale
from nearfar.metrics.metric import Metric
from nearfar.supervision import Supervision

RNG = np.random.default_rng(0)
PLACE = RNG.permutation(np.tile(np.arange(100), 3))
FIRST = np.unique(PLACE, return_index=True)[1][PLACE]
X = RNG.standard_normal((100, 4))[PLACE]
Y = RNG.integers(0, 2, 100)[PLACE]
BY_ROW = np.arange(300)


def auto(**parameters):
    return AutoMetric(candidates=["RCA"], **parameters)


class TestAutoMetric:
    def test_what_it_expects_is_honest(self):
        """Classes are drawn at random: the error on new rows is one half."""
        with pytest.warns(UserWarning, match="200 of 300 rows are equal to earlier rows; equal"):
            found = auto().fit(X, Y).expected_
        assert found.low < 1 / 2 < found.high
        assert auto().fit(X, Y, groups=BY_ROW).expected_.high < 1 / 2

    def test_it_is_as_with_groups(self):
        with pytest.warns(UserWarning, match="unless groups are given"):
            found = auto().fit(X, Y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            given = auto().fit(X, Y, groups=FIRST)
        assert found.expected_ == given.expected_
        np.testing.assert_array_equal(found.components_, given.components_)

    def test_pairs(self):
        pairs = RandomPairs(2000)(X, Y, np.random.RandomState(0))
        with pytest.warns(UserWarning, match="200 of 300 rows are equal"):
            auto().fit(X, pairs)


@pytest.mark.parametrize("learner", [DRMetric(max_iter=20), NCA(max_iter=20)])
def test_validation_is_as_with_groups(learner):
    found, given = learner.fit(X, Y).metric_.L, learner.fit(X, Y, groups=FIRST).metric_.L
    np.testing.assert_array_equal(found, given)


def fold(known, test, groups=None):
    n, (points, y) = len(known[0]), (np.concatenate(pair) for pair in zip(known, test, strict=True))
    rows = np.arange(len(points))
    metrics = Metric.identity(3), Metric.identity(3)
    return Fold(metrics, points, y, rows[:n], rows[n:], groups)


WHOLE = (3, None), (3, None)


class TestExpectedError:
    def test_the_interval_counts_groups(self):
        """Copies of test rows add nothing: the interval is that of the different rows."""
        rng = np.random.default_rng(1)
        train, test = rng.standard_normal((200, 3)), rng.standard_normal((50, 3))
        y, y_test = rng.integers(0, 2, 200), rng.integers(0, 2, 50)
        alone = expect_error([fold((train, y), (test, y_test))], 200, votes=WHOLE)
        tested = np.tile(test, (4, 1)), np.tile(y_test, 4)
        groups = np.append(np.arange(200), 200 + np.tile(np.arange(50), 4))
        copied = expect_error([fold((train, y), tested, groups)], 200, votes=WHOLE)
        assert copied.value == pytest.approx(alone.value, abs=0.002)
        # Fifty groups of four equal rows have the variance of fifty rows, over 49 in place of 50.
        variance = 1.3 * alone.value * (1 - alone.value) / 49
        expected = mean_interval(alone.value, variance, 50, grouped=True)
        assert (copied.low, copied.high) == pytest.approx(expected, abs=0.003)

    def test_groups_of_one_row_are_rows(self):
        rng = np.random.default_rng(2)
        train, test = rng.standard_normal((60, 3)), rng.standard_normal((30, 3))
        y, y_test = rng.integers(0, 2, 60), rng.integers(0, 2, 30)
        plain = expect_error([fold((train, y), (test, y_test))], 90, votes=WHOLE)
        grouped = expect_error([fold((train, y), (test, y_test), np.arange(90))], 90, votes=WHOLE)
        assert grouped.value == plain.value
        assert grouped.high > plain.high


def test_a_scale_is_judged_by_rows_of_other_groups():
    """One column tells classes, another one tells groups: copies only look good by the second."""
    rng = np.random.default_rng(3)
    group = np.arange(200) // 4
    y = group % 2
    told = 1e-3 * (y + 0.3 * rng.standard_normal(200))
    rows = np.column_stack([told, rng.uniform(0, 100, 50)[group]])
    scales = ("unit", "standard")
    assert choose_scale(rows, Supervision.of(y, 200), scales) == "unit"
    assert choose_scale(rows, Supervision.of(y, 200, groups=group), scales) == "standard"
