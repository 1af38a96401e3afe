from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh

from nearfar import KISSME, XQDA, Pairs
from problems import points_with_a_single, random_pairs
from references.closed_forms import all_pairs, pair_means, shrink


def kissme(S, D):
    """The formula in plain NumPy."""
    values, vectors = np.linalg.eigh(np.linalg.inv(S) - np.linalg.inv(D))
    return (vectors * np.maximum(values, 0)) @ vectors.T


def xqda(S, D, most=None):
    """KISSME in the space of generalised eigenvectors with eigenvalue above one."""
    values, vectors = eigh(D, S)
    W = vectors[:, ::-1][:, : most or (values > 1).sum()]
    M = np.linalg.inv(W.T @ S @ W) - np.linalg.inv(W.T @ D @ W)
    return W @ M @ W.T


def assert_same_matrix(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize(("cls", "formula"), [(KISSME, kissme), (XQDA, xqda)])
@pytest.mark.parametrize("shrinkage", [0.0, 0.1])
class TestFormula:
    @pytest.mark.parametrize("seed", [0, 1])
    def test_labels(self, cls, formula, shrinkage, seed):
        X, y, _ = points_with_a_single(seed)
        X = X @ np.diag([1.0, 2.0, 3.0])
        X[:, 0] += y
        S, D = (shrink(A, shrinkage) for A in pair_means(X, *all_pairs(y)))
        found = cls(shrinkage=shrinkage, scale=None).fit(X, y).metric_.matrix
        assert_same_matrix(found, formula(S, D))

    @pytest.mark.parametrize("weighted", [False, True])
    def test_pairs(self, cls, formula, shrinkage, weighted):
        X, pairs = random_pairs(3, weighted=weighted)
        S, D = pair_means(X, pairs.index, pairs.similar, pairs.weight)
        S, D = shrink(S, shrinkage), shrink(D, shrinkage)
        found = cls(shrinkage=shrinkage, scale=None).fit(X, pairs).metric_.matrix
        assert_same_matrix(found, formula(S, D))


def test_negative_eigenvalues_are_dropped():
    X, pairs = random_pairs(3)
    S, D = pair_means(X, pairs.index, pairs.similar)
    negative = (np.linalg.eigvalsh(np.linalg.inv(S) - np.linalg.inv(D)) < 0).sum()
    assert negative > 0
    assert KISSME(shrinkage=0.0, scale=None).fit(X, pairs).metric_.n_components == 4 - negative
    below = (eigh(D, S, eigvals_only=True) < 1).sum()
    assert XQDA(shrinkage=0.0, scale=None).fit(X, pairs).metric_.n_components == 4 - below


def test_a_smaller_subspace():
    X, y, _ = points_with_a_single(0)
    X[:, 0] += y
    S, D = pair_means(X, *all_pairs(y))
    found = XQDA(shrinkage=0.0, scale=None, n_components=1).fit(X, y).metric_.matrix
    assert_same_matrix(found, xqda(S, D, most=1))


@pytest.mark.parametrize("cls", [KISSME, XQDA])
def test_fewer_pairs_than_features(cls, rng):
    X = rng.standard_normal((50, 20))
    pairs = Pairs([[0, 1], [2, 3], [0, 2], [4, 5]], [True, True, False, False])
    for shrinkage in (0.0, "auto"):
        learner = cls(shrinkage=shrinkage).fit(X, pairs)
        assert np.isfinite(learner.transform(X)).all()
