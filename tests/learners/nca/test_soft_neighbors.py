"""Soft neighbours against loops and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from nearfar.learners.nca.soft_neighbors import SoftNeighbors
from problems import points_with_a_single
from references import msnca as reference


@pytest.mark.parametrize("scale", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_probabilities_and_gradients_equal_loops(scale, rank):
    X, y, rng = points_with_a_single(0)
    L = scale * rng.standard_normal((rank, 3))
    points = SoftNeighbors(X, y)
    probabilities = points.probabilities(L)
    p = np.where(points.counted, np.exp(probabilities.log_p), 0.0)
    assert p.sum() == pytest.approx(reference.nca_objective(L, X, y), rel=1e-12)
    log_sum = probabilities.log_p[points.counted].sum()
    assert log_sum == pytest.approx(reference.nca_log_objective(L, X, y), rel=1e-12)
    expected = reference.nca_gradient(L, X, y)
    size = 1 + np.abs(expected).max()
    np.testing.assert_allclose(points.gradient(probabilities, p, L), expected, atol=1e-10 * size)
    expected = reference.nca_log_gradient(L, X, y)
    size = 1 + np.abs(expected).max()
    ones = np.ones(len(X))
    np.testing.assert_allclose(points.gradient(probabilities, ones, L), expected, atol=1e-10 * size)


@pytest.mark.parametrize("rank", [2, 4])
def test_the_objective_is_that_of_scikit_learn(rank):
    X, y = load_iris(return_X_y=True)
    L = np.random.default_rng(0).standard_normal((rank, 4))
    theirs = NeighborhoodComponentsAnalysis()
    theirs.n_iter_ = 0
    loss, gradient = theirs._loss_grad_lbfgs(L.ravel(), X, y[:, None] == y[None], -1.0)
    points = SoftNeighbors(X, y)
    probabilities = points.probabilities(L)
    p = np.exp(probabilities.log_p)
    assert -loss == pytest.approx(p.sum(), rel=1e-10)
    ours = points.gradient(probabilities, p, L)
    np.testing.assert_allclose(-gradient.reshape(L.shape), ours, atol=1e-9)
