"""`scale="auto"`: each kind of supervision, ties, and what is recorded."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import Normalizer

from nearfar import BoostMetric, MaxMarginMetric, Metric, MetricBoost, MixtureNCA, Pairs, Triplets
from nearfar.learners.scaling import Scaler
from nearfar.learners.selection import scale as module
from nearfar.supervision import Chunklets, RandomPairs, RandomTriplets, Supervision

N = 120


def choose_scale(X, y, numbers=False):
    return module.choose_scale(X, Supervision.of(y, len(X), numbers=numbers))


@pytest.fixture
def tables(rng):
    """Rows for which each scale is the right one, and their classes."""
    y = np.arange(N) % 3
    signal = np.eye(3)[y] + 0.2 * rng.standard_normal((N, 3))
    noise = rng.standard_normal((N, 8))
    angles = np.exp(3 * rng.standard_normal((N, 1))) * signal
    return y, {
        "standard": np.hstack([signal, 1000 * noise[:, :1]]),
        "unit": np.hstack(
            [100 * (1 + y[:, None]) + 20 * noise[:, :1], 0.1 * rng.standard_normal((N, 40))]
        ),
        "cosine": angles,
    }


def kinds_of(y, X):
    return {
        "labels": y,
        "chunklets": Chunklets(np.where(np.arange(N) < 100, y, -1)),
        "triplets": RandomTriplets(2000)(X, y, np.random.RandomState(0)),
        "pairs": RandomPairs(2000)(X, y, np.random.RandomState(0)),
        "over": RandomPairs(2000)(X, y, np.random.RandomState(0)).over(N),
        "numbers": y + 0.01 * np.arange(N),
    }


@pytest.mark.parametrize("scale", ["standard", "unit", "cosine"])
def test_every_kind_of_supervision_finds_the_right_scale(tables, scale):
    y, X = tables[0], tables[1][scale]
    for kind, supervision in kinds_of(y, X).items():
        assert choose_scale(X, supervision, kind == "numbers") == scale, kind


def test_ties_go_to_rows_as_they_are():
    X = np.array([[0.0], [1.0], [10.0], [11.0]])
    assert choose_scale(X, np.array([0, 0, 1, 1])) == "unit"
    assert choose_scale(X, Triplets([[0, 1, 2]])) == "unit"


def test_a_column_in_grams_does_not_hide_the_others(rng):
    """Its neighbours alone are a little better, but learning needs the other columns."""
    y = rng.permutation(300) % 2
    grams = 4000 + 800 * (y + 0.5 * rng.standard_normal(300))
    others = y[:, None] + 1.0 * rng.standard_normal((300, 2))
    levels = 0.4 * rng.integers(0, 2, (300, 20))
    X = np.column_stack([grams, others, levels])
    assert choose_scale(X, y) == "standard"
    # Units of the numbers to predict do not matter either.
    for unit in (1e-6, 1.0, 1e6):
        assert choose_scale(X, unit * grams, numbers=True) == "unit"


def test_what_cannot_be_judged_is_standardised(rng):
    X = rng.standard_normal((10, 2))
    assert choose_scale(X, None) == "standard"
    assert choose_scale(X, Pairs([[0, 1]], [True])) == "standard"
    assert choose_scale(X, Chunklets(np.full(10, -1))) == "standard"


def test_the_judgement_is_leave_one_out_neighbours():
    X, y = load_wine(return_X_y=True)
    shares = {}
    for scale in ("unit", "standard", "cosine"):
        Z = Scaler.fit(X, scale).transform(X)
        nearest = KNeighborsClassifier(3).fit(Z, y).kneighbors(return_distance=False)
        shares[scale] = np.mean(y[nearest] == y[:, None])
    assert choose_scale(X, y) == max(shares, key=shares.__getitem__) == "standard"


def test_the_choice_is_recorded_and_can_be_pinned():
    X, y = load_wine(return_X_y=True)
    chosen = BoostMetric(max_iter=5).fit(X, y)
    pinned = BoostMetric(max_iter=5, scale=chosen.scale_).fit(X, y)
    assert chosen.scale_ == "standard"
    np.testing.assert_array_equal(chosen.metric_.L, pinned.metric_.L)
    X, y = load_digits(return_X_y=True)
    assert BoostMetric(max_iter=1).fit(X[:300], y[:300]).scale_ == "unit"


def test_units_do_not_change_the_choice(tables):
    for X in tables[1].values():
        assert choose_scale(X, tables[0]) == choose_scale(1e6 * X, tables[0])


class TestCosine:
    @pytest.fixture(params=[BoostMetric, MetricBoost, MaxMarginMetric, MixtureNCA])
    def fitted(self, request, tables):
        y, X = tables[0], tables[1]["cosine"]
        return request.param(random_state=0, validation_fraction=None).fit(X, y), X, y

    def test_it_learns_on_rows_of_unit_length(self, fitted):
        learner, X, y = fitted
        assert learner.scale_ == "cosine"
        assert learner.metric_.unit_rows
        lengths = np.linalg.norm(X, axis=1, keepdims=True)
        unit = type(learner)(random_state=0, scale="unit").fit(Normalizer().transform(X), y)
        np.testing.assert_allclose(
            learner.metric_.distances(X), unit.metric_.distances(X / lengths), rtol=1e-6, atol=1e-9
        )

    def test_the_metric_does_not_see_lengths(self, fitted):
        learner, X, _ = fitted
        np.testing.assert_allclose(learner.transform(5 * X), learner.transform(X), rtol=1e-9)

    def test_it_survives_a_file(self, fitted, tmp_path):
        metric, X = fitted[0].metric_, fitted[1]
        metric.save(tmp_path / "m.safetensors")
        loaded = Metric.load(tmp_path / "m.safetensors")
        assert loaded.unit_rows
        np.testing.assert_array_equal(loaded.distances(X), metric.distances(X))
        assert loaded.named(list("abc")).unit_rows

    def test_warm_starts_keep_the_scale(self, fitted):
        learner, X, y = fitted
        learner.set_params(warm_start=True).fit(X, y)
        assert learner.scale_ == "cosine"

    def test_a_prior_must_be_of_the_same_kind(self, tables):
        y, X = tables[0], tables[1]["cosine"]
        angular = Metric(np.eye(3), unit_rows=True)
        assert BoostMetric(prior=angular, max_iter=2).fit(X, y).scale_ == "cosine"
        with pytest.raises(ValueError, match="is for unit rows"):
            BoostMetric(prior=angular, scale="standard").fit(X, y)
        assert BoostMetric(prior=Metric.identity(3), max_iter=2).fit(X, y).scale_ != "cosine"
        with pytest.raises(ValueError, match="is for rows as they are"):
            BoostMetric(prior=Metric.identity(3), scale="cosine").fit(X, y)

    def test_rows_of_zeros_stay_zero(self):
        metric = Metric(np.eye(2), unit_rows=True)
        np.testing.assert_array_equal(metric.transform([[0, 0], [0, 5]]), [[0, 0], [0, 1]])
        assert repr(metric) == "<Metric: 2 features of unit length -> 2>"

    def test_distances_are_those_of_angles(self, rng):
        X = rng.standard_normal((9, 4))
        U = X / np.linalg.norm(X, axis=1, keepdims=True)
        squared = Metric(np.eye(4), unit_rows=True).distances(X) ** 2
        np.testing.assert_allclose(squared, 2 * (1 - U @ U.T), atol=1e-12)
