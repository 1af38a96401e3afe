"""`score`, and scikit-learn's cross-validation with it: sorted rows, numbers, single classes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_diabetes, load_iris
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from learners.test_learners import ALL_LEARNERS, quick
from nearfar import (
    LDA,
    MLKR,
    NCA,
    PLDA,
    RCA,
    AutoMetric,
    BoostMetric,
    ForestMetric,
    InverseCovariance,
    MetricNeighborsClassifier,
    MetricNeighborsRegressor,
    NearestTriplets,
    PairVerifier,
    PiecewiseMetric,
    RandomPairs,
    Triplets,
)
from nearfar.learners.scaling import Scaler

X, Y = (part[::2] for part in load_iris(return_X_y=True))
DATA, NUMBERS = load_diabetes(return_X_y=True)
DATA, NUMBERS = (part[np.argsort(NUMBERS)][::3] for part in (DATA, NUMBERS))
FROM_LABELS = [cls for cls in ALL_LEARNERS if "labels" in cls.supervision]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
class TestSortedRows:
    """An integer `cv` cuts sorted rows into folds of one class each."""

    @pytest.mark.parametrize("cls", FROM_LABELS, ids=lambda cls: cls.__name__)
    def test_labels(self, cls):
        assert (np.diff(Y) >= 0).all()
        scores = cross_val_score(quick(cls), X, Y, cv=5, error_score="raise")
        assert np.isfinite(scores).all()
        assert scores[0] > 0.9

    @pytest.mark.parametrize(
        "estimator",
        [
            make_pipeline(StandardScaler(), NCA(max_iter=10)),
            MetricNeighborsClassifier(RCA()),
            PairVerifier(RCA(), random_state=0),
        ],
        ids=lambda estimator: type(estimator).__name__,
    )
    def test_what_has_a_learner_inside(self, estimator):
        scores = cross_val_score(estimator, X, Y.astype(str), cv=5, error_score="raise")
        assert (scores > 0.6).all()

    @pytest.mark.parametrize(
        "estimator",
        [
            MLKR(),
            AutoMetric(candidates=["MLKR"], goal="regression"),
            ForestMetric(),
            PiecewiseMetric(),
            InverseCovariance(),
            MetricNeighborsRegressor(MLKR(), n_neighbors=5),
        ],
        ids=lambda estimator: type(estimator).__name__,
    )
    def test_numbers(self, estimator):
        scores = cross_val_score(estimator, DATA, NUMBERS, cv=3, error_score="raise")
        assert np.isfinite(scores).all()

    def test_searches(self):
        search = GridSearchCV(RCA(), {"shrinkage": [0.0, 0.5]}, cv=3, error_score="raise")
        assert 0.5 < search.fit(X, Y).best_score_ <= 1
        found = cross_validate(BoostMetric(max_iter=5), X, Y, cv=KFold(3), error_score="raise")
        assert np.isfinite(found["test_score"]).all()


class TestOneClass:
    def test_its_rows_are_compared_with_rows_of_other_classes(self):
        learner = RCA().fit(X, Y)
        rows = X[Y == 1]
        others = X[Y != 1]
        points = np.vstack([rows, others])
        classes = np.concatenate([np.ones(len(rows), int), Y[Y != 1]])
        triplets = NearestTriplets()(Scaler.fit(points, "standard").transform(points), classes)
        of_rows = triplets.index[triplets.index[:, 0] < len(rows)]
        expected = learner.metric_.prefers(points, of_rows).mean()
        assert expected < 1
        assert learner.score(rows, np.ones(len(rows), int)) == pytest.approx(expected)

    def test_weights_are_those_of_its_rows(self):
        learner, rows = RCA().fit(X, Y), X[Y == 1]
        labels, weight = np.ones(len(rows), int), np.arange(len(rows)) + 1.0
        plain, ones, weighted = (
            learner.score(rows, labels, sample_weight=own)
            for own in (None, np.ones(len(rows)), weight)
        )
        assert plain == ones
        assert weighted != plain

    def test_few_rows_are_kept(self):
        points = np.random.default_rng(0).standard_normal((900, 3))
        learner = PLDA().fit(points, np.arange(900) % 300)
        kept, labels = learner._labelled_sample
        assert len(kept) == len(labels) == 256
        wide = LDA().fit(np.random.default_rng(0).standard_normal((50, 40_000)), np.arange(50) % 5)
        assert wide._labelled_sample[0].shape == (26, 40_000)
        again = pickle.loads(pickle.dumps(learner))
        assert again.score(points[:2], [-5, -5]) == learner.score(points[:2], [-5, -5])

    def test_unknown_other_classes(self):
        triplets = NearestTriplets()(X, Y)
        learner = BoostMetric(max_iter=5).fit(X, Y).fit(X, triplets)
        with pytest.raises(ValueError, match=r"not fitted to labels of other classes.*Stratified"):
            learner.score(X[:5], Y[:5])
        plain = InverseCovariance().fit(X)
        with pytest.raises(ValueError, match="not fitted to labels"):
            plain.score(X[:5], Y[:5])
        assert InverseCovariance().fit(X, Y).score(X[:5], Y[:5]) > 0.9

    def test_a_single_row(self):
        with pytest.raises(ValueError, match="A single row cannot be scored"):
            RCA().fit(X, Y).score(X[:2], Y[:2], sample_weight=[1, 0])


@pytest.mark.parametrize("cls", [AutoMetric, ForestMetric, PiecewiseMetric])
def test_numbers_are_predicted_by_five_rows(cls):
    learner = quick(cls, **({"candidates": ["MLKR"]} if cls is AutoMetric else {}))
    learner.fit(DATA, NUMBERS + 0.5)
    d = cdist(learner.transform(DATA), learner.transform(DATA))
    np.fill_diagonal(d, np.inf)
    predicted = (NUMBERS + 0.5)[np.argsort(d, axis=1)[:, :5]].mean(axis=1)
    expected = r2_score(NUMBERS + 0.5, predicted)
    assert learner.score(DATA, NUMBERS + 0.5) == pytest.approx(expected, abs=0.02)


def test_a_few_whole_numbers_stay_numbers():
    learner = AutoMetric(candidates=["MLKR"]).fit(DATA, NUMBERS)
    few = np.arange(0, len(DATA), 10)
    assert len(np.unique(NUMBERS[few])) < 30
    halves = learner.score(DATA[few], NUMBERS[few] + 0.5)
    assert learner.score(DATA[few], NUMBERS[few]) == pytest.approx(halves)


def test_constraints_are_scored_after_a_fit_to_labels():
    learner = RCA().fit(X, Y)
    assert learner.score(X, RandomPairs(100)(X, Y, 0)) > 0.9
    assert learner.score(X, Triplets([[0, 1, 70]])) == 1.0
