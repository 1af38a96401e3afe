"""Triplets as edges, against explicit differences."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar import open_rows
from nearfar.numerics.edges import _QUANTILES, TripletEdges
from references.boostmetric import triplet_matrices


@pytest.mark.parametrize("weighted", [False, True])
def test_margins_and_matrix_equal_explicit_differences(rng, weighted):
    X = rng.standard_normal((20, 5))
    index = np.array([rng.choice(20, 3, replace=False) for _ in range(50)])
    weight = rng.random(50) if weighted else None
    triplets = TripletEdges(X, index, weight)
    A = triplet_matrices(X, index) / triplets.unit
    u, L = rng.standard_normal(50), rng.standard_normal((18, 5))
    np.testing.assert_allclose(triplets.matrix(u), np.tensordot(u, A, 1), atol=1e-12)
    margins = triplets.factor_margins(L)
    np.testing.assert_allclose(margins, np.tensordot(A, L.T @ L), atol=1e-11)
    np.testing.assert_allclose(triplets.embedding_margins(triplets.embed(L)), margins, atol=1e-11)
    assert u @ margins == pytest.approx((triplets.matrix(u) * (L.T @ L)).sum(), abs=1e-9)
    anchor, near, far = index.T
    squares = ((X[anchor] - X[near]) ** 2).sum(1) + ((X[anchor] - X[far]) ** 2).sum(1)
    assert triplets.unit == pytest.approx(np.average(squares / 2, weights=weight))
    assert len(triplets) == 5


@pytest.mark.parametrize("unit", ["mean", *_QUANTILES])
def test_points_that_are_equal_have_a_unit_of_one(unit):
    triplets = TripletEdges(np.ones((5, 3)), np.array([[0, 1, 2], [2, 3, 4]]), unit=unit)
    assert triplets.unit == 1.0
    np.testing.assert_array_equal(triplets.factor_margins(np.eye(3)), [0.0, 0.0])


@pytest.mark.parametrize("unit", ["mean", 0.25])
def test_margins_from_disk_have_the_same_unit(rng, unit, tmp_path):
    X = rng.standard_normal((20, 5))
    index = np.array([rng.choice(20, 3, replace=False) for _ in range(50)])
    np.save(tmp_path / "X.npy", X)
    L = rng.standard_normal((3, 5))
    inside = TripletEdges(X, index, unit=unit)
    outside = TripletEdges(open_rows(tmp_path / "X.npy"), index, unit=unit)
    assert outside.unit == pytest.approx(inside.unit)
    np.testing.assert_allclose(outside.factor_margins(L), inside.factor_margins(L), rtol=1e-10)
