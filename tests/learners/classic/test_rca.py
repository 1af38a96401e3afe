from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh, fractional_matrix_power

from nearfar import LDA, LFDA, RCA, Chunklets, Pairs
from problems import labelled, points_with_a_single
from references.closed_forms import shrink, within_covariance


@pytest.mark.parametrize("seed", [0, 1])
def test_whitens_within_classes(seed):
    X, y, _ = points_with_a_single(seed)
    C = within_covariance(X, y)
    root = fractional_matrix_power(C, -0.5)
    learner = RCA(shrinkage=0.0).fit(X, y)
    np.testing.assert_allclose(learner.metric_.matrix, root @ root, rtol=1e-6, atol=1e-8)
    turn = learner.components_ @ np.linalg.inv(root)
    np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-6)
    np.testing.assert_allclose(within_covariance(learner.transform(X), y), np.eye(3), atol=1e-6)


def test_shrinkage():
    X, y, _ = labelled()
    expected = np.linalg.inv(shrink(within_covariance(X, y), 0.1))
    found = RCA(shrinkage=0.1, scale=None).fit(X, y).metric_.matrix
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_components_maximise_the_ratio_of_variances():
    X, y, _ = labelled()
    _, vectors = eigh(np.cov(X, rowvar=False), within_covariance(X, y))
    expected = vectors[:, :1:-1]
    found = RCA(shrinkage=0.0, n_components=2).fit(X, y).components_
    np.testing.assert_allclose(np.abs(found), np.abs(expected.T), rtol=1e-5, atol=1e-7)


def test_rows_outside_chunklets_only_tell_the_span():
    X, y, _ = labelled()
    ids = np.where(np.arange(len(X)) < 20, y, -1)
    found = RCA(shrinkage=0.0).fit(X, Chunklets(ids)).metric_.matrix
    expected = np.linalg.inv(within_covariance(X[:20], y[:20]))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_pairs_are_joined():
    X, _, _ = labelled()
    pairs = Pairs([[0, 1], [2, 1], [5, 6], [7, 8], [0, 9]], [True, True, True, True, False])
    ids = np.full(len(X), -1)
    ids[[0, 1, 2]], ids[[5, 6]], ids[[7, 8]] = 3, 1, 0
    learner = RCA(scale="standard")
    first = learner.fit(X, pairs).metric_.matrix
    np.testing.assert_allclose(learner.fit(X, Chunklets(ids)).metric_.matrix, first, rtol=1e-10)


@pytest.mark.parametrize("learner", [RCA, LFDA, LDA])
def test_a_singular_covariance_that_is_not_shrunk_is_warned_of(learner):
    X = np.random.default_rng(0).standard_normal((12, 11))
    y = np.arange(12) % 3
    with pytest.warns(UserWarning, match="within groups is singular: its rank is 9, in 11 dim"):
        learner(shrinkage=0.0, scale=None).fit(X, y)
    learner(scale=None).fit(X, y)
    learner(shrinkage=0.0, scale=None).fit(X[:, :4], y)
