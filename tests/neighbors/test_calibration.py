"""Probabilities hold on rows that took no part."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.model_selection import train_test_split

from nearfar import LDA, RCA, AutoMetric, BoostMetric, MetricNeighborsClassifier, MixtureNCA
from nearfar.measures.neighbor_votes import Reliability, class_shares
from nearfar.neighbors.calibration import cross_fitted


def claims_and_truth(way):
    """Claims, which rows are right, and the clearest ones, where half of the columns are noise."""
    X, target = load_diabetes(return_X_y=True)
    y = np.digitize(target, np.quantile(target, [1 / 3, 2 / 3]))
    claimed, right, clear = [], [], []
    for seed in range(8):
        noise = np.random.default_rng(seed).standard_normal(X.shape)
        rows = np.hstack([X / X.std(axis=0), noise])
        rows, test, labels, actual = train_test_split(rows, y, random_state=seed, stratify=y)
        found = way(MetricNeighborsClassifier(LDA()).fit(rows, labels), test)
        claimed.append(found[0])
        right.append(found[1] == actual)
        clear.append(found[0] == found[0].max())
    return map(np.concatenate, (claimed, right, clear))


@pytest.mark.parametrize("name", ["predict_proba", "explain"])
def test_claims_hold_where_half_of_the_columns_are_noise(name):
    def way(classifier, test):
        if name == "explain":
            found = classifier.explain(test)
            return found.probability, found.values
        return classifier.predict_proba(test).max(axis=1), classifier.predict(test)

    claimed, right, clear = claims_and_truth(way)
    assert abs(claimed.mean() - right.mean()) < 0.05
    assert abs(claimed[clear].mean() - right[clear].mean()) < 0.06


def test_persons_are_left_out_as_a_whole(rng):
    """Rows of one person are alike; labels are at random."""
    person = np.repeat(np.arange(40), 6)
    X = rng.standard_normal((40, 3))[person] + 0.01 * rng.standard_normal((240, 3))
    y = rng.permutation(np.arange(40) % 2)[person]
    named = MetricNeighborsClassifier(RCA()).fit(X, y, groups=person)
    assert named.predict_proba(X).max() < 0.75
    assert MetricNeighborsClassifier(RCA()).fit(X, y).predict_proba(X).max() > 0.9


@pytest.mark.filterwarnings("ignore:max_iter=2")
@pytest.mark.parametrize(
    "classifier",
    [
        MetricNeighborsClassifier(RCA(), n_neighbors=1),
        MetricNeighborsClassifier(LDA(), n_neighbors=4),
        MetricNeighborsClassifier(MixtureNCA(n_metrics=2, max_iter=2, random_state=0), gate="soft"),
    ],
)
def test_calibration_keeps_the_predicted_class(classifier):
    X, y = load_wine(return_X_y=True)
    noisy = X + 2 * X.std(axis=0) * np.random.default_rng(0).standard_normal(X.shape)
    classifier.fit(noisy, y)
    found = classifier.predict_proba(noisy)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(found.argmax(axis=1), classifier.predict(noisy))
    assert classifier.reliability_.counted.sum() == len(X)
    shares = classifier.set_params(calibrate=False).fit(noisy, y)
    assert shares.reliability_ is None
    np.testing.assert_array_equal(shares.predict(noisy), found.argmax(axis=1))


@pytest.mark.parametrize("k", [1, 2, 3, 8])
@pytest.mark.parametrize("n_classes", [1, 2, 5])
def test_any_votes_give_probabilities(k, n_classes, rng):
    codes = rng.integers(n_classes, size=(300, k))
    shares = class_shares(codes, n_classes)
    reliability = Reliability.of(shares, rng.integers(n_classes, size=300), k)
    assert reliability.counted.sum() == 300
    assert (np.diff(reliability.rates) >= 0).all()
    totals = rng.dirichlet(np.full(n_classes, 0.5))
    found = reliability.probabilities(shares, totals)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (found >= 0).all()
    np.testing.assert_array_equal(found.argmax(axis=1), shares.argmax(axis=1))


def test_labels_at_random_are_worth_their_share(rng):
    shares = class_shares(rng.integers(4, size=(4000, 3)), 4)
    reliability = Reliability.of(shares, rng.integers(4, size=4000), 3)
    found = reliability.probabilities(shares, np.full(4, 0.25)).max(axis=1)
    assert abs(found.mean() - 0.25) < 0.03


def test_large_tables_leave_out_a_thousand_rows_only(rng):
    X, y = rng.standard_normal((6000, 2)), rng.integers(2, size=6000)
    asked = []

    def votes_of(learned, seen, others):
        assert not set(seen) & set(others)
        assert set(learned) < set(seen)
        assert len(learned) == 2000
        asked.append(others)
        return others[:, None]

    votes, actual = cross_fitted(votes_of, X, y)
    assert len(asked) == 1
    np.testing.assert_array_equal(actual, y[votes[:, 0]])


def test_nothing_can_be_left_out():
    classifier = MetricNeighborsClassifier(BoostMetric(max_iter=2), n_neighbors=1)
    classifier.fit([[0.0], [0.1], [1.0]], [0, 0, 1])
    assert classifier.reliability_ is None
    assert classifier.predict_proba([[0.1]]).tolist() == [[1.0, 0.0]]


def test_rows_that_a_learner_puts_aside_are_enough(monkeypatch):
    X, y = load_wine(return_X_y=True)
    monkeypatch.setattr("nearfar.neighbors.classifier.cross_fitted", None)
    classifier = MetricNeighborsClassifier(AutoMetric(candidates=["RCA", "LDA"])).fit(X, y)
    assert classifier.reliability_.counted.sum() == len(classifier.learner_.held_out_votes_[1])
    assert classifier.reliability_.right.sum() > 0.9 * classifier.reliability_.counted.sum()
