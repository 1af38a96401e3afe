from __future__ import annotations

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf_shrinkage

from nearfar import Pairs
from nearfar.learners.classic import scatter
from nearfar.learners.classic.scatter import (
    Evidence,
    Groups,
    discriminants,
    pair_scatters,
    shrunk,
)
from nearfar.supervision import Supervision
from problems import labelled, points_with_a_single
from references.closed_forms import all_pairs, pair_means, shrink, within_covariance


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(scatter, "_BLOCK_ROWS", 7)


def scatter_of(X, supervision, shrinkage):
    known = Supervision.of(supervision, len(X))
    return pair_scatters(Evidence.of_pairs(X, known), shrinkage)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_groups(dtype):
    X, y, rng = labelled(dtype=dtype)
    codes = np.where(rng.random(len(y)) < 0.2, -1, y)
    groups, weight = Groups(X, codes), np.array([1.0, 0.5, 3.0])
    X = X.astype(np.float64)
    S, spread, free = np.zeros((4, 4)), np.zeros((4, 4)), 0.0
    means = np.array([X[codes == c].mean(axis=0) for c in range(3)])
    middle = weight @ means / weight.sum()
    for c in range(3):
        rows = X[codes == c]
        assert groups.sizes[c] == len(rows)
        S += weight[c] * sum(np.outer(x - means[c], x - means[c]) for x in rows)
        free += weight[c] * (len(rows) - 1)
        spread += weight[c] * np.outer(means[c] - middle, means[c] - middle)
    assert groups.within(weight).dtype == np.float64
    np.testing.assert_allclose(groups.means, means, rtol=1e-10)
    np.testing.assert_allclose(groups.scatter(weight), S, rtol=1e-10)
    np.testing.assert_allclose(groups.within(weight), S / free, rtol=1e-10)
    np.testing.assert_allclose(groups.between(weight), spread, atol=1e-12)
    np.testing.assert_allclose(Groups(X).within(), np.cov(X, rowvar=False))


def test_the_pooled_covariance():
    X, y, _ = points_with_a_single(0)
    codes = np.unique(y, return_inverse=True)[1]
    np.testing.assert_allclose(Groups(X, codes).within(), within_covariance(X, y))


def test_all_rows_shrink_as_in_scikit_learn():
    X, _, _ = labelled(n=40, n_features=8)
    groups, n = Groups(X), len(X)
    found = groups.intensity("auto", groups.within())
    assert found == pytest.approx(ledoit_wolf_shrinkage(X) * n / (n - 1))
    assert 0 < found < 1


def test_groups_of_two_shrink_as_their_differences(rng):
    X = rng.standard_normal((40, 3)) * [1, 2, 3]
    groups = Groups(X, np.arange(40) // 2)
    found = groups.intensity("auto", groups.within())
    differences = (X[::2] - X[1::2]) / np.sqrt(2)
    assert found == pytest.approx(ledoit_wolf_shrinkage(differences, assume_centered=True))
    assert 0 < found < 1


def test_a_given_shrinkage_is_taken(rng):
    X = rng.standard_normal((20, 3))
    groups = Groups(X)
    S = groups.within()
    for share in (0.0, 0.3, 1.0):
        np.testing.assert_allclose(groups.shrunk_within(share), shrink(S, share))
    estimate = groups.intensity("auto", S)
    np.testing.assert_allclose(groups.shrunk_within("auto"), shrink(S, estimate))
    assert groups.common_intensity(0.3, S) == 0.3


def test_the_common_shrinkage_is_the_smaller_one(rng):
    y = np.arange(200) % 2
    X = rng.standard_normal((200, 6))
    X[:, 0] += 5 * y
    groups = Groups(X, y)
    within = groups.within()
    found = groups.common_intensity("auto", within)
    assert found == Groups(X).intensity("auto", Groups(X).within())
    assert found < groups.intensity("auto", within)


@pytest.mark.parametrize("shrinkage", [0.0, 0.2, "auto"])
def test_labels_are_all_their_pairs(shrinkage):
    X, y, _ = points_with_a_single(1)
    codes = np.unique(y, return_inverse=True)[1]
    index, similar = all_pairs(y)
    found = scatter_of(X, codes, shrinkage)
    listed = scatter_of(X, Pairs(index, similar), shrinkage)
    np.testing.assert_allclose(found[0], listed[0], rtol=1e-10)
    np.testing.assert_allclose(found[1], listed[1], rtol=1e-10)
    if shrinkage != "auto":
        for S, expected in zip(found, pair_means(X, index, similar), strict=True):
            np.testing.assert_allclose(S, shrink(expected, shrinkage), rtol=1e-10)


def test_weights_of_pairs_are_repetitions():
    X, y, rng = labelled(n=12)
    index, similar = all_pairs(y)
    weight = rng.integers(0, 4, len(index))
    weighted = scatter_of(X, Pairs(index, similar, weight.astype(float)), 0.0)
    repeated = scatter_of(X, Pairs(index.repeat(weight, 0), similar.repeat(weight)), 0.0)
    expected = pair_means(X, index, similar, weight)
    for found in (weighted, repeated):
        np.testing.assert_allclose(found[0], expected[0])
        np.testing.assert_allclose(found[1], expected[1])


def test_discriminants_diagonalise_both(rng):
    A, B = (np.cov(rng.standard_normal((4, 9))) for _ in range(2))
    values, L = discriminants(A, B)
    assert (np.diff(values) < 0).all()
    np.testing.assert_allclose(L @ B @ L.T, np.eye(4), atol=1e-8)
    np.testing.assert_allclose(L @ A @ L.T, np.diag(values), atol=1e-8)


def test_singular_covariances_have_discriminants():
    values, L = discriminants(np.eye(3), np.diag([1.0, 1.0, 0.0]))
    assert np.isfinite(values).all()
    np.testing.assert_allclose(np.abs(L[0] / np.linalg.norm(L[0])), [0, 0, 1], atol=1e-8)


def test_shrinking_keeps_its_argument(rng):
    S = np.cov(rng.standard_normal((3, 9)))
    before = S.copy()
    shrunk(S, 0.5)
    np.testing.assert_array_equal(S, before)
