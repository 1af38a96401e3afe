"""Tiles of pairs against full tables, whatever their size."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar.numerics.pair_tiles import Embedded, PairTiles, Voted, largest_squared_distance
from problems import labelled


def test_bands_cover_every_row_of_classes_with_company(tile_size):
    y = np.array([3, 0, 0, 7, 3, 3, 5, 0])
    order = PairTiles(y)
    rows = np.concatenate([np.arange(b.rows.start, b.rows.stop) for b in order.bands])
    assert (np.diff(rows) > 0).all()
    assert sorted(y[order.order][rows].tolist()) == [0, 0, 0, 3, 3, 3]
    for band in order.bands:
        classes = y[order.order]
        inside = classes[band.near]
        assert (len(set(inside)) > 1) == (band.codes is not None)
        assert np.isin(classes, inside).sum() == len(inside)


@pytest.mark.parametrize("signs", [[1.0, 1.0, 1.0], [1.0, -1.0, 1.0]])
@pytest.mark.parametrize("near_sign", [1.0, -1.0])
def test_weights_equal_a_full_table(tile_size, signs, near_sign):
    X, y, rng = labelled(n_features=3)
    order = PairTiles(y)
    P, classes = X[order.order], y[order.order]
    form = Embedded(P, np.array(signs))
    H = ((P[:, None] - P[None]) ** 2 @ np.array(signs)).reshape(len(P), len(P))
    a, b = rng.standard_normal((2, len(P)))
    same = classes[:, None] == classes
    expected = np.exp(np.where(same, near_sign * H - a[:, None], -H - b[:, None]))
    np.fill_diagonal(expected, 0.0)
    for band in order.bands:
        whole = order.whole(band, lambda tile: form.weights(tile, a, b, near_sign=near_sign))
        np.testing.assert_allclose(whole, expected[band.rows], rtol=1e-12)


def test_votes_equal_a_full_table(tile_size):
    X, y, _ = labelled()
    order = PairTiles(y)
    P, classes = X[order.order], y[order.order]
    votes = Voted(Embedded(P[:, :1], np.ones(1)), np.empty((0, 60)), np.empty(0), np.empty(0))
    votes = votes.with_vote(P[:, 1], 0.3, 0.7).with_vote(P[:, 2], 1.1, -0.4)
    square = (P[:, None] - P[None]) ** 2
    H = square[..., 0] + 0.7 * (square[..., 1] >= 0.3) - 0.4 * (square[..., 2] >= 1.1)
    expected = np.exp(np.where(classes[:, None] == classes, H, -H))
    np.fill_diagonal(expected, 0.0)
    for band in order.bands:
        whole = order.whole(band, votes.weights)
        np.testing.assert_allclose(whole, expected[band.rows], rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_laplacian_and_scatter_equal_loops(tile_size, dtype):
    X, y, rng = labelled(dtype=dtype)
    order = PairTiles(y)
    W = rng.standard_normal((60, 60)).astype(dtype)
    T = rng.standard_normal((60, 2)).astype(dtype)
    active = np.zeros(60, dtype=bool)
    for band in order.bands:
        active[band.rows] = True
    W[~active] = 0.0
    weights = W + W.T
    L = np.diag(weights.sum(axis=1)) - weights
    tolerance = 1e-12 if dtype == np.float64 else 1e-3

    def weights_of(tile):
        weights = W[tile.rows, tile.columns].copy()
        tile.fill_excluded(weights, 0.0)
        return weights

    product = order.laplacian(weights_of, T)
    np.testing.assert_allclose(product, L @ T, atol=tolerance * 100)
    np.testing.assert_allclose(
        order.scatter_matrix(weights_of, X), X.T @ L @ X, atol=tolerance * 1000
    )
    constants = order.laplacian(weights_of, np.ones((60, 1), dtype))
    np.testing.assert_allclose(constants, 0.0, atol=tolerance * 10)
    classes = y[order.order]
    W[classes[:, None] == classes] *= -1
    weights = W + W.T
    L = np.diag(weights.sum(axis=1)) - weights
    W[classes[:, None] == classes] *= -1
    product = order.laplacian(weights_of, T, near_sign=-1.0)
    np.testing.assert_allclose(product, L @ T, atol=tolerance * 100)
    A = order.scatter_matrix(weights_of, X, near_sign=-1.0)
    np.testing.assert_allclose(A, X.T @ L @ X, atol=tolerance * 1000)


def test_largest_squared_distance(tile_size, rng):
    X = rng.standard_normal((30, 3)) + 100
    expected = ((X[:, None] - X[None]) ** 2).sum(-1).max()
    assert largest_squared_distance(X) == pytest.approx(expected)
