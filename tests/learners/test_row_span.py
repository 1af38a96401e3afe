"""Fewer rows than features: a fit in the span of the rows is the fit among all features."""

from __future__ import annotations

import numpy as np
import pytest

import nearfar
from nearfar import Metric
from nearfar.learners import fitting
from nearfar.learners.row_span import RowSpan
from nearfar.learners.selection.auto import known_learners
from nearfar.metrics.wide_metric import WideMetric

LEARNERS = [
    name
    for name, kind in known_learners().items()
    if kind.rotates and name not in ("AutoMetric", "MLKR", "LMNN", "ITML", "LSML")
]
"""LMNN has a test of its own. The losses of ITML and LSML are weighed by the number of directions
in which rows differ."""

CLOSE = {"FrobMetric": 5e-3, "MaxMarginMetric": 2e-3, "SparseNCA": 1e-3}
"""Tolerance of searches that end at a gap or at a kink, relative to the largest distance."""


@pytest.fixture
def wide(rng):
    X, y = rng.standard_normal((30, 50)), np.arange(30) % 3
    X[:, :2] += 2 * np.eye(3, 2)[y]
    X[:, 5] = 2.0
    X[7] = X[4]
    return X * rng.uniform(0.5, 2.0, 50), y


def learner_of(name):
    settings = {"random_state": 0, "scale": "standard", "validation_fraction": None}
    known = known_learners()[name]().get_params()
    if name in ("MMC", "SparseNCA"):
        settings["tol"] = 1e-9
    elif name != "FrobMetric":
        settings["max_iter"] = 12
    return known_learners()[name](**{k: v for k, v in settings.items() if k in known})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LEARNERS)
def test_the_metric_is_that_among_all_features(name, wide, monkeypatch):
    X, y = wide
    inside = learner_of(name).fit(X, y).metric_
    monkeypatch.setattr(
        fitting, "in_span", lambda data, scale, method, warm: (data, scale, method, warm)
    )
    among_all = learner_of(name).fit(X, y).metric_
    expected, found = among_all.distances(X), inside.distances(X)
    np.testing.assert_allclose(found, expected, atol=CLOSE.get(name, 1e-6) * expected.max())


@pytest.mark.parametrize("name", ["BoostMetric", "NCA", "MaxMarginMetric", "RCA"])
def test_solvers_see_no_more_coordinates_than_rows(name, wide, monkeypatch):
    X, y = wide
    seen = []
    prepare = fitting.prepare

    def prepared(*arguments, **more):
        found = prepare(*arguments, **more)
        seen.append(found.Z.shape)
        return found

    monkeypatch.setattr(fitting, "prepare", prepared)
    learner_of(name).set_params(validation_fraction=0.3).fit(X, y)
    assert all(width <= 31 for _, width in seen)


def test_outside_the_span_the_prior_stays(wide):
    X, y = wide
    metric = learner_of("BoostMetric").fit(X, y).metric_
    assert isinstance(metric, WideMetric)
    Z = X / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    outside = np.linalg.svd(Z - Z.mean(axis=0))[2][29:]
    outside = outside[np.abs(outside[:, 5]) < 1e-9] * X.std(axis=0)
    lengths = metric.distances(np.zeros((1, 50)), outside)[0]
    np.testing.assert_allclose(lengths, lengths[0], rtol=1e-9)
    assert lengths[0] > 0


def test_few_numbers_stay_few_and_survive_a_file(wide, tmp_path):
    X, y = wide
    learner = learner_of("NCA").fit(X.astype(np.float32), y)
    assert learner.transform(X.astype(np.float32)).dtype == np.float32
    learner.metric_.save(tmp_path / "wide.safetensors")
    again = Metric.load(tmp_path / "wide.safetensors")
    assert isinstance(again, WideMetric)
    np.testing.assert_array_equal(again.distances(X), learner.metric_.distances(X))


def test_more_rows_than_features_have_no_span(rng):
    assert RowSpan.of(rng.standard_normal((9, 4)), "standard") is None
    assert RowSpan.of(rng.standard_normal((4, 9)), "standard").rank == 3


@pytest.mark.parametrize("name", ["BoostMetric", "FrobMetric"])
def test_a_prior_of_ones_own(name, wide, rng, monkeypatch):
    X, y = wide
    own = Metric(rng.standard_normal((3, 50)))
    learner = learner_of(name).set_params(prior=own, scale="unit")
    inside = learner.fit(X, y).metric_.distances(X)
    monkeypatch.setattr(
        fitting, "in_span", lambda data, scale, method, warm: (data, scale, method, warm)
    )
    among_all = learner.fit(X, y).metric_.distances(X)
    np.testing.assert_allclose(inside, among_all, atol=5e-3 * among_all.max())


def test_automatic_choices_work_in_the_span(wide):
    learner = nearfar.AutoMetric(candidates=["NCA", "LDA", "BoostMetric"], random_state=0)
    learner.fit(*wide, groups=np.arange(30))
    assert np.isfinite(learner.transform(wide[0])).all()
