"""Files of skops: what is fitted loads without pickle, and the list of its classes is complete."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearfar import (
    LDA,
    LMNN,
    MLKR,
    RCA,
    AllTriplets,
    AutoMetric,
    BoostMetric,
    Columns,
    DRMetric,
    FarTargetTriplets,
    MaxMarginMetric,
    Metric,
    MetricBoost,
    MetricNeighborsClassifier,
    MetricNeighborsRegressor,
    MixtureNCA,
    NearestTriplets,
    Pairs,
    PairVerifier,
    RandomPairs,
    RandomTriplets,
    losses,
)
from nearfar.deploy.skops import TRUSTED_TYPES
from nearfar.learners.base import known_learners
from nearfar.verification import Bound

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, Y = load_wine(return_X_y=True)
X, Y = X[::2], Y[::2]
WIDE = np.random.default_rng(0).standard_normal((60, 300))
FRAME = pd.DataFrame(X[:, :3], columns=["a", "b", "c"]).assign(
    kind=np.where(X[:, 3] > 19, "high", "low"),
    day=pd.date_range("2020-02-28", periods=len(X)),
    size=[f"{90 + n} cm" for n in range(len(X))],
    text=["red hen and fox", "red fox", "blue hen"] * 29 + ["hen", "fox"],
)
SHORT = {"max_iter": 3, "budget": 2.0, "n_trees": 5, "n_steps": 3}


def short(learner):
    """A learner that is quick."""
    known = learner.get_params()
    return learner.set_params(**{name: value for name, value in SHORT.items() if name in known})


LEARNERS = {name: short(cls()) for name, cls in known_learners().items()}
VARIANTS = {
    "logistic loss": BoostMetric(loss=losses.Logistic(), max_iter=3),
    "other losses": BoostMetric(loss=losses.SquaredHinge(), max_iter=3, validation_fraction=None),
    "exponential": BoostMetric(loss=losses.Exponential(), max_iter=3, warm_start=True),
    "nearest": BoostMetric(constraints=NearestTriplets(2, 2), max_iter=3),
    "far": DRMetric(constraints=FarTargetTriplets(3), max_iter=3),
    "random": BoostMetric(constraints=RandomTriplets(50), max_iter=3),
    "random pairs": RCA(),
    "binary": MetricBoost(response="binary", constraints=AllTriplets(), max_iter=3),
    "kernel": MaxMarginMetric(kernel="rbf", constraints=RandomPairs(50), max_iter=3),
    "bends": AutoMetric(candidates=["LDA", "ForestMetric", "PiecewiseMetric"], budget=5.0),
    "scaled": LMNN(scale="standard", max_iter=3),
    "unit rows": RCA(scale="cosine"),
}
ESTIMATORS = {
    "classifier": (MetricNeighborsClassifier(LDA()), X, Y),
    "gate": (MetricNeighborsClassifier(MixtureNCA(max_iter=2), gate="soft"), X, Y),
    "regressor": (MetricNeighborsRegressor(MLKR(max_iter=3)), X, X[:, 0]),
    "pipeline": (
        make_pipeline(Columns(text=["text"]), StandardScaler(), MetricNeighborsClassifier(LDA())),
        FRAME,
        Y,
    ),
    "pipeline inside": (MetricNeighborsClassifier(make_pipeline(Columns(), LDA())), FRAME, Y),
    "known kinds": (
        make_pipeline(Columns(kinds=Columns().fit(FRAME).kinds_), MetricNeighborsClassifier(LDA())),
        FRAME,
        Y,
    ),
}


def loaded(model):
    """The model after skops, with no other classes than the listed ones trusted."""
    return skops.io.loads(skops.io.dumps(model), trusted=TRUSTED_TYPES)


@pytest.mark.parametrize("name", [*LEARNERS, *VARIANTS])
def test_learners(name):
    learner = {**LEARNERS, **VARIANTS}[name]
    fitted = learner.fit(X, X[:, 0] if name == "MLKR" else Y)
    again = loaded(fitted)
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
    assert again.get_params().keys() == fitted.get_params().keys()
    assert len(again.history_) == len(fitted.history_)


def test_more_features_than_rows():
    fitted = RCA().fit(WIDE, np.arange(60) % 3)
    np.testing.assert_array_equal(loaded(fitted).transform(WIDE), fitted.transform(WIDE))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_predicts(name):
    model, rows, target = ESTIMATORS[name]
    fitted = model.fit(rows, target)
    again = loaded(fitted)
    assert again.predict(rows[:20]).tolist() == fitted.predict(rows[:20]).tolist()
    if hasattr(fitted, "predict_proba"):
        np.testing.assert_array_equal(again.predict_proba(rows), fitted.predict_proba(rows))


@pytest.mark.parametrize("target", [None, Bound("fmr", 0.5)])
def test_verifier(target):
    rng, kinds = np.random.default_rng(0), np.arange(1200) % 40
    rows = 3 * np.eye(40)[kinds] + 0.3 * rng.standard_normal((1200, 40))
    first, step = rng.integers(600, size=1500), 600 + 40 * rng.integers(-5, 5, size=1500)
    second = (first + step + np.arange(1500) % 2) % 1200
    pairs = Pairs(np.column_stack([first, second]), kinds[first] == kinds[second])
    fitted = PairVerifier(RCA(), target=target, random_state=0).fit(rows, pairs)
    again = loaded(fitted)
    assert again.threshold_ == fitted.threshold_
    assert again.predict(rows, pairs).tolist() == fitted.predict(rows, pairs).tolist()


def test_a_metric_of_tables():
    metric = LDA().fit(Columns().fit_transform(FRAME), Y).metric_
    metric = metric.with_columns(Columns().fit(FRAME))
    np.testing.assert_array_equal(loaded(metric).transform(FRAME), metric.transform(FRAME))
    assert isinstance(loaded(metric), Metric)


def test_all_are_classes_of_nearfar():
    """Of functions, skops calls some with what is in the file."""
    for name in TRUSTED_TYPES:
        module, _, kind = name.rpartition(".")
        found = getattr(import_module(module), kind)
        assert isinstance(found, type)
        assert found.__module__ == module
    assert {f"{cls.__module__}.{name}" for name, cls in known_learners().items()} < set(
        TRUSTED_TYPES
    )
