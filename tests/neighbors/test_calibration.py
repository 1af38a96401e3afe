"""Probabilities and intervals hold on rows that took no part."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine

from nearfar import (
    LDA,
    MLKR,
    RCA,
    AutoMetric,
    BoostMetric,
    MetricNeighborsClassifier,
    MetricNeighborsRegressor,
    MixtureNCA,
)
from nearfar.metrics.metric import Metric
from nearfar.neighbors import calibration
from nearfar.neighbors.calibration import held_out_votes


def test_claims_hold_where_half_of_the_columns_are_noise():
    claimed, right = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        y = rng.integers(3, size=1300)
        X = np.hstack([np.eye(3)[y] + rng.normal(size=(1300, 3)), rng.normal(size=(1300, 5))])
        classifier = MetricNeighborsClassifier(LDA()).fit(X[:300], y[:300])
        claimed.append(classifier.predict_proba(X[300:]).max(axis=1))
        right.append(classifier.predict(X[300:]) == y[300:])
    claimed, right = np.concatenate(claimed), np.concatenate(right)
    clear = claimed > np.quantile(claimed, 0.8)
    assert abs(claimed.mean() - right.mean()) < 0.05
    assert abs(claimed[clear].mean() - right[clear].mean()) < 0.06


def test_persons_are_left_out_as_a_whole(rng):
    """Rows of one person are alike; labels are at random."""
    person = np.repeat(np.arange(40), 6)
    X = rng.standard_normal((40, 3))[person] + 0.01 * rng.standard_normal((240, 3))
    y = rng.permutation(np.arange(40) % 2)[person]
    named = MetricNeighborsClassifier(RCA()).fit(X, y, groups=person)
    assert named.predict_proba(X).max(axis=1).mean() < 0.75
    assert MetricNeighborsClassifier(RCA()).fit(X, y).predict_proba(X).max(axis=1).mean() > 0.9


@pytest.mark.filterwarnings("ignore:max_iter=2")
@pytest.mark.parametrize(
    "classifier",
    [
        MetricNeighborsClassifier(RCA(), n_neighbors=1),
        MetricNeighborsClassifier(LDA(), n_neighbors=4),
        MetricNeighborsClassifier(LDA(), votes="whole"),
        MetricNeighborsClassifier(MixtureNCA(n_metrics=2, max_iter=2, random_state=0), gate="soft"),
    ],
)
def test_the_most_probable_class_is_predicted(classifier):
    X, y = load_wine(return_X_y=True)
    noisy = X + 2 * X.std(axis=0) * np.random.default_rng(0).standard_normal(X.shape)
    classifier.fit(noisy, y)
    found = classifier.predict_proba(noisy)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(found.argmax(axis=1), classifier.predict(noisy))
    if classifier.gate == "hard":
        assert classifier.reliability_.counted.sum() == len(X)


def test_settings_do_not_judge_themselves(rng):
    """Labels at random: what a fifth is judged by was chosen on the others."""
    X, y = rng.standard_normal((300, 4)), rng.permutation(300) % 3
    classifier = MetricNeighborsClassifier(LDA()).fit(X, y)
    right = classifier.reliability_.right.sum() / 300
    assert abs(right - 1 / 3) < 0.1
    assert classifier.reliability_.error < 0.1


def test_one_half_of_a_large_table_is_held_out_once(rng):
    X, y = rng.standard_normal((6000, 2)), rng.integers(2, size=6000)
    fitted = []

    def fit(learned):
        fitted.append(learned)
        return Metric.identity(2), lambda rows: X[rows]

    rows = held_out_votes(fit, X, y)
    assert [len(learned) for learned in fitted] == [2000]
    assert rows.actual.shape == (1000,)
    assert rows.distances.shape == rows.found.shape == (1000, 300)
    assert (rows.distances[:, 0] > 0).all()


def test_learners_are_fitted_again_without_choosing(monkeypatch):
    X, y = load_wine(return_X_y=True)
    found = []
    plain = calibration.as_chosen

    def noted(estimator, fitted):
        found.append((plain(estimator, fitted), fitted))
        return found[-1][0]

    monkeypatch.setattr("nearfar.neighbors.classifier.as_chosen", noted)
    MetricNeighborsClassifier(BoostMetric()).fit(X, y)
    assert len(found) == 2
    for again, fitted in found:
        assert again.scale == fitted.scale_
        assert again.max_iter == fitted.n_iter_
        assert again.validation_fraction is None


def test_nothing_can_be_left_out():
    classifier = MetricNeighborsClassifier(BoostMetric(max_iter=2), n_neighbors=1)
    classifier.fit([[0.0], [0.1], [1.0]], [0, 0, 1])
    assert classifier.reliability_ is None
    assert classifier.predict_proba([[0.1]]).tolist() == [[1.0, 0.0]]


def test_rows_that_a_learner_puts_aside_are_enough(monkeypatch):
    X, y = load_wine(return_X_y=True)
    monkeypatch.setattr("nearfar.neighbors.classifier.held_out_votes", None)
    classifier = MetricNeighborsClassifier(AutoMetric(candidates=["RCA", "LDA"])).fit(X, y)
    learner = classifier.learner_
    assert classifier.votes_ == learner.votes_
    assert classifier.reliability_.counted.sum() == len(learner.held_out_votes_.actual)
    right = classifier.reliability_.right.sum() / classifier.reliability_.counted.sum()
    assert right == pytest.approx(1 - learner.expected_.value, abs=0.005)
    whole = MetricNeighborsClassifier(AutoMetric(candidates=["RCA", "LDA"]), votes="whole")
    assert whole.fit(X, y).n_neighbors_ == learner.n_neighbors_


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_hold_and_are_wide_where_numbers_vary(rng, level):
    held = []
    for _ in range(4):
        x = rng.uniform(size=(900, 2))
        y = np.sin(6 * x[:, 0]) + (0.1 + 2 * (x[:, 0] > 0.5)) * rng.standard_normal(900)
        regressor = MetricNeighborsRegressor(MLKR()).fit(x[:400], y[:400])
        low, high = regressor.predict_interval(x[400:], level).T
        held.append(((low <= y[400:]) & (y[400:] <= high)).mean())
        varies = x[400:, 0] > 0.5
        assert (high - low)[varies].mean() > 1.2 * (high - low)[~varies].mean()
    assert abs(np.mean(held) - level) < 0.05


def test_intervals_of_too_few_rows_are_infinite(rng):
    regressor = MetricNeighborsRegressor(MLKR()).fit(
        rng.uniform(size=(30, 2)), rng.uniform(size=30)
    )
    assert np.isinf(regressor.predict_interval([[0.5, 0.5]], 0.99)).all()
    with pytest.raises(ValueError, match="level"):
        regressor.predict_interval([[0.5, 0.5]], 1.0)
