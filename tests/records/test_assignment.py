"""Matches from pairs, against dense solvers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import squareform

from nearfar.records.matcher import clusters, one_to_one


@pytest.mark.parametrize("seed", range(5))
def test_one_to_one_has_the_largest_sum(seed):
    rng = np.random.default_rng(seed)
    weight = np.where(rng.random((12, 9)) < 0.4, rng.normal(size=(12, 9)), 0.0)
    pairs = np.argwhere(weight != 0)
    chosen = one_to_one(pairs, weight[tuple(pairs.T)])
    left, right = pairs[chosen].T
    assert len(set(left)) == len(left)
    assert len(set(right)) == len(right)
    best = linear_sum_assignment(np.maximum(weight, 0), maximize=True)
    np.testing.assert_allclose(weight[left, right].sum(), np.maximum(weight, 0)[best].sum())
    assert (weight[left, right] > 0).all()


def test_one_to_one_without_pairs():
    assert len(one_to_one(np.empty((0, 2), dtype=int), np.empty(0))) == 0
    assert len(one_to_one(np.array([[0, 0]]), np.array([-1.0]))) == 0


@pytest.mark.parametrize("seed", range(8))
def test_clusters_are_those_of_dense_average_linkage(seed):
    rng = np.random.default_rng(seed)
    n = 25
    pairs = np.argwhere(np.triu(rng.random((n, n)) < 0.3, 1))
    scores = rng.normal(size=len(pairs))
    dense = np.full((n, n), scores.min())
    dense[tuple(pairs.T)] = scores
    dense = np.triu(dense, 1) + np.triu(dense, 1).T
    distances = squareform(scores.max() - dense, checks=False)
    threshold = 0.3
    expected = fcluster(linkage(distances, "average"), scores.max() - threshold, "distance")
    found = clusters(pairs, scores, threshold, n)
    together = found[:, None] == found
    np.testing.assert_array_equal(together, expected[:, None] == expected)
    assert len(np.unique(found)) < n
    firsts = [int(np.flatnonzero(found == c)[0]) for c in range(found.max() + 1)]
    assert firsts == sorted(firsts)
