"""The basis of a kernel against exact residuals and the kernel itself."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from nearfar import MatchingPursuitBasis
from references import maxmargin as reference


class TestBasis:
    @pytest.mark.parametrize("gamma", [0.05, 0.5, 5.0])
    def test_residuals_are_exact(self, gamma):
        X = StandardScaler().fit_transform(load_wine().data)[::2]
        K = rbf_kernel(X, gamma=gamma)
        basis = MatchingPursuitBasis(gamma=gamma, n_components=20).fit(X)
        indices, totals = reference.greedy_basis(K, 20)[:2]
        np.testing.assert_array_equal(basis.indices_, indices)
        assert (np.diff(basis.residuals_) < 0).all()
        for t in (1, 5, 20):
            B = basis.indices_[:t]
            exact = np.trace(K) - np.trace(np.linalg.solve(K[np.ix_(B, B)], K[B] @ K[:, B]))
            assert basis.residuals_[t] == pytest.approx(exact, rel=1e-9)
        np.testing.assert_allclose(basis.residuals_[1:], np.asarray(totals)[-20:], rtol=1e-9)

    def test_features_reproduce_the_kernel(self):
        X = StandardScaler().fit_transform(load_iris().data)
        features = MatchingPursuitBasis(gamma=1.0, n_components=150).fit_transform(X)
        assert features.shape[1] < 150
        np.testing.assert_allclose(features @ features.T, rbf_kernel(X, gamma=1.0), atol=1e-6)
        expected = reference.basis_features(
            rbf_kernel(X[:5], gamma=1.0), rbf_kernel(X, X[:5], gamma=1.0)
        )
        five = MatchingPursuitBasis(gamma=1.0, n_components=5).fit(X[:5])
        order = np.argsort(five.indices_)
        np.testing.assert_allclose(five.transform(X)[:, order], expected, atol=1e-10)

    @pytest.mark.parametrize(("loader", "number"), [(load_wine, 100), (load_iris, 25)])
    def test_better_than_a_random_basis(self, loader, number):
        X = StandardScaler().fit_transform(loader().data)
        K = rbf_kernel(X)

        def error(features):
            return np.linalg.norm(K - features @ features.T)

        ours = error(MatchingPursuitBasis(n_components=number).fit_transform(X))
        drawn = [
            error(Nystroem(n_components=number, random_state=seed).fit_transform(X))
            for seed in range(10)
        ]
        assert ours < np.mean(drawn)

    def test_the_paper_variant(self):
        X = StandardScaler().fit_transform(load_wine().data)[::3]
        K = rbf_kernel(X)
        basis = MatchingPursuitBasis(variant="paper", n_components=15, random_state=0).fit(X)
        np.testing.assert_allclose(basis.transform(X), K[:, basis.indices_])
        for t in range(1, 16):
            left = reference.printed_beta(K, basis.indices_[:t])[1]
            assert basis.residuals_[t] == pytest.approx(np.maximum(left, 0).sum(), rel=1e-9)
        indices, _ = reference.printed_basis(K, 15, int(basis.indices_[0]))
        np.testing.assert_array_equal(basis.indices_, indices)
        again = MatchingPursuitBasis(variant="paper", n_components=15, random_state=1).fit(X)
        assert again.indices_[0] != basis.indices_[0]

    def test_repeated_rows_end_it(self):
        X = np.repeat(np.eye(3), 4, axis=0)
        basis = MatchingPursuitBasis(n_components=10).fit(X)
        assert len(basis.indices_) == 3
        assert basis.residuals_[-1] == pytest.approx(0.0, abs=1e-9)
