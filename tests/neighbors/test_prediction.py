"""Predictions by neighbours against loops over all rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine

from nearfar import BoostMetric, Metric, MetricNeighborsClassifier, MixtureNCA
from nearfar.neighbors import NeighborPredictor
from nearfar.neighbors.strangeness import Strangeness


def nearest(table, k):
    return np.argsort(table, axis=1, kind="stable")[:, :k]


def test_about_the_level_is_called_unlike(rng):
    """Of rows of the same source, for correlated columns of different units."""
    mix = rng.standard_normal((4, 4)) * [1, 10, 100, 1000]
    X, fresh = (rng.standard_normal((n, 4)) @ mix for n in (400, 4000))
    y = (X[:, 0] > 0).astype(int)
    found = NeighborPredictor(Metric(np.eye(4)[:1]), X, y).predict(fresh)
    for level in (0.01, 0.05, 0.2):
        assert 0.4 * level < found.unlike(level).mean() < 1.5 * level


def test_strangers_in_a_column_that_the_metric_ignores(rng):
    X = rng.standard_normal((200, 2))
    strangers = np.column_stack([rng.standard_normal(50), np.full(50, 8.0)])
    found = NeighborPredictor(Metric([[1.0, 0.0]]), X, X[:, 0] > 0).predict(strangers)
    assert found.unlike(0.01).all()


def test_strangers_between_columns(rng):
    """No column is unusual, but their combination is; numbers have no classes."""
    X = rng.standard_normal((300, 1)) * [1.0, 1.0] + 0.05 * rng.standard_normal((300, 2))
    found = NeighborPredictor(Metric.identity(2), X, X[:, 0], numbers=True).predict([[1.0, -1.0]])
    assert found.unlike(0.01).all()


def test_p_values_are_those_of_a_loop(rng):
    X, queries = rng.standard_normal((23, 3)), 2 * rng.standard_normal((40, 3))
    strangeness = Strangeness(X)
    stranger = np.ones(40)
    for distance, near, scores in (
        (fold.gallery.metric, fold.gallery.X, fold.scores) for fold in strangeness.folds
    ):
        known = distance.transform(near)

        def score(rows, known=known, distance=distance):
            table = np.linalg.norm(distance.transform(rows)[:, None] - known[None], axis=2)
            among = np.linalg.norm(known[:, None] - known[None], axis=2)
            np.fill_diagonal(among, np.inf)
            own = np.sort(among, axis=1)[:, :3].mean(axis=1)
            around = own[nearest(table, 3)].mean(axis=1)
            return np.sort(table, axis=1)[:, :3].mean(axis=1) / np.sqrt(around)

        left_out = X[~(X[:, None] == near[None]).all(axis=2).any(axis=1)]
        np.testing.assert_allclose(np.sort(score(left_out)), scores)
        stranger += (score(left_out)[None] >= score(queries)[:, None]).sum(axis=1)
    np.testing.assert_allclose(strangeness.p_values(queries), stranger / 24)


def test_a_new_row_is_one_of_a_new_group(rng):
    """Rows of a person are alike: as persons, a new one is not unlike; as rows, it is."""
    person = np.repeat(np.arange(100), 5)

    def rows(people):
        return rng.standard_normal((people, 3)).repeat(5, axis=0) + 0.01 * rng.standard_normal(
            (5 * people, 3)
        )

    X, fresh = rows(100), rows(400)
    known, alone = (Strangeness(X, groups=groups).p_values(fresh) for groups in (person, None))
    assert 0.02 < (known <= 0.1).mean() < 0.16
    assert (alone <= 0.1).mean() > 0.5
    assert Strangeness(X, groups=person).smallest == pytest.approx(1 / 101)


def test_a_row_far_away_has_the_smallest_p_value(rng):
    predictor = NeighborPredictor(
        Metric.identity(3), rng.standard_normal((99, 3)), np.arange(99) % 3
    )
    found = predictor.predict([[1e3, 0, 0], [0, 0, 0]])
    assert found.p_value[0] == 1 / 100
    assert found.unlike().tolist() == [True, False]
    assert found.unlike(0.009).tolist() == [False, False]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_copies_are_not_unlike(dtype, rng):
    """Copies count once: neither is a copy of a row unlike, nor a row that is no copy."""
    X = (np.repeat(rng.standard_normal((60, 3)), 3, axis=0) + 1e4).astype(dtype)
    predictor = NeighborPredictor(Metric.identity(3), X, np.arange(180) % 2)
    assert (predictor.predict(X[5:9]).p_value > 0.5).all()
    fresh = rng.standard_normal((500, 3)) + 1e4
    assert predictor.predict(fresh).unlike(0.05).mean() < 0.1


def test_few_and_constant_rows():
    X, y = [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]], [0, 1, 1]
    assert (NeighborPredictor(Metric.identity(2), X, y, votes=1).predict(X).p_value == 1).all()
    constant = np.column_stack([np.arange(50.0), np.ones(50)])
    found = NeighborPredictor(Metric.identity(2), constant, np.arange(50) % 2)
    assert found.predict([[20.5, 1.0], [20.5, 9.0]]).unlike(0.05).tolist() == [False, True]


@pytest.mark.parametrize("k", [1, 3, 4])
def test_votes_and_probabilities(k, rng):
    X, queries = rng.standard_normal((60, 3)), rng.standard_normal((50, 3))
    y = np.array(["a", "b", "c"])[(X[:, 0] > 0).astype(int) + (rng.random(60) < 0.3)]
    metric = Metric(rng.standard_normal((2, 3)))
    found = NeighborPredictor(metric, X, y, votes=k).predict(queries)
    for i, neighbors in enumerate(nearest(metric.distances(queries, X), k)):
        counts = {label: int((y[neighbors] == label).sum()) for label in sorted(set(y))}
        label, votes = max(counts.items(), key=lambda item: item[1])
        assert found.values[i] == label
        assert found.indices[i].tolist() == neighbors.tolist()
        assert found.probability[i] == pytest.approx(votes / k)
        assert found.share[i] == 1
    np.testing.assert_allclose(
        found.distances, np.sort(metric.distances(queries, X), axis=1)[:, :k], atol=1e-7
    )


def test_numbers_are_the_mean_of_the_neighbours(rng):
    X, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    queries = rng.standard_normal((9, 2))
    found = NeighborPredictor(Metric.identity(2), X, y, votes=4, numbers=True).predict(queries)
    table = np.linalg.norm(queries[:, None] - X[None], axis=2)
    np.testing.assert_allclose(found.values, y[nearest(table, 4)].mean(axis=1))
    assert found.probability is None


def test_each_row_has_a_label():
    with pytest.raises(ValueError, match=r"The 3 training rows need one label each; got \(2,\)"):
        NeighborPredictor(Metric.identity(1), [[0.0], [1.0], [2.0]], [0, 1])


def test_a_classifier_explains_its_predictions():
    X, y = load_wine(return_X_y=True)
    classifier = MetricNeighborsClassifier(BoostMetric(max_iter=5), 3).fit(X[::2], y[::2])
    found = classifier.explain(X[1::2])
    np.testing.assert_array_equal(found.values, classifier.predict(X[1::2]))
    np.testing.assert_array_equal(found.probability, classifier.predict_proba(X[1::2]).max(axis=1))
    votes = classifier.votes_
    assert (found.share < 1).all()
    expected = NeighborPredictor(classifier.metric_, X[::2], y[::2], votes=votes).predict(X[1::2])
    np.testing.assert_array_equal(found.probabilities, expected.probabilities)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.p_value, expected.p_value)


@pytest.mark.filterwarnings("ignore:max_iter=2")
def test_soft_neighbours_are_not_explained():
    X, y = load_wine(return_X_y=True)
    learner = MixtureNCA(n_metrics=2, max_iter=2, random_state=0)
    soft = MetricNeighborsClassifier(learner, gate="soft").fit(X, y)
    with pytest.raises(ValueError, match='no few neighbours decide; use gate="hard"'):
        soft.explain(X)
