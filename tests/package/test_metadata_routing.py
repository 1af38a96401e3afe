"""scikit-learn's metadata routing takes groups and weights through pipelines and searches."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.metadata_routing import get_routing_for_object

from learners.test_learners import ALL_LEARNERS
from nearfar import (
    MLKR,
    NCA,
    RCA,
    AutoMetric,
    BoostMetric,
    MetricNeighborsClassifier,
    MetricNeighborsRegressor,
)

X, Y = (part[::2] for part in load_iris(return_X_y=True))
RANDOM = np.random.RandomState(0)
GROUPS = RANDOM.randint(0, 25, len(X))
WEIGHT = RANDOM.uniform(0.2, 3.0, len(X))
META = {"groups": GROUPS, "sample_weight": WEIGHT}
TAKES_BOTH = [
    AutoMetric(candidates=["LDA", "NCA"], budget=1000.0),
    BoostMetric(max_iter=20),
    NCA(max_iter=20),
    MetricNeighborsClassifier(NCA(max_iter=20)),
]


@pytest.fixture(autouse=True)
def _routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


weights_score = pytest.mark.skipif(
    sklearn.__version__.startswith("1.6."),
    reason="scikit-learn 1.6 does not pass weights to the score of a pipeline.",
)


def requesting(estimator):
    """Return a copy that asks for groups and weights."""
    asking = clone(estimator).set_fit_request(groups=True, sample_weight=True)
    return asking.set_score_request(sample_weight=True)


def scaled(estimator):
    """Return a pipeline whose first step could use weights, too, and does not."""
    return make_pipeline(StandardScaler().set_fit_request(sample_weight=False), estimator)


def given_to(estimator, monkeypatch):
    """Return a list of what later fits of these estimators get."""
    cls, got = type(estimator), []
    inner = cls.fit

    def fit(self, X, y=None, groups=None, sample_weight=None):
        got.append((groups, sample_weight))
        return inner(self, X, y, groups=groups, sample_weight=sample_weight)

    monkeypatch.setattr(cls, "fit", fit)
    return got


def embedding(fitted):
    """Return something that the metric of an estimator decides."""
    if hasattr(fitted, "transform"):
        return fitted.transform(X)
    return fitted.predict_proba(X)


each = pytest.mark.parametrize("estimator", TAKES_BOTH, ids=lambda e: type(e).__name__)


@pytest.mark.parametrize(
    "cls",
    [*ALL_LEARNERS, MetricNeighborsClassifier, MetricNeighborsRegressor],
    ids=lambda cls: cls.__name__,
)
def test_requests_can_be_set(cls):
    estimator = cls().set_fit_request(groups=True, sample_weight="importance")
    requests = get_routing_for_object(clone(estimator)).fit.requests
    assert requests == {"groups": True, "sample_weight": "importance"}
    assert get_routing_for_object(cls()).score.requests == {"sample_weight": None}


@each
def test_pipelines(estimator):
    direct = clone(estimator).fit(StandardScaler().fit_transform(X), Y, **META)
    pipeline = scaled(requesting(estimator)).fit(X, Y, **META)
    last = pipeline.steps[-1][1]
    np.testing.assert_array_equal(embedding(last), embedding(direct))


@each
@pytest.mark.parametrize("left_out", ["groups", "sample_weight"])
def test_what_is_asked_for_matters(estimator, left_out):
    both = scaled(requesting(estimator)).fit(X, Y, **META)
    given = {name: values for name, values in META.items() if name != left_out}
    one = scaled(requesting(estimator)).fit(X, Y, **given)
    embeddings = [embedding(pipeline.steps[-1][1]) for pipeline in (both, one)]
    assert not np.array_equal(*embeddings)


def test_what_was_not_asked_for_is_an_error():
    pipeline = scaled(AutoMetric())
    with pytest.raises(UnsetMetadataPassedError, match=r"groups.*AutoMetric\.set_fit_request"):
        pipeline.fit(X, Y, groups=GROUPS)


@each
@weights_score
def test_cross_validation(estimator, monkeypatch):
    got = given_to(estimator, monkeypatch)
    pipeline = scaled(requesting(estimator))
    folds = list(GroupKFold(3).split(X, Y, GROUPS))
    results = cross_validate(
        pipeline, X, Y, cv=GroupKFold(3), params=META, error_score="raise", return_estimator=True
    )
    assert np.isfinite(results["test_score"]).all()
    for (groups, weight), (train, _) in zip(got, folds, strict=True):
        np.testing.assert_array_equal(groups, GROUPS[train])
        np.testing.assert_array_equal(weight, WEIGHT[train])
    for (_, test), fitted, score in zip(
        folds, results["estimator"], results["test_score"], strict=True
    ):
        assert score == fitted.score(X[test], Y[test], sample_weight=WEIGHT[test])


def test_learners_inside_pipelines_of_a_classifier():
    learner = scaled(requesting(RCA()))
    inner = MetricNeighborsClassifier(learner).fit(X, Y, **META)
    alone = RCA().fit(StandardScaler().fit_transform(X), Y, sample_weight=WEIGHT)
    np.testing.assert_array_equal(inner.metric_.matrix, alone.metric_.matrix)


def test_numbers():
    y = X[:, 0]
    regressor = MetricNeighborsRegressor(MLKR())
    direct = clone(regressor).fit(X, y, **META)
    asking = clone(regressor).set_fit_request(groups=True, sample_weight=True)
    routed = make_pipeline(asking).fit(X, y, **META)
    np.testing.assert_array_equal(routed.predict(X), direct.predict(X))


def test_without_routing_steps_are_named():
    with sklearn.config_context(enable_metadata_routing=False):
        learner = BoostMetric(max_iter=20)
        pipeline = make_pipeline(StandardScaler(), learner)
        pipeline.fit(X, Y, boostmetric__groups=GROUPS, boostmetric__sample_weight=WEIGHT)
        direct = clone(learner).fit(StandardScaler().fit_transform(X), Y, **META)
        np.testing.assert_array_equal(learner.metric_.matrix, direct.metric_.matrix)
        scores = cross_val_score(
            RCA(), X, Y, cv=GroupKFold(3), groups=GROUPS, params={"sample_weight": WEIGHT}
        )
        assert np.isfinite(scores).all()
