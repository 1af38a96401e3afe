"""Gated metrics that were learned, against their parts."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine

from nearfar import GatedMetric, MaxMarginMetric, Metric, MetricNeighborsClassifier, MixtureNCA
from nearfar.measures import knn_error, map_at_r, neighbor_accuracy_curve
from nearfar.neighbors import kneighbors
from references import msnca as reference


@pytest.fixture(scope="module")
def fitted():
    X, y = load_wine(return_X_y=True)
    return X, y, MixtureNCA(scale="standard", n_metrics=3, random_state=0).fit(X, y).metric_


class TestGatedMetric:
    def test_distances_go_by_the_query(self, fitted):
        X, _, metric = fitted
        chosen = metric.assign(X)
        D = metric.distances(X[:20], X)
        for i in range(20):
            expected = metric.parts[chosen[i]].distances(X[i : i + 1], X)[0]
            np.testing.assert_allclose(D[i], expected, atol=1e-12)
        pairs = np.array([[3, 90], [90, 3], [170, 5]])
        np.testing.assert_allclose(metric.pair_distances(X, pairs), metric.distances(X)[*pairs.T])

    def test_neighbours_are_exact(self, fitted):
        X, y, metric = fitted
        D = metric.distances(X[100:], X[:100])
        found = kneighbors(metric, X[:100], X[100:], n_neighbors=4)
        np.testing.assert_allclose(found[0], np.sort(D, axis=1)[:, :4], atol=1e-6)
        curve = neighbor_accuracy_curve(
            metric, X[:100], y[:100], max_k=3, X_query=X[100:], y_query=y[100:]
        )
        nearest = np.argsort(D, axis=1)[:, :3]
        np.testing.assert_allclose(curve, (y[nearest] == y[100:, None]).mean(axis=0))
        own = metric.distances(X)
        np.fill_diagonal(own, np.inf)
        alone = kneighbors(metric, X, n_neighbors=1)[1].ravel()
        np.testing.assert_array_equal(own[np.arange(178), alone], own.min(axis=1))
        assert 0 < map_at_r(metric, X, y) <= 1

    def test_classifier(self, fitted):
        X, y, metric = fitted
        hard = MetricNeighborsClassifier(
            MixtureNCA(scale="standard", n_metrics=3, random_state=0)
        ).fit(X, y)
        wrong = np.mean(hard.predict(X) != y)
        assert wrong == knn_error(metric, X, y, X, y)
        soft = MetricNeighborsClassifier(
            MixtureNCA(scale="standard", n_metrics=3, random_state=0),
            gate="soft",
            votes="whole",
        ).fit(X, y)
        np.testing.assert_allclose(soft.predict_proba(X[:9]), metric.class_votes(X, y, X[:9])[1])
        classes, votes = metric.class_votes(X, y, X)
        np.testing.assert_array_equal(soft.predict(X), classes[votes.argmax(axis=1)])
        with pytest.raises(ValueError, match="gate must be"):
            MetricNeighborsClassifier(gate="fuzzy").fit(X, y)

    def test_votes_equal_loops(self, fitted):
        X, y, metric = fitted
        Ms = np.array([m.matrix for m in metric.parts])
        expected = reference.soft_votes(Ms, metric.V, metric.b, X[:40], y[:40], X[40:50], False)
        classes, votes = metric.class_votes(X[:40], y[:40], X[40:50])
        assert classes.tolist() == np.unique(y[:40]).tolist()
        np.testing.assert_allclose(votes, expected, atol=1e-10)
        np.testing.assert_array_equal(metric.assign(X), reference.hard_gate(metric.V, metric.b, X))

    def test_save_and_load(self, fitted, tmp_path):
        X, _, metric = fitted
        metric.save(tmp_path / "m.safetensors")
        again = Metric.load(tmp_path / "m.safetensors")
        assert isinstance(again, GatedMetric)
        np.testing.assert_array_equal(again.distances(X), metric.distances(X))

    def test_there_is_no_single_map(self, fitted):
        X, _, metric = fitted
        assert metric.transform(X).shape == (178, metric.n_components)
        with pytest.raises(AttributeError, match="several"):
            _ = metric.L

    def test_bad_gates_are_refused(self):
        one = Metric.identity(2)
        with pytest.raises(ValueError, match="at least one"):
            GatedMetric([], [], [])
        with pytest.raises(ValueError, match="same features"):
            GatedMetric([one, Metric.identity(3)], np.zeros((2, 2)), np.zeros(2))
        with pytest.raises(ValueError, match="weights and offsets"):
            GatedMetric([one, one], np.zeros((1, 2)), np.zeros(2))
        with pytest.raises(ValueError, match="finite"):
            GatedMetric([one], [[np.nan, 0.0]], [0.0])
        X, y = load_wine(return_X_y=True)
        kernel = (
            MaxMarginMetric(scale="standard", kernel="rbf", n_basis=4, random_state=0)
            .fit(X, y)
            .metric_
        )
        with pytest.raises(ValueError, match="without kernel"):
            GatedMetric([kernel], np.zeros((1, 13)), [0.0])
