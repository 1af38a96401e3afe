"""Soft neighbours against loops, full tables and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.datasets import load_iris
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from nearfar.learners.nca.soft_neighbors import SoftNeighbors
from nearfar.runtime.threads import limited_threads
from problems import labelled, log_probabilities, points_with_a_single, set_bands
from references import msnca as reference


def expected(rows, log_p):
    p = np.exp(log_p)
    return p, p


def likelihood(rows, log_p):
    return log_p, np.ones(log_p.shape)


class Coupled:
    """Log of a mean of the maps' probabilities that differs from point to point."""

    def __init__(self, rng, n, n_maps):
        self.log_share = rng.standard_normal((n, n_maps))

    def __call__(self, rows, log_p):
        joint = self.log_share[rows] + log_p
        total = logsumexp(joint, axis=1)
        return total[:, None], np.exp(joint - total[:, None])


def brute_force(points, maps, gain):
    """Value and gradients by the matrices, from tables of all pairs and their differences."""
    X, same = points.X.astype(np.float64), points.classes.codes[:, None] == points.classes.codes
    differences = X[:, None] - X[None]
    counted = np.flatnonzero(points.counted)
    log_p, of_all, of_near = [], [], []
    for L in maps:
        H = ((differences @ L.T) ** 2).sum(axis=-1)
        np.fill_diagonal(H, np.inf)
        near = np.where(same, H, np.inf)
        log_all, log_near = (logsumexp(-h[counted], axis=1) for h in (H, near))
        log_p.append(log_near - log_all)
        of_all.append(np.exp(-H[counted] - log_all[:, None]))
        of_near.append(np.exp(-near[counted] - log_near[:, None]))
    values, g = gain(counted, np.column_stack(log_p))
    by_matrix = []
    for all_weights, near_weights, column in zip(of_all, of_near, g.T, strict=True):
        W = column[:, None] * (all_weights - near_weights)
        apart = differences[counted]
        by_matrix.append(np.einsum("ij,ijk,ijl->kl", W, apart, apart))
    return values.sum(), by_matrix


def close(found, reference, tolerance):
    size = tolerance * (1 + np.abs(reference).max())
    np.testing.assert_allclose(found, reference, rtol=0, atol=size)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("ranks", [(1,), (5,), (1, 4, 2)])
def test_several_maps_at_once(band_rows, dtype, scale, ranks):
    X, y, rng = points_with_a_single(0, n_features=5)
    points = SoftNeighbors(X.astype(dtype), y)
    maps = [scale * rng.standard_normal((rank, 5)) for rank in ranks]
    for gain in (expected, likelihood, Coupled(rng, len(X), len(ranks))):
        check_gradients(points, maps, gain, scale)


def check_gradients(points, maps, gain, scale):
    value, by_matrix = brute_force(points, maps, gain)
    found = points.evaluate(maps, gain)
    # In float32 a squared distance is known to the rounding of the squared norms.
    tolerance = 1e-11 if points.X.dtype == np.float64 else 2e-5 * max(1.0, scale**2)
    close(found.value, value, tolerance)
    for L, ours, M_slope, theirs in zip(
        maps, found.by_map, found.by_matrix, by_matrix, strict=True
    ):
        close(ours, 2 * L @ theirs, tolerance)
        assert (M_slope is None) == (2 * len(L) < 5)
        if M_slope is not None:
            close(M_slope, theirs, tolerance)
    if not isinstance(gain, Coupled):
        alone = [points.evaluate([L], gain) for L in maps]
        close(found.value, sum(one.value for one in alone), tolerance)
        for one, ours in zip(alone, found.by_map, strict=True):
            close(ours, one.by_map[0], tolerance)


@pytest.mark.parametrize("scale", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_probabilities_and_gradients_equal_loops(scale, rank):
    X, y, rng = points_with_a_single(0)
    L = scale * rng.standard_normal((rank, 3))
    points = SoftNeighbors(X, y)
    log_p = log_probabilities(points, L)
    assert (log_p[~points.counted] == 0).all()
    p = np.exp(log_p[points.counted])
    assert p.sum() == pytest.approx(reference.nca_objective(L, X, y), rel=1e-12)
    assert log_p.sum() == pytest.approx(reference.nca_log_objective(L, X, y), rel=1e-12)
    found = points.evaluate([L], expected)
    assert found.value == pytest.approx(p.sum(), rel=1e-12)
    close(found.by_map[0], reference.nca_gradient(L, X, y), 1e-10)
    found = points.evaluate([L], likelihood)
    assert found.value == pytest.approx(log_p.sum(), rel=1e-12)
    close(found.by_map[0], reference.nca_log_gradient(L, X, y), 1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_points_that_hardly_find_their_class(dtype):
    """1 - p or p is below rounding, with and without underflow."""
    for size in (5.0, 8.0, 30.0):
        X = np.array([[0.0], [size], [0.1], [size + 0.1], [0.2]], dtype=dtype)
        for y in ([0, 0, 1, 1, 1], [0, 1, 0, 1, 0]):
            points = SoftNeighbors(X, np.array(y))
            L = np.ones((1, 1))
            value, by_matrix = brute_force(points, [L], likelihood)
            found = points.evaluate([L], likelihood)
            assert found.value == pytest.approx(value, rel=1e-12 if dtype == np.float64 else 1e-4)
            close(found.by_matrix[0], by_matrix[0], 1e-12 if dtype == np.float64 else 1e-4)


@pytest.mark.parametrize("rank", [2, 4])
def test_the_objective_is_that_of_scikit_learn(rank):
    X, y = load_iris(return_X_y=True)
    L = np.random.default_rng(0).standard_normal((rank, 4))
    theirs = NeighborhoodComponentsAnalysis()
    theirs.n_iter_ = 0
    loss, gradient = theirs._loss_grad_lbfgs(L.ravel(), X, y[:, None] == y[None], -1.0)
    found = SoftNeighbors(X, y).evaluate([L], expected)
    assert -loss == pytest.approx(found.value, rel=1e-10)
    np.testing.assert_allclose(-gradient.reshape(L.shape), found.by_map[0], atol=1e-9)


@pytest.mark.parametrize("rank", [1, 4])
def test_the_number_of_threads_changes_no_bit(monkeypatch, rank):
    set_bands(monkeypatch, 5)
    X, y, rng = labelled(n=200)
    L = rng.standard_normal((rank, 4))
    results = []
    for n_jobs in (1, 2, 5):
        with limited_threads(n_jobs):
            found = SoftNeighbors(X, y).evaluate([L, 0.5 * L], expected)
        results.append((found.value, *(slope.tobytes() for slope in found.by_map)))
    assert len(set(results)) == 1


def test_single_precision_tiles_are_accurate_enough():
    X, y, rng = labelled(n=1500, n_features=12, n_classes=6)
    for scale in (0.1, 0.5, 2.0):
        L = scale * rng.standard_normal((12, 12))
        for gain in (expected, likelihood):
            double, single = (
                SoftNeighbors(X.astype(dtype), y).evaluate([L], gain)
                for dtype in (np.float64, np.float32)
            )
            assert single.value == pytest.approx(double.value, rel=1e-5)
            apart = np.linalg.norm(single.by_map[0] - double.by_map[0])
            assert apart < 1e-3 * np.linalg.norm(double.by_map[0])
