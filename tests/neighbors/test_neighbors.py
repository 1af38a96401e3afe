from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from nearfar import (
    BoostMetric,
    Metric,
    MetricBoost,
    MetricNeighborsClassifier,
    MixtureNCA,
    PairVerifier,
    Triplets,
)
from nearfar.columns import Columns
from nearfar.measures import knn_error
from nearfar.neighbors import MetricNeighbors, kneighbors


def test_a_name_is_no_learner():
    with pytest.raises(TypeError, match=r"learner must be a learner of a metric, .* got 'LDA'"):
        MetricNeighborsClassifier("LDA").fit(*load_wine(return_X_y=True))


def test_kneighbors_equals_sorting_all_distances(rng):
    X, queries = rng.standard_normal((80, 4)), rng.standard_normal((9, 4))
    metric = Metric(rng.standard_normal((3, 4)))
    distances, indices = kneighbors(metric, X, queries, n_neighbors=6)
    table = metric.distances(queries, X)
    np.testing.assert_array_equal(indices, np.argsort(table, axis=1)[:, :6])
    np.testing.assert_allclose(distances, np.sort(table, axis=1)[:, :6], atol=1e-7)
    some = kneighbors(metric, X, rows=[9, 3, 20], n_neighbors=4)
    np.testing.assert_array_equal(some[1], kneighbors(metric, X, n_neighbors=4)[1][[9, 3, 20]])
    with pytest.raises(ValueError, match="either queries or rows"):
        kneighbors(metric, X, X, rows=[1])


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_classes_far_from_the_origin(offset, rng):
    X = np.round(rng.standard_normal((60, 3)), 3)
    y = (X[:, 0] > 0).astype(int)
    plain = MetricNeighborsClassifier(BoostMetric(max_iter=5)).fit(X, y).predict(X)
    moved = MetricNeighborsClassifier(BoostMetric(max_iter=5)).fit(X + offset, y)
    np.testing.assert_array_equal(moved.predict(X + offset), plain)


def test_classifier_is_neighbours_after_the_map():
    X, X_test, y, y_test = train_test_split(*load_wine(return_X_y=True), random_state=0)
    learner = BoostMetric(max_iter=30)
    classifier = MetricNeighborsClassifier(learner, n_neighbors=5, votes="whole").fit(X, y)
    learner.fit(X, y)
    plain = KNeighborsClassifier(5).fit(learner.transform(X), y)
    expected = plain.predict(learner.transform(X_test))
    np.testing.assert_array_equal(classifier.predict(X_test), expected)
    shares = classifier.predict_proba(X_test)
    np.testing.assert_array_equal(shares, plain.predict_proba(learner.transform(X_test)))
    assert 1 - classifier.score(X_test, y_test) == pytest.approx(
        knn_error(learner.metric_, X, y, X_test, y_test, n_neighbors=5)
    )
    restored = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(restored.predict(X_test), expected)


@pytest.mark.filterwarnings("ignore:max_iter=5")
@pytest.mark.parametrize("gate", ["hard", "soft"])
def test_classifier_under_a_gated_metric(gate):
    X, X_test, y, _ = train_test_split(*load_wine(return_X_y=True), random_state=0)
    learner = MixtureNCA(n_metrics=2, max_iter=5, random_state=0)
    classifier = MetricNeighborsClassifier(learner, 3, gate=gate, votes="whole").fit(X, y)
    metric = classifier.metric_
    if gate == "soft":
        expected = metric.class_votes(X, y, X_test)[1]
    else:
        votes = y[np.argsort(metric.distances(X_test, X), axis=1)[:, :3]]
        expected = (votes[:, :, None] == np.arange(3)).mean(axis=1)
    np.testing.assert_allclose(classifier.predict_proba(X_test), expected)


def test_classifier_needs_labels_and_enough_rows():
    X = np.arange(12.0).reshape(6, 2)
    with pytest.raises(ValueError, match="n_neighbors=9"):
        MetricNeighborsClassifier(n_neighbors=9).fit(X, [0, 0, 0, 1, 1, 1])
    with pytest.raises(ValueError, match="needs class labels"):
        MetricNeighborsClassifier().fit(X, Triplets([[0, 1, 3]]))


def test_forms_that_are_not_metrics():
    wine = load_wine(return_X_y=True)
    learner = MetricBoost(variant="paper", max_iter=3)
    with pytest.raises(ValueError, match="learns a form that is not a metric"):
        MetricNeighborsClassifier(learner).fit(*wine)
    with pytest.raises(ValueError, match="learns a form that is not a metric"):
        PairVerifier(learner, random_state=0).fit(*wine)


