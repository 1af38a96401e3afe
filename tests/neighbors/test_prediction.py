"""Predictions by neighbours against loops over all rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine

from nearfar import BoostMetric, GatedMetric, Metric, MetricNeighborsClassifier, MixtureNCA
from nearfar.neighbors import NeighborPredictor


def nearest(table, k):
    return np.argsort(table, axis=1, kind="stable")[:, :k]


def spread_rows(rng):
    return rng.standard_normal((40, 3))


def lattice(rng):
    """Rows with many equal distances, and duplicates."""
    return rng.integers(0, 4, size=(40, 2)).astype(float)


def single_precision(rng):
    return rng.standard_normal((40, 3)).astype(np.float32)


def own_scores(X, L, k):
    """Distance from each row to the k-th nearest of the others, by differences."""
    mapped = X.astype(float) @ L.T
    table = np.sqrt(((mapped[:, None] - mapped[None]) ** 2).sum(axis=2))
    np.fill_diagonal(table, np.inf)
    return np.sort(table, axis=1)[:, k - 1]


@pytest.mark.parametrize("rows", [spread_rows, lattice, single_precision])
@pytest.mark.parametrize("k", [1, 2, 3, 7])
@pytest.mark.parametrize("rank", [1, 3])
def test_p_values_are_ranks_among_all_rows(rows, k, rank, rng):
    """Each row in turn is new: its p-value is the rank of its distance, as if none were new."""
    X = rows(rng)
    L = np.eye(X.shape[1])[:rank]
    scores = own_scores(X, L, k)
    slack = 1e-5 * scores.max()
    found = []
    for new in range(len(X)):
        others = np.delete(X, new, axis=0)
        predictor = NeighborPredictor(Metric(L), others, np.arange(39) % 2, n_neighbors=k)
        found.append(predictor.predict(X[[new]]).p_value[0])
    expected = [(scores >= score - slack).mean() for score in scores]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("rows", [spread_rows, lattice])
@pytest.mark.parametrize("k", [1, 4])
def test_no_level_is_exceeded(rows, k, rng):
    """Of exchangeable rows, at most the share `level` is called unlike, for every level."""
    X = rows(rng)
    metric = Metric(rng.standard_normal((2, X.shape[1])))
    found = []
    for new in range(len(X)):
        predictor = NeighborPredictor(
            metric, np.delete(X, new, axis=0), np.arange(39) % 2, n_neighbors=k
        )
        found.append(predictor.predict(X[[new]]))
    for level in np.arange(1, 41) / 40:
        assert np.mean([each.unlike(level)[0] for each in found]) <= level


def test_p_values_under_a_gate_are_never_too_small(rng):
    X = rng.standard_normal((40, 2))
    gate = GatedMetric([Metric([[1.0, 0.2]]), Metric([[0.1, 1.0]])], [[5, 0], [-5, 0]], [0, 0])
    table = gate.distances(X)
    np.fill_diagonal(table, np.inf)
    scores = np.sort(table, axis=1)[:, 2]
    for new in range(len(X)):
        predictor = NeighborPredictor(gate, np.delete(X, new, axis=0), np.arange(39) % 2)
        found = predictor.predict(X[[new]]).p_value[0]
        assert found >= (scores >= scores[new] * (1 - 1e-9)).mean() - 1e-12
        assert found <= (scores >= scores[new] * (1 - 1e-9)).mean() + 3 / 40


def test_a_row_far_away_has_the_smallest_p_value(rng):
    predictor = NeighborPredictor(
        Metric.identity(3), rng.standard_normal((99, 3)), np.arange(99) % 3
    )
    found = predictor.predict([[1e3, 0, 0], [0, 0, 0]])
    assert found.p_value[0] == 1 / 100
    assert found.unlike().tolist() == [True, False]
    assert found.unlike(0.009).tolist() == [False, False]


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [12, 400])
def test_copies_are_not_unlike(offset, dtype, n, rng):
    """Rows in pairs: a copy of one has distance 0 to the nearest row, as training rows have."""
    X = (np.repeat(rng.standard_normal((n // 2, 3)), 2, axis=0) + offset).astype(dtype)
    metric = Metric(rng.standard_normal((3, 3)))
    predictor = NeighborPredictor(metric, X, np.arange(n) % 2, n_neighbors=1)
    for rows in (X, X[:1], X[5:8]):
        assert (predictor.predict(rows).p_value == 1).all()


@pytest.mark.parametrize("k", [1, 3, 4])
def test_votes_and_probabilities(k, rng):
    X, queries = rng.standard_normal((60, 3)), rng.standard_normal((50, 3))
    y = np.array(["a", "b", "c"])[(X[:, 0] > 0).astype(int) + (rng.random(60) < 0.3)]
    metric = Metric(rng.standard_normal((2, 3)))
    found = NeighborPredictor(metric, X, y, n_neighbors=k).predict(queries)

    def vote(neighbors):
        counts = {label: int((y[neighbors] == label).sum()) for label in sorted(set(y))}
        return max(counts.items(), key=lambda item: item[1])

    table = metric.distances(X)
    np.fill_diagonal(table, np.inf)
    history = [(*vote(neighbors), y[i]) for i, neighbors in enumerate(nearest(table, k))]
    for i, neighbors in enumerate(nearest(metric.distances(queries, X), k)):
        label, votes = vote(neighbors)
        alike = [winner == actual for winner, count, actual in history if count == votes]
        assert found.values[i] == label
        assert found.indices[i].tolist() == neighbors.tolist()
        assert found.probability[i] == pytest.approx(
            (sum(alike) + votes / (k + 1)) / (len(alike) + 1)
        )
    np.testing.assert_allclose(
        found.distances, np.sort(metric.distances(queries, X), axis=1)[:, :k], atol=1e-7
    )


def test_numbers_are_the_mean_of_the_neighbours(rng):
    X, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    queries = rng.standard_normal((9, 2))
    found = NeighborPredictor(Metric.identity(2), X, y, n_neighbors=4, numbers=True).predict(
        queries
    )
    table = np.linalg.norm(queries[:, None] - X[None], axis=2)
    np.testing.assert_allclose(found.values, y[nearest(table, 4)].mean(axis=1))
    assert found.probability is None


def test_labels_and_neighbours_must_fit():
    with pytest.raises(ValueError, match=r"The 3 training rows need one label each; got \(2,\)"):
        NeighborPredictor(Metric.identity(1), [[0.0], [1.0], [2.0]], [0, 1])
    predictor = NeighborPredictor(Metric.identity(1), [[0.0], [1.0], [2.0]], [0, 1, 1])
    with pytest.raises(ValueError, match="n_neighbors must be from 1 to 2"):
        predictor.predict([[0.0]])


def test_a_classifier_explains_its_predictions():
    X, y = load_wine(return_X_y=True)
    classifier = MetricNeighborsClassifier(BoostMetric(max_iter=5)).fit(X[::2], y[::2])
    found = classifier.explain(X[1::2])
    np.testing.assert_array_equal(found.values, classifier.predict(X[1::2]))
    expected = NeighborPredictor(classifier.metric_, X[::2], y[::2]).predict(X[1::2])
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.p_value, expected.p_value)


@pytest.mark.filterwarnings("ignore:max_iter=2")
def test_soft_neighbours_are_not_explained():
    X, y = load_wine(return_X_y=True)
    learner = MixtureNCA(n_metrics=2, max_iter=2, random_state=0)
    soft = MetricNeighborsClassifier(learner, gate="soft").fit(X, y)
    with pytest.raises(ValueError, match='no few neighbours decide; use gate="hard"'):
        soft.explain(X)
