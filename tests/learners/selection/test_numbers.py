"""AutoMetric on numbers: what it takes as numbers, the blend, and what it expects."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.neighbors import KNeighborsRegressor

from nearfar import (
    MLKR,
    NCA,
    AutoMetric,
    ForestMetric,
    Metric,
    MetricNeighborsClassifier,
    compare,
)
from nearfar.learners.selection.expectation import Fold, expect_numbers
from nearfar.measures.neighbor_votes import NUMBERS, best_number
from nearfar.supervision import Supervision
from nearfar.supervision.supervision import are_numbers, warn_of_integers

X, Y = make_friedman1(240, n_features=8, noise=0.5, random_state=0)
FRESH, Y_FRESH = make_friedman1(2000, n_features=8, noise=0.5, random_state=1)
WHOLE = (5, None), (5, None)
LINEAR = ["MLKR", "InverseCovariance"]


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([0.5, 1.0, 2.0], True),
        ([0.0, 1.0, 2.0], False),
        (np.arange(31.0), True),
        (np.arange(30.0), False),
        (np.arange(31), False),
        (np.repeat(np.arange(40.0), 4), True),
        (np.repeat(np.arange(40.0), 5), False),
        (np.append(np.arange(40.0), np.zeros(400)), True),
        ([0.5, np.nan], False),
        (["0.5", "1"], False),
        (None, False),
    ],
)
def test_what_numbers_are(y, expected):
    assert are_numbers(y) is expected


def test_learners_of_both_kinds_ask_the_values():
    assert ForestMetric()._takes_numbers(Y)
    assert not ForestMetric()._takes_numbers(Y > 14)
    assert AutoMetric(goal="regression")._takes_numbers(np.arange(9) % 3)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        NCA().fit(X, Y)


PRICES = np.round(100 * np.exp(Y / 10)).astype(int) * 100


@pytest.mark.parametrize(
    "fit",
    [
        AutoMetric(candidates=["ForestMetric"], random_state=0).fit,
        MetricNeighborsClassifier(ForestMetric(n_trees=8)).fit,
        partial(compare, learners=["LDA"], cv=2),
    ],
    ids=["AutoMetric", "MetricNeighborsClassifier", "compare"],
)
def test_integers_that_look_like_numbers_have_one_warning(fit):
    n_classes = len(np.unique(PRICES))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(X, PRICES)
    texts = [str(each.message) for each in caught if "class" in str(each.message)]
    assert len(texts) == 1
    assert texts[0].startswith(f"y has {n_classes} classes in 240 rows, as integers are classes.")


def test_codes_of_classes_do_not_look_like_numbers():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_integers(np.random.default_rng(0).permutation(np.arange(100) // 3 * 3))
        warn_of_integers(PRICES[:30])
        warn_of_integers(PRICES // 1000)
        warn_of_integers(PRICES.astype(float))
        warn_of_integers(PRICES.astype(str))


def test_the_same_numbers_teach_nothing():
    with pytest.raises(ValueError, match="All numbers in y are the same"):
        AutoMetric(goal="regression").fit(X, np.ones(len(X)))


@pytest.fixture(scope="module")
def linear():
    return AutoMetric(candidates=LINEAR, random_state=0).fit(X, Y)


def test_it_is_better_than_no_learning(linear):
    def r2(metric):
        voters = KNeighborsRegressor(linear.n_neighbors_).fit(metric.transform(X), Y)
        return r2_score(Y_FRESH, voters.predict(metric.transform(FRESH)))

    assert r2(linear.metric_) > r2(Metric.identity(8)) + 0.1
    assert linear.weights_["MLKR"] > 0.5
    assert linear.n_neighbors_ in NUMBERS
    assert len(linear.held_out_votes_.actual) == linear.expected_.n


def test_what_is_expected(linear):
    found = linear.expected_
    assert (found.measure, found.mae.measure) == ("R²", "MAE")
    assert found.low < found.value < found.high < 1
    assert found.baseline_low < found.baseline < found.baseline_high < found.value
    assert found.mae.low < found.mae.value < found.mae.high < found.mae.baseline
    assert (found.n, found.rows) == (120, 240)
    assert str(found).startswith(f"R² {found.value:.3f} among 240 rows (90 % interval ")
    assert f"; MAE {found.mae.value:.4g} (90 % interval " in str(found)


def test_units_of_the_numbers_do_not_matter(linear):
    other = AutoMetric(candidates=LINEAR, random_state=0).fit(X, 1e6 * Y - 3e6)
    assert other.n_neighbors_ == linear.n_neighbors_
    assert other.weights_ == pytest.approx(linear.weights_, abs=0.02)
    assert other.expected_.value == pytest.approx(linear.expected_.value, abs=0.01)
    assert other.expected_.mae.value == pytest.approx(1e6 * linear.expected_.mae.value, rel=0.02)


def test_a_metric_that_bends_where_the_numbers_do():
    auto = AutoMetric(candidates=["MLKR", "PiecewiseMetric"]).fit(X, Y)
    assert auto.weights_["PiecewiseMetric"] > 0.5
    assert not auto.metric_.is_linear


@pytest.mark.parametrize("known", [120, 240])
def test_expectations_against_scikit_learn(known):
    """With all rows there, R2 and MAE are those of scikit-learn."""
    rows = np.arange(240)
    metric = Metric(np.diag(np.arange(8.0)))
    fold = Fold((Metric.identity(8), metric), np.vstack([X, FRESH]), np.append(Y, Y_FRESH),
                rows[:known], np.arange(240, 2240))  # fmt: skip
    found = expect_numbers([fold], known, WHOLE)
    for value, error, own in (
        (found.baseline, found.mae.baseline, Metric.identity(8)),
        (found.value, found.mae.value, metric),
    ):
        voters = KNeighborsRegressor(5).fit(own.transform(X[:known]), Y[:known])
        predicted = voters.predict(own.transform(FRESH))
        assert value == pytest.approx(r2_score(Y_FRESH, predicted), abs=0.03)
        assert error == pytest.approx(mean_absolute_error(Y_FRESH, predicted), rel=0.03)


def test_copies_in_groups_count_once():
    rows, metrics = np.arange(240), (Metric.identity(8), Metric(np.diag(np.arange(8.0))))
    plain = expect_numbers([Fold(metrics, X, Y, rows[:120], rows[120:])], 240, WHOLE)
    copies = np.append(rows, rows)
    fold = Fold(metrics, X[copies], Y[copies], rows[:120], np.append(rows[120:], 240 + rows[120:]),
                copies)  # fmt: skip
    grouped = expect_numbers([fold], 240, WHOLE)
    assert grouped.value == pytest.approx(plain.value, abs=0.01)
    length, same = (np.log((1 - each.low) / (1 - each.high)) for each in (plain, grouped))
    assert same == pytest.approx(length, rel=0.02)


def test_splits_hold_out_each_row_once():
    known = Supervision.of(Y, len(Y), numbers=True)
    splits = list(known.split(4, np.random.RandomState(0)))
    assert sorted(np.concatenate([split.unseen_rows for split in splits])) == list(range(240))
    np.testing.assert_array_equal(splits[0].known.given, Y[splits[0].rows])


def test_the_best_number_of_neighbours_has_the_smallest_squared_error():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(500, 25))
    assert best_number([(noise, np.zeros(500))], numbers=True) == 25
    rising = np.abs(noise) * 0.1 + np.arange(25)
    assert best_number([(rising, np.zeros(500))], numbers=True) == 1


def test_a_learner_of_numbers_is_a_candidate_with_parameters():
    auto = AutoMetric(candidates=[MLKR(n_components=2)], form="linear").fit(X, Y)
    assert auto.components_.shape[1] == 8
