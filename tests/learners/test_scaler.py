from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from nearfar.learners import scaling as scaler
from nearfar.learners.scaling import Scaler

X = load_wine().data


@pytest.mark.parametrize("block", [7, 1 << 14])
def test_standard_units_are_those_of_scikit_learn(block, monkeypatch):
    monkeypatch.setattr(scaler, "_BLOCK_ROWS", block)
    found = Scaler.fit(X, "standard")
    np.testing.assert_allclose(found.transform(X), StandardScaler().fit_transform(X), atol=1e-12)


@pytest.mark.parametrize("scale", ["unit", None])
def test_other_units_keep_the_proportions_of_features(scale):
    found = Scaler.fit(X, scale)
    assert np.ptp(found.scale) == 0
    np.testing.assert_allclose(found.transform(X) * found.scale, X - X.mean(axis=0), atol=1e-9)


def test_none_keeps_the_units():
    assert (Scaler.fit(X, None).scale == 1).all()


@pytest.mark.parametrize("scale", ["standard", "unit", None])
def test_euclidean_is_the_distance_of_scaled_points(scale):
    found = Scaler.fit(X, scale)
    Z = found.transform(X)
    expected = np.linalg.norm(Z[:, None] - Z[None], axis=2)
    np.testing.assert_allclose(found.euclidean.distances(X), expected, atol=1e-9)


@pytest.mark.parametrize("factor", [1e-300, 1e-150, 1e150, 1e300])
def test_extreme_units_neither_overflow_nor_vanish(factor):
    expected = Scaler.fit(X, "standard").transform(X)
    found = Scaler.fit(X * factor, "standard").transform(X * factor)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_constant_features_are_centred_only():
    points = np.column_stack([X[:, 0], np.full(len(X), 5.0)])
    found = Scaler.fit(points, "standard").transform(points)
    assert not found[:, 1].any()
    assert not Scaler.fit(np.zeros((3, 2)), "unit").transform(np.zeros((3, 2))).any()


def test_float32_stays_float32():
    points = X.astype(np.float32)
    found = Scaler.fit(points, "standard").transform(points)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, Scaler.fit(X, "standard").transform(X), atol=1e-4)
