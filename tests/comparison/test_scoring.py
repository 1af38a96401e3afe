from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from comparison.helpers import Fixed
from nearfar import Metric, measures
from nearfar.comparison import default_methods
from nearfar.comparison import tasks as scoring
from nearfar.comparison.tasks import score_distance

EUCLIDEAN = Metric.identity(2)


@pytest.mark.parametrize("rounded", [False, True])
def test_against_all_triplets(rng, rounded):
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 3
    X = X.round() if rounded else X
    metric = Metric([[1.0, 0.5]])
    (gallery, codes), (test, asked) = (X[:20], y[:20]), (X[20:], y[20:])
    # Sums of whole numbers are exact, so that L1 has ties.
    methods = {each.name: each for each in default_methods({"it": Fixed(metric)})}
    method = methods["L1" if rounded else "it"]
    found = score_distance(
        method.fit(gallery, codes), (gallery, codes), (test, asked), n_neighbors=3
    )
    difference = np.abs(test[:, None] - gallery).sum(axis=2)
    table = difference if rounded else metric.distances(test, gallery)
    shares = []
    for row, code in zip(table, asked, strict=True):
        order = [
            np.sign(row[far] - row[near])
            for near, far in product(np.flatnonzero(codes == code), np.flatnonzero(codes != code))
        ]
        shares.append((np.mean(order) + 1) / 2)
    assert 1 - np.nanmean(found["triplet_accuracy"]) == pytest.approx(np.mean(shares), abs=1e-9)
    if not rounded:
        expected = measures.map_at_r(metric, gallery, codes, X_query=test, y_query=asked)
        assert 1 - np.nanmean(found["map_at_r"]) == pytest.approx(expected)
        error = measures.knn_error(metric, gallery, codes, test, asked)
        assert found["error"].mean() == pytest.approx(error)


def test_classes_missing_from_the_gallery_are_errors_and_are_not_ranked():
    gallery = np.array([[0.0], [1.0], [2.0]]), np.array([0, 0, 1])
    test = np.array([[0.1], [5.0]]), np.array([0, 2])
    found = score_distance(Metric.identity(1), gallery, test, n_neighbors=1)
    assert found["error"].tolist() == [0, 1]
    assert np.isnan(found["map_at_r"]).tolist() == [False, True]


def test_large_folds_are_sampled(monkeypatch, rng):
    data = rng.normal(size=(40, 2)), np.arange(40) % 2
    monkeypatch.setattr(scoring, "_RANKED_DISTANCES", 1)
    monkeypatch.setattr(scoring, "_RANKED_ROWS", 7)
    monkeypatch.setattr(scoring, "_CLASSIFIED_DISTANCES", 1)
    monkeypatch.setattr(scoring, "_CLASSIFIED_ROWS", 30)
    found = score_distance(EUCLIDEAN, data, data, n_neighbors=1)
    assert np.count_nonzero(~np.isnan(found["map_at_r"])) == 7
    assert np.count_nonzero(~np.isnan(found["error"])) == 30
    assert np.nanmean(found["error"]) == 0
