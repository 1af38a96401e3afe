from __future__ import annotations

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from nearfar import InverseCovariance
from problems import labelled
from references.closed_forms import shrink

X, Y, _ = labelled()


def test_the_inverse():
    expected = np.linalg.inv(np.cov(X, rowvar=False))
    for scale in ("standard", "unit", None):
        found = InverseCovariance(shrinkage=0.0, scale=scale).fit(X).metric_.matrix
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_shrinkage_as_in_scikit_learn(rng):
    """scikit-learn divides by the number of rows; an unbiased covariance by one less."""
    X = rng.standard_normal((30, 6)) * [1, 1, 2, 3, 4, 5]
    found = InverseCovariance(scale=None).fit(X).metric_.matrix
    share = ledoit_wolf_shrinkage(X) * 30 / 29
    expected = np.linalg.inv(shrink(np.cov(X, rowvar=False), share))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_components_are_whitened_principal_axes():
    found = InverseCovariance(shrinkage=0.0, scale=None, n_components=2).fit(X).transform(X)
    expected = PCA(2, whiten=True).fit_transform(X)
    np.testing.assert_allclose(np.abs(found - found.mean(axis=0)), np.abs(expected), rtol=1e-6)


@pytest.mark.parametrize("y", [None, Y, np.linspace(0, 1, len(X)), np.zeros(len(X)), "any"])
def test_labels_do_not_matter(y):
    first = InverseCovariance().fit(X).components_
    np.testing.assert_array_equal(InverseCovariance().fit(X, y).components_, first)


def test_before_a_regression():
    target = X @ [1.0, 2.0, 3.0, 4.0]
    pipeline = make_pipeline(InverseCovariance(), LinearRegression()).fit(X, target)
    assert pipeline.score(X, target) == pytest.approx(1.0)
