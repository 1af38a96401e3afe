"""Neighbours among rows on disk and on Dask, and predictions for them, against those in memory."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearfar import RCA, Metric, MetricNeighborsClassifier, MetricNeighborsRegressor, MixtureNCA
from nearfar.neighbors import kneighbors
from nearfar.rows import rows as base


@pytest.fixture(params=["npy", "dask"])
def stored(request, rng, tmp_path, monkeypatch):
    """Rows in many blocks, the same in memory, and classes."""
    monkeypatch.setattr(base, "_PIECE_BYTES", 2000)
    y = rng.integers(0, 3, 700)
    X = rng.standard_normal((3, 5))[y] + rng.standard_normal((700, 5))
    if request.param == "dask":
        return da.from_array(X, chunks=(90, 2)), X, y
    np.save(tmp_path / "X.npy", X)
    return tmp_path / "X.npy", X, y


@pytest.mark.parametrize("k", [1, 4, 60, 700])
def test_neighbors_are_those_in_memory(stored, k, rng):
    path, X, _ = stored
    metric, queries = Metric(rng.standard_normal((3, 5))), rng.standard_normal((40, 5))
    distances, indices = kneighbors(metric, path, queries, n_neighbors=k)
    expected = kneighbors(metric, X, queries, n_neighbors=k)
    np.testing.assert_array_equal(indices, expected[1])
    np.testing.assert_allclose(distances, expected[0], rtol=1e-9)


def test_equal_rows_come_in_the_order_of_their_numbers(monkeypatch, tmp_path):
    monkeypatch.setattr(base, "_PIECE_BYTES", 2000)
    np.save(tmp_path / "X.npy", np.ones((900, 2)))
    found = kneighbors(Metric.identity(2), tmp_path / "X.npy", np.zeros((3, 2)), n_neighbors=4)
    np.testing.assert_array_equal(found[1], np.tile(np.arange(4), (3, 1)))


def test_neighbors_under_a_gate(stored):
    path, X, y = stored
    metric = MixtureNCA(max_iter=2, n_metrics=2, random_state=0, tol=1.0).fit(X, y).metric_
    found = kneighbors(metric, path, X[:20], n_neighbors=3)[1]
    np.testing.assert_array_equal(found, kneighbors(metric, X, X[:20], n_neighbors=3)[1])


@pytest.mark.parametrize("learner", [RCA(), make_pipeline(StandardScaler(), RCA())])
def test_classes_are_those_in_memory(stored, learner):
    path, X, y = stored
    classifier = MetricNeighborsClassifier(learner, n_neighbors=5).fit(X[:300], y[:300])
    np.testing.assert_array_equal(classifier.predict(path), classifier.predict(X))
    np.testing.assert_array_equal(classifier.predict_proba(path), classifier.predict_proba(X))


def test_numbers_are_those_in_memory(stored):
    path, X, _ = stored
    regressor = MetricNeighborsRegressor(n_neighbors=4).fit(X[:200], X[:200, 0] + 0.5)
    np.testing.assert_allclose(regressor.predict(path), regressor.predict(X), rtol=1e-12)


def test_what_cannot_be_searched(stored):
    path = stored[0]
    with pytest.raises(ValueError, match="queries"):
        kneighbors(Metric.identity(5), path)
    for k in (0, 701):
        with pytest.raises(ValueError, match="n_neighbors"):
            kneighbors(Metric.identity(5), path, np.zeros((2, 5)), n_neighbors=k)
