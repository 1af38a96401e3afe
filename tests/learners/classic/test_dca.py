from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.linalg import eigh

from nearfar import DCA, Pairs
from problems import labelled, points_with_a_single
from references.closed_forms import dca_covariances, shrink


def solve(between, within, rank):
    """Rows that maximise the ratio of determinants, the best first."""
    return eigh(between, within)[1].T[::-1][:rank]


def assert_same_up_to_scale(found, expected):
    """Rows agree but for signs, and one factor for all."""
    factor = np.linalg.norm(found) / np.linalg.norm(expected)
    np.testing.assert_allclose(np.abs(found), factor * np.abs(expected), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3, 9])
@pytest.mark.parametrize("shrinkage", [0.0, 0.1])
def test_labels(n_classes, shrinkage):
    X, y, _ = labelled(n=50, n_classes=n_classes)
    groups = [np.flatnonzero(y == c) for c in range(n_classes)]
    between, within = dca_covariances(X, groups, list(permutations(range(n_classes), 2)))
    rank = min(4, n_classes - 1)
    learner = DCA(shrinkage=shrinkage, scale=None).fit(X, y)
    assert learner.components_.shape == (rank, 4)
    assert_same_up_to_scale(learner.components_, solve(between, shrink(within, shrinkage), rank))


def test_a_class_of_one():
    X, y, _ = points_with_a_single(0)
    groups = [np.flatnonzero(y == c) for c in np.unique(y)]
    between, within = dca_covariances(X, groups, list(permutations(range(4), 2)))
    found = DCA(shrinkage=0.0, scale=None).fit(X, y).components_
    assert_same_up_to_scale(found, solve(between, within, 3))


def test_rounding_errors_do_not_tell_classes_apart(rng):
    """Four classes differ in three directions, whatever the condition of the covariance."""
    y = np.arange(300) % 4
    X = rng.standard_normal((300, 12)) * 10.0 ** (-np.arange(12) / 2)
    X[:, :2] += y[:, None]
    X @= np.linalg.qr(rng.standard_normal((12, 12)))[0]
    assert len(DCA(shrinkage=0.0, scale=None).fit(X, y).components_) <= 3


def test_pairs():
    """Chunklets {0 1 2}, {3 4}, {5 6 7} and the single row 8; those of rows 3 and 5 may be one."""
    X, _, _ = labelled(n_features=3)
    together = [[0, 1], [1, 2], [3, 4], [5, 6], [6, 7]]
    apart = [[0, 3], [1, 4], [2, 5], [8, 6], [3, 8], [3, 4]]
    pairs = Pairs(together + apart, [True] * 5 + [False] * 6)
    groups = [[0, 1, 2], [3, 4], [5, 6, 7], [8]]
    between, within = dca_covariances(X, groups, [(0, 1), (0, 2), (2, 3), (1, 3)])
    found = DCA(shrinkage=0.0, scale=None).fit(X, pairs).components_
    assert_same_up_to_scale(found, solve(between, within, 3))


def test_pairs_that_contradict_each_other():
    X, _, _ = labelled()
    pairs = Pairs([[0, 1], [1, 2], [0, 2]], [True, True, False])
    with pytest.raises(ValueError, match="joins rows that similar pairs put together"):
        DCA().fit(X, pairs)


def test_no_other_map_has_a_larger_ratio(rng):
    X, y, _ = labelled()
    groups = [np.flatnonzero(y == c) for c in range(3)]
    between, within = dca_covariances(X, groups, list(permutations(range(3), 2)))

    def ratio(L):
        return np.linalg.det(L @ between @ L.T) / np.linalg.det(L @ within @ L.T)

    L = DCA(shrinkage=0.0).fit(X, y).components_
    best = ratio(L)
    for _ in range(20):
        assert ratio(L + 0.1 * np.abs(L).mean() * rng.standard_normal(L.shape)) < best
