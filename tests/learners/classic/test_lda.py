from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from nearfar import LDA, Metric
from problems import labelled
from references.closed_forms import shrink


@pytest.mark.parametrize("load", [load_wine, load_digits])
def test_without_shrinkage_it_is_scikit_learns(load):
    X, y = load(return_X_y=True)
    theirs = LinearDiscriminantAnalysis().fit(X, y).transform(X)
    found = LDA(shrinkage=0.0).fit(X, y).metric_.distances(X[::9])
    expected = Metric.identity(theirs.shape[1]).distances(theirs[::9])
    factor = np.linalg.norm(found) / np.linalg.norm(expected)
    np.testing.assert_allclose(found, factor * expected, rtol=1e-5, atol=1e-6 * found.max())


@pytest.mark.parametrize("shrinkage", [0.0, 0.1])
def test_the_formula(shrinkage):
    X, y, _ = labelled(n=50, n_classes=3)
    within = sum(
        (X[y == c] - X[y == c].mean(0)).T @ (X[y == c] - X[y == c].mean(0)) for c in range(3)
    )
    within = shrink(within / (len(X) - 3), shrinkage)
    means = np.array([X[y == c].mean(0) for c in y])
    between = (means - means.mean(0)).T @ (means - means.mean(0)) / len(X)
    L = LDA(shrinkage=shrinkage, scale=None).fit(X, y).components_
    assert L.shape == (2, 4)
    size = L[0] @ within @ L[0]
    np.testing.assert_allclose(L @ within @ L.T, size * np.eye(2), atol=1e-8 * size)
    values = np.sort(np.linalg.eigvals(np.linalg.solve(within, between)).real)[::-1][:2]
    np.testing.assert_allclose(L @ between @ L.T, size * np.diag(values), atol=1e-8 * size)
