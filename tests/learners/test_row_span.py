"""Fewer rows than features: a fit in the span of the rows is the fit among all features."""

from __future__ import annotations

import numpy as np
import pytest

import nearfar
from nearfar import GatedMetric, Metric
from nearfar.learners import fitting
from nearfar.learners.base import known_learners
from nearfar.learners.scaling import RowSpan
from nearfar.metrics.variants import WideMetric

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
    monkeypatch.setattr(fitting, "in_span", lambda data, scale, method, warm: (data, scale, method))
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
    monkeypatch.setattr(fitting, "in_span", lambda data, scale, method, warm: (data, scale, method))
    among_all = learner.fit(X, y).metric_.distances(X)
    np.testing.assert_allclose(inside, among_all, atol=5e-3 * among_all.max())


def test_automatic_choices_work_in_the_span(wide):
    learner = nearfar.AutoMetric(candidates=["NCA", "LDA", "BoostMetric"], random_state=0)
    learner.fit(*wide, groups=np.arange(30))
    assert np.isfinite(learner.transform(wide[0])).all()


def spanned(rng, scale="unit"):
    """Rows, and the space that they span."""
    X = rng.standard_normal((5, 9)) * rng.uniform(0.5, 2.0, 9)
    X[:, 3] = 1.5
    return X, RowSpan.of(X, scale)


@pytest.mark.parametrize("scale", [None, "unit", "standard"])
def test_a_lifted_metric_has_the_distances_of_coordinates(rng, scale):
    X, span = spanned(rng, scale)
    metric = Metric(rng.standard_normal((3, span.rank + 2)))
    expected = metric.distances(span.coordinates(X))
    for outside in (True, False):
        lifted = span.lift(metric, outside=outside)
        assert isinstance(lifted, WideMetric) == outside
        np.testing.assert_allclose(lifted.distances(X), expected, atol=1e-10)


def test_a_lifted_metric_goes_back_inside(rng):
    X, span = spanned(rng, "standard")
    Z = span.coordinates(X)
    L = rng.standard_normal((span.rank + 2, span.rank + 2))
    L[:, span.rank :], L[span.rank :] = 0.0, 0.0
    L[-2, -2], L[-1, -1] = 0.7, 0.3
    wide = span.lift(Metric(L))
    again = Metric(span.inside(wide))
    np.testing.assert_allclose(again.distances(Z), Metric(L).distances(Z), atol=1e-10)
    np.testing.assert_allclose(np.diag(again.L)[-2:], [0.7, 0.3])
    plain = Metric(rng.standard_normal((2, 9)))
    np.testing.assert_allclose(
        Metric(span.inside(plain)).distances(Z), plain.distances(X), atol=1e-10
    )


def test_points_of_the_span_have_their_coordinates(rng):
    X, span = spanned(rng, "standard")
    middle = span.point(np.zeros(span.rank + 2))
    np.testing.assert_allclose(middle, X.mean(axis=0), atol=1e-12)
    for row in X:
        own = span.coordinates(row[None])[0]
        np.testing.assert_allclose(span.point(own), row, atol=1e-10)


def test_metrics_that_add_directions(rng):
    X, span = spanned(rng)
    plain = Metric(rng.standard_normal((2, 9)))
    assert RowSpan.of(X, "unit", [plain]).rank == span.rank + 2
    U, B = rng.standard_normal((9, 1)), rng.standard_normal((1, 9))
    weights = np.full(9, 2.0)
    assert RowSpan.of(X, "unit", [WideMetric(weights, U, B)]).rank == span.rank + 2
    assert RowSpan.of(X, "unit", [WideMetric(weights, U, U.T)]).rank == span.rank + 1


def test_metrics_that_leave_no_smaller_space(rng):
    X, _ = spanned(rng)
    plain = Metric(rng.standard_normal((2, 9)))
    uneven = WideMetric(rng.uniform(1, 2, 9), np.ones((9, 1)), np.ones((1, 9)))
    others = [
        GatedMetric([plain, plain], np.eye(2, 9), np.zeros(2)),
        Metric(np.eye(9)),
        Metric(np.ones((2, 8))),
        uneven,
    ]
    assert [RowSpan.of(X, "unit", [metric]) for metric in others] == [None] * 4


def test_a_fit_goes_on_in_the_span(wide):
    X, y = wide
    learner = learner_of("BoostMetric").set_params(warm_start=True, max_iter=6).fit(X, y)
    at_once = learner_of("BoostMetric").set_params(max_iter=12).fit(X, y)
    learner.fit(X, y)
    expected = at_once.metric_.distances(X)
    np.testing.assert_allclose(learner.metric_.distances(X), expected, atol=1e-6 * expected.max())