class TestMetricNeighbors:
    """Its methods against scikit-learn's, on mapped rows."""

    @pytest.fixture
    def both(self):
        rng = np.random.default_rng(0)
        metric, X = Metric(rng.standard_normal((3, 5))), rng.standard_normal((200, 5))
        ours = MetricNeighbors(metric, n_neighbors=4, radius=1.5).fit(X)
        return ours, NearestNeighbors(n_neighbors=4, radius=1.5).fit(metric.transform(X)), metric

    @pytest.mark.parametrize("queries", [None, np.random.default_rng(1).standard_normal((30, 5))])
    def test_methods(self, both, queries):
        ours, theirs, metric = both
        mapped = None if queries is None else metric.transform(queries)
        for found, expected in zip(
            ours.kneighbors(queries, 7), theirs.kneighbors(mapped, 7), strict=True
        ):
            np.testing.assert_allclose(found, expected)
        for mode in ("connectivity", "distance"):
            found = ours.kneighbors_graph(queries, mode=mode)
            expected = theirs.kneighbors_graph(mapped, mode=mode)
            np.testing.assert_allclose(found.toarray(), expected.toarray())
        found = ours.radius_neighbors(queries, sort_results=True)
        expected = theirs.radius_neighbors(mapped, sort_results=True)
        for ours_, theirs_ in zip(found, expected, strict=True):
            for a, b in zip(ours_, theirs_, strict=True):
                np.testing.assert_allclose(a, b)
        indices = ours.radius_neighbors(queries, return_distance=False)
        assert [set(row) for row in indices] == [set(row) for row in expected[1]]

    def test_without_a_metric(self):
        X = [[0.0, 0.0], [3.0, 4.0]]
        assert MetricNeighbors(n_neighbors=1).fit(X).kneighbors()[0].tolist() == [[5.0], [5.0]]

    def test_errors(self, both):
        with pytest.raises(ValueError, match='"connectivity" or "distance"'):
            both[0].kneighbors_graph(mode="graph")
        with pytest.raises(ValueError, match="3 features"):
            MetricNeighbors(Metric.identity(3)).fit([[1.0, 2.0]])
        with pytest.raises(ValueError, match="expecting 5 features"):
            both[0].kneighbors([[1.0]])


class TestTables:
    """Both the function and the estimator find the metric's features in a table."""

    METRIC = Metric(np.diag([1.0, 10.0, 100.0]), ["a", "b", "c"])

    def test_columns_in_another_order(self, rng):
        table = pd.DataFrame(rng.standard_normal((30, 3)), columns=list("abc"))
        queries = pd.DataFrame(rng.standard_normal((5, 3)), columns=list("abc"))
        expected = kneighbors(self.METRIC, table.to_numpy(), queries.to_numpy(), n_neighbors=3)
        for order in ("abc", "cab", "bca"):
            search = MetricNeighbors(self.METRIC, n_neighbors=3).fit(table[list(order)])
            for found in (
                search.kneighbors(queries[list("bac")]),
                search.kneighbors(queries.to_numpy()),
                kneighbors(self.METRIC, table[list(order)], queries[list("cba")], n_neighbors=3),
            ):
                np.testing.assert_array_equal(found[1], expected[1])
                np.testing.assert_allclose(found[0], expected[0])

    def test_a_table_without_the_features(self, rng):
        table = pd.DataFrame(rng.standard_normal((9, 3)), columns=list("abd"))
        with pytest.raises(ValueError, match="the table lacks c"):
            MetricNeighbors(self.METRIC).fit(table)

    def test_a_metric_with_columns(self):
        table = pd.DataFrame(
            {"size": [1.0, 2.0, 9.0, np.nan], "kind": ["x", "y", "x", "y"], "other": list("pqrs")}
        )
        columns = Columns().fit(table[["size", "kind"]])
        metric = Metric.identity(len(columns.feature_names)).with_columns(columns)
        expected = kneighbors(metric, table, n_neighbors=2)
        search = MetricNeighbors(metric, n_neighbors=2).fit(table)
        found = search.kneighbors()
        np.testing.assert_array_equal(found[1], expected[1])
        np.testing.assert_array_equal(search.kneighbors(table[["kind", "size"]])[1][:, 0], range(4))

    def test_without_names_of_the_metric_the_table_has_an_order(self, rng):
        table = pd.DataFrame(rng.standard_normal((9, 3)), columns=list("abc"))
        search = MetricNeighbors(Metric.identity(3)).fit(table)
        with pytest.raises(ValueError, match="same order"):
            search.kneighbors(table[list("cab")])
