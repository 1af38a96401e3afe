"""Boosting learners learn from parts of the data.

Closed forms are in ``classic/test_summed.py``.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_digits

from nearfar import (
    LMNN,
    BoostMetric,
    DRMetric,
    Metric,
    MetricBoost,
    NearestTriplets,
    Triplets,
)
from nearfar.learners.base import MetricLearner
from nearfar.learners.classic.closed_form_base import SummedClosedForm
from nearfar.measures import knn_error
from problems import labelled, public_names

X, Y = load_digits(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(X))
X, Y = X[ORDER], Y[ORDER]
TRAIN, TEST = np.arange(0, 1000), np.arange(1000, 1797)
BOOSTING = {
    BoostMetric: {"max_iter": 30},
    DRMetric: {"max_iter": 12},
    MetricBoost: {"max_iter": 20},
}


def made(cls):
    return cls(random_state=0, n_jobs=1, **BOOSTING[cls])


def each(learners):
    return pytest.mark.parametrize("cls", list(learners), ids=lambda cls: cls.__name__)


def error(metric):
    return knn_error(metric, X[TRAIN], Y[TRAIN], X[TEST], Y[TEST])


def test_who_learns_in_parts():
    learners = [c for c in public_names() if isinstance(c, type)]
    learners = [c for c in learners if issubclass(c, MetricLearner)]
    without = {c for c in learners if not hasattr(c(), "partial_fit")}
    rest = set(learners) - without - set(BOOSTING)
    assert all(issubclass(c, SummedClosedForm) for c in rest)
    assert LMNN in without
    for learner in (BoostMetric(variant="paper"), MetricBoost(response="binary")):
        assert not hasattr(learner, "partial_fit")


@pytest.mark.slow
@each(BOOSTING)
def test_ten_parts_on_held_out_rows(cls):
    """Ten parts are not much worse than one fit, nor than Euclidean distance."""
    whole, parts = made(cls).fit(X[TRAIN], Y[TRAIN]), made(cls)
    for rows in np.array_split(TRAIN, 10):
        parts.partial_fit(X[rows], Y[rows])
    assert error(parts.metric_) <= error(whole.metric_) + 0.015
    assert error(parts.metric_) <= error(Metric.identity(64)) + 0.01


@each(BOOSTING)
def test_parts_change_the_metric_and_keep_its_past(cls):
    learner = made(cls).partial_fit(X[:300], Y[:300])
    first = learner.metric_
    again = pickle.loads(pickle.dumps(learner))
    for fitted in (learner, again):
        fitted.partial_fit(X[300:600], Y[300:600])
    assert learner.metric_.matrix.tobytes() == again.metric_.matrix.tobytes()
    assert not np.allclose(learner.metric_.matrix, first.matrix)
    with pytest.raises(ValueError, match="features"):
        learner.partial_fit(X[:300, :5], Y[:300])
    assert learner.metric_.matrix.tobytes() == again.metric_.matrix.tobytes()


@each(BOOSTING)
def test_few_triplets_do_not_undo_many(cls):
    learner = made(cls).fit(X[:600], Y[:600])
    before = learner.metric_
    wrong = NearestTriplets()(X[600:700], Y[600:700]).index[:3, [0, 2, 1]]
    learner.partial_fit(X[600:700], Triplets(wrong))
    assert learner.prior_share_ >= 600 / 603
    assert error(learner.metric_) <= error(before) + 0.005


@each(BOOSTING)
def test_parts_count_by_what_is_known(cls):
    learner = made(cls).partial_fit(X[:200], Y[:200])
    assert learner.partial_fit(X[200:600], Y[200:600]).prior_share_ >= 200 / 600
    triplets = NearestTriplets(1, 1)(X[600:700], Y[600:700])
    learner.partial_fit(X[600:700], triplets.over(100))
    assert learner.prior_share_ >= 600 / (600 + len(triplets))
    assert isinstance(learner.prior, str | None)


@each(BOOSTING)
def test_fit_forgets_the_parts(cls):
    x, y, _ = labelled(n=80)
    learner = made(cls).partial_fit(x[:40], y[:40]).partial_fit(x[40:], y[40:]).fit(x[40:], y[40:])
    expected = made(cls).fit(x[40:], y[40:])
    assert learner.metric_.matrix.tobytes() == expected.metric_.matrix.tobytes()
