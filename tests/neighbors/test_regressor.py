from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.neighbors import KNeighborsRegressor

from nearfar import MLKR, AutoMetric, MetricNeighborsRegressor
from nearfar.measures.neighbor_votes import NUMBERS

X, Y = make_friedman1(160, n_features=6, noise=0.5, random_state=0)
NEW, _ = make_friedman1(40, n_features=6, random_state=1)


@pytest.mark.parametrize("k", [1, 4])
def test_it_is_the_mean_of_neighbours_under_the_metric(k):
    found = MetricNeighborsRegressor(MLKR(random_state=0), n_neighbors=k).fit(X, Y)
    L = MLKR(random_state=0).fit(X, Y).components_
    expected = KNeighborsRegressor(k).fit(X @ L.T, Y).predict(NEW @ L.T)
    np.testing.assert_allclose(found.predict(NEW), expected)
    explained = found.explain(NEW)
    np.testing.assert_allclose(explained.values, expected)
    np.testing.assert_allclose(Y[explained.indices].mean(axis=1), expected)


def test_the_number_of_neighbours_is_chosen_on_rows_that_took_no_part():
    """One column decides, so that the nearest row is the best without noise, and few rows are."""
    x = np.random.default_rng(0).uniform(size=(300, 1))
    smooth = MetricNeighborsRegressor(MLKR()).fit(x, 10 * x[:, 0] + 0.5)
    noise = np.random.default_rng(1).normal(size=300)
    noisy = MetricNeighborsRegressor(MLKR()).fit(x, x[:, 0] + noise)
    assert smooth.n_neighbors_ <= 3
    assert noisy.n_neighbors_ == NUMBERS[-1]


def test_automatic():
    auto = AutoMetric(candidates=["MLKR"])
    found = MetricNeighborsRegressor(auto).fit(X, Y)
    assert found.n_neighbors_ == found.learner_.n_neighbors_
    assert found.learner_.goal == "regression"
    whole = MetricNeighborsRegressor(auto).fit(X, np.rint(Y / 5).astype(int))
    assert whole.learner_.expected_.measure == "R²"
    assert auto.goal == "classification"


def test_what_is_not_a_number():
    with pytest.raises(ValueError, match="not numbers; for classes, use MetricNeighborsClassifier"):
        MetricNeighborsRegressor().fit(X, np.where(Y > 14, "dear", "cheap"))
    with pytest.raises(TypeError, match=r"learner must be a learner of a metric, .* got 'MLKR'"):
        MetricNeighborsRegressor("MLKR").fit(X, Y)


def test_too_many_neighbours():
    with pytest.raises(ValueError, match="n_neighbors=161 is more than the 160 rows"):
        MetricNeighborsRegressor(MLKR(), n_neighbors=161).fit(X, Y)
