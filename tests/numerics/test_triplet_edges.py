"""Triplets as edges, against explicit differences."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar.numerics.triplet_edges import TripletEdges
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
