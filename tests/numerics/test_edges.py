from __future__ import annotations

import numpy as np
import pytest

from nearfar.numerics.edges import Edges
from nearfar.numerics.nearest_rows import ClassOrder


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_edges_equal_loops(dtype, rng):
    X = rng.standard_normal((12, 3)).astype(dtype)
    left, right = rng.integers(0, 6, 40), rng.integers(6, 12, 40)
    edges = Edges(X, np.append(left, right[:5]), np.append(right, left[:5]))
    assert len(edges) == len(set(zip(left, right, strict=True)))
    np.testing.assert_array_equal(edges.of_pair[40:], edges.of_pair[:5])
    tolerance = 1e-12 if dtype == np.float64 else 1e-4
    v, w = rng.standard_normal(3), rng.standard_normal(len(edges))
    difference = X[left] - X[right]
    lengths = edges.lengths(v)[edges.of_pair[:40]]
    np.testing.assert_allclose(lengths, (difference @ v) ** 2, atol=tolerance)
    squared = edges.squared_distances(X)[edges.of_pair[:40]]
    np.testing.assert_allclose(squared, (difference**2).sum(axis=1), atol=tolerance)
    kept, first = np.unique(edges.of_pair[:40], return_index=True)
    expected = np.einsum("k,ki,kj", w[kept], *[difference[first].astype(float)] * 2)
    np.testing.assert_allclose(edges.matrix(w), expected, atol=10 * tolerance)
    np.testing.assert_allclose(
        edges.operator(w) @ v.astype(dtype), expected @ v, atol=10 * tolerance
    )


def test_sums_of_pairs():
    edges = Edges(np.eye(4), np.array([0, 2, 1, 3]), np.array([1, 3, 0, 0]))
    assert edges.sum_of_pairs(np.array([1.0, 2.0, 4.0, 8.0])).tolist() == [5.0, 8.0, 2.0]


def test_rows_in_class_order():
    classes = ClassOrder(np.array([7, 3, 7, 5, 3, 7]))
    assert classes.order.tolist() == [1, 4, 3, 0, 2, 5]
    assert classes.edges.tolist() == [0, 2, 3, 6]
    assert classes.codes.tolist() == [0, 0, 1, 2, 2, 2]
    assert classes.sizes.tolist() == [2, 1, 3]
    assert classes.size_of_each.tolist() == [2, 2, 1, 3, 3, 3]
