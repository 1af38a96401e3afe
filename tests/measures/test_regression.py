from __future__ import annotations

import pytest
from sklearn.metrics import r2_score
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.neighbors import KNeighborsRegressor

from nearfar import Metric
from nearfar.measures import knn_r2


def test_it_is_the_score_of_a_regressor_after_the_map(rng):
    X, y = rng.standard_normal((60, 3)), rng.standard_normal(60)
    metric = Metric(rng.standard_normal((2, 3)))
    mapped = metric.transform(X)
    expected = KNeighborsRegressor(4).fit(mapped[:40], y[:40]).score(mapped[40:], y[40:])
    found = knn_r2(metric, X[:40], y[:40], X[40:], y[40:], n_neighbors=4)
    assert found == pytest.approx(expected)
    others = cross_val_predict(KNeighborsRegressor(4), mapped, y, cv=LeaveOneOut())
    assert knn_r2(metric, X, y, n_neighbors=4) == pytest.approx(r2_score(y, others))


def test_rows_and_numbers_go_together():
    with pytest.raises(ValueError, match="only one of them"):
        knn_r2(Metric.identity(1), [[0.0], [1.0]], [0, 1], [[2.0]])
