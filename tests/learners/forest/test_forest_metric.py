"""ForestMetric: leaves of a forest as a distance."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine, make_friedman1
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.neighbors import KNeighborsRegressor

from nearfar import ForestMetric
from nearfar.learners.forest import forest_metric

X, Y = (part[::2] for part in load_wine(return_X_y=True))


def test_squared_distances_count_trees_in_which_rows_part():
    forest = ForestMetric(n_trees=40, random_state=3).fit(X, Y)
    Z = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    seed = np.random.RandomState(3).randint(2**31 - 1)
    leaves = ExtraTreesClassifier(40, random_state=seed).fit(Z, Y).apply(Z)
    apart = np.array([[np.mean(a != b) for b in leaves] for a in leaves])
    np.testing.assert_allclose(forest.metric_.distances(X) ** 2, 2 * apart, atol=1e-5)


def test_units_do_not_matter():
    scale = np.logspace(-6, 6, X.shape[1])
    here, there = ForestMetric(n_trees=20).fit(X, Y), ForestMetric(n_trees=20).fit(X * scale, Y)
    np.testing.assert_allclose(here.transform(X), there.transform(X * scale), atol=1e-5)


def test_iterations_grow_trees():
    forest = ForestMetric(n_trees=60).fit(X, Y)
    assert forest.n_iter_ == 3
    assert len(forest.metric_.feature_map.forest.roots) == 60
    assert forest.history_.stopped == "grown"


def test_of_many_rows_some_are_learned_from(monkeypatch):
    monkeypatch.setattr(forest_metric, "_MAX_ROWS", 60)
    monkeypatch.setattr(forest_metric, "_MAX_BASIS", 30)
    forest = ForestMetric(n_trees=10).fit(X, Y)
    assert len(forest.metric_.feature_map.basis) == 30
    assert forest.transform(X).shape[1] <= 30


def test_there_is_no_matrix():
    forest = ForestMetric(n_trees=5).fit(X, Y)
    with pytest.raises(AttributeError, match='form="linear"'):
        forest.components_  # noqa: B018


def test_equal_labels_are_refused():
    with pytest.raises(ValueError, match="two classes"):
        ForestMetric().fit(X, np.zeros(len(X)))


@pytest.mark.parametrize("n", [250, 300, 1000, 3000])
def test_neighbours_know_numbers_with_any_number_of_rows(n):
    points, numbers = make_friedman1(n + 1000, noise=1.0, random_state=0)
    forest = ForestMetric().fit(points[:n], numbers[:n])
    mapped = forest.transform(points)
    assert len(np.unique(mapped[:n].round(4), axis=0)) > 0.98 * n
    voters = KNeighborsRegressor(9).fit(mapped[:n], numbers[:n])
    assert voters.score(mapped[n:], numbers[n:]) > 0.74


def test_more_components_let_trees_grow_further():
    points, numbers = make_friedman1(1000, random_state=0)
    forests = [
        ForestMetric(n_trees=20, n_components=k).fit(points, numbers) for k in (2, 256, 1000)
    ]
    n_nodes = [len(each.metric_.feature_map.forest.right) for each in forests]
    assert n_nodes[0] == n_nodes[1] < n_nodes[2] == 20 * 1999
