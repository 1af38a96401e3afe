from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.metrics import r2_score
from sklearn.neighbors import KNeighborsRegressor

from nearfar import MLKR, AutoMetric, MetricNeighborsRegressor
from nearfar.measures.neighbor_votes import NUMBERS

X, Y = make_friedman1(160, n_features=6, noise=0.5, random_state=0)
NEW, _ = make_friedman1(40, n_features=6, random_state=1)


@pytest.mark.parametrize("k", [1, 4])
def test_it_is_the_mean_of_neighbours_under_the_metric(k):
    learner = MLKR(random_state=0)
    found = MetricNeighborsRegressor(learner, n_neighbors=k, votes="whole").fit(X, Y)
    L = MLKR(random_state=0).fit(X, Y).components_
    expected = KNeighborsRegressor(k).fit(X @ L.T, Y).predict(NEW @ L.T)
    np.testing.assert_allclose(found.predict(NEW), expected)
    explained = found.explain(NEW)
    np.testing.assert_allclose(explained.values, expected)
    np.testing.assert_allclose(Y[explained.indices].mean(axis=1), expected)


def test_the_number_of_neighbours_is_chosen_on_rows_that_took_no_part():
    """One column decides, so that the nearest row is the best without noise, and few rows are."""
    x = np.random.default_rng(0).uniform(size=(300, 1))
    way = MetricNeighborsRegressor(MLKR(), votes="whole")
    smooth = clone(way).fit(x, 10 * x[:, 0] + 0.5)
    noise = np.random.default_rng(1).normal(size=300)
    noisy = clone(way).fit(x, x[:, 0] + noise)
    assert smooth.n_neighbors_ <= 3
    assert noisy.n_neighbors_ == NUMBERS[-1]


def test_automatic():
    auto = AutoMetric(candidates=["MLKR"])
    found = MetricNeighborsRegressor(auto).fit(X, Y)
    assert found.votes_ == found.learner_.votes_
    assert found.learner_.goal == "regression"
    whole = MetricNeighborsRegressor(auto).fit(X, np.rint(Y / 5).astype(int))
    assert whole.learner_.expected_.measure == "R²"
    assert auto.goal == "classification"


def test_a_linear_part_extrapolates(rng):
    x = rng.uniform(size=(200, 2))
    y = 5 * x[:, 0] + np.sin(9 * x[:, 1]) + 0.1 * rng.normal(size=200)
    found = MetricNeighborsRegressor(MLKR()).fit(x, y)
    beyond = np.column_stack([np.full(50, 2.0), rng.uniform(size=50)])
    np.testing.assert_allclose(found.predict(beyond), 10 + np.sin(9 * beyond[:, 1]), atol=1)
    new = rng.uniform(size=(200, 2))
    truth = 5 * new[:, 0] + np.sin(9 * new[:, 1])
    whole = MetricNeighborsRegressor(MLKR(), votes="whole").fit(x, y)
    assert r2_score(truth, found.predict(new)) > r2_score(truth, whole.predict(new))
    np.testing.assert_array_equal(found.explain(new).values, found.predict(new))


def test_what_is_not_a_number():
    with pytest.raises(ValueError, match="not numbers; for classes, use MetricNeighborsClassifier"):
        MetricNeighborsRegressor().fit(X, np.where(Y > 14, "dear", "cheap"))
    with pytest.raises(TypeError, match=r"learner must be a learner of a metric, .* got 'MLKR'"):
        MetricNeighborsRegressor("MLKR").fit(X, Y)


def test_too_many_neighbours():
    with pytest.raises(ValueError, match="n_neighbors=161 is more than the 160 rows"):
        MetricNeighborsRegressor(MLKR(), n_neighbors=161).fit(X, Y)
