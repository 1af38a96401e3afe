"""Bands of pairs against full tables, however many rows they have."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from nearfar.numerics import pair_tiles
from nearfar.numerics.pair_tiles import Embedded, PairTiles, largest_squared_distance
from problems import labelled, points_with_a_single

TOLERANCE = {np.float64: 1e-12, np.float32: 2e-5}


class Table:
    """All pairs at once: points in class order, two of them equal and one alone in its class."""

    def __init__(self, dtype=np.float64, signs=(1.0, 1.0, 1.0)):
        X, y, self.rng = points_with_a_single(0)
        self.pairs = PairTiles(y)
        self.P, classes = X[self.pairs.order].astype(dtype), y[self.pairs.order]
        self.form = Embedded(self.P, np.array(signs))
        P = self.P.astype(np.float64)
        self.H = (P[:, None] - P[None]) ** 2 @ np.array(signs)
        self.same = classes[:, None] == classes
        self.near = self.same & ~np.eye(len(P), dtype=bool)
        self.company = self.near.any(axis=1)

    def exponents(self, a, b, near_sign):
        return np.where(self.same, near_sign * self.H - a[:, None], -self.H - b[:, None])


def test_bands_cover_every_row_of_classes_with_company(band_rows):
    y = np.array([3, 0, 0, 7, 3, 3, 5, 0, 3])
    pairs = PairTiles(y)
    classes = y[pairs.order]
    rows = np.concatenate([np.arange(b.rows.start, b.rows.stop) for b in pairs.bands])
    assert (np.diff(rows) > 0).all()
    assert classes[rows].tolist() == [0, 0, 0, 3, 3, 3, 3]
    for band in pairs.bands:
        assert 1 <= band.height <= band_rows
        near = np.zeros((band.height, len(y)), dtype=int)
        for block in band.near:
            near[block] += 1
        np.testing.assert_array_equal(near, classes[band.rows, None] == classes)


def test_classes_of_one_have_no_bands():
    pairs = PairTiles(np.arange(4))
    assert pairs.bands == []
    with pytest.raises(ValueError, match="No class has two members"):
        pairs.sum(lambda band: ())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("signs", [(1.0, 1.0, 1.0), (1.0, -1.0, 1.0)])
@pytest.mark.parametrize("near_sign", [1.0, -1.0])
def test_weights_equal_a_full_table(band_rows, dtype, signs, near_sign):
    table = Table(dtype, signs)
    a, b = table.rng.standard_normal((2, len(table.P)))
    expected = np.exp(table.exponents(a, b, near_sign))
    near = np.where(table.near, expected, 0.0)
    far = np.where(table.same, 0.0, expected)
    T = table.rng.standard_normal((len(table.P), 2)).astype(dtype)
    tolerance = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    for band in table.pairs.bands:
        rows = band.rows
        weights = table.form.weights(band, a, b, near_sign=near_sign)
        assert weights.far.dtype == dtype
        np.testing.assert_allclose(weights.far, far[rows], **tolerance)
        assert not weights.far[table.same[rows]].any()
        for block, values in zip(band.near, weights.near, strict=True):
            np.testing.assert_allclose(values, near[rows][block], **tolerance)
        for got, whole in zip(weights.row_sums(), (near, far), strict=True):
            np.testing.assert_allclose(got, whole[rows].sum(axis=1), **tolerance)
        for got, whole in zip(weights.products(T), (near, far), strict=True):
            np.testing.assert_allclose(got, whole[rows] @ T, **tolerance)
        c, d = table.rng.standard_normal((2, band.height))
        merged = weights.merged(c, d)
        whole = near[rows] * c[:, None] + far[rows] * d[:, None]
        np.testing.assert_allclose(merged, whole, **tolerance)
        np.testing.assert_allclose(
            table.form.weights(band, a, b, near_sign=near_sign).merged(),
            far[rows] - near[rows],
            **tolerance,
        )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [1.0, 40.0])
@pytest.mark.parametrize("near_sign", [1.0, -1.0])
def test_logarithms_of_sums_of_any_size(band_rows, dtype, scale, near_sign):
    table = Table(dtype)
    form = Embedded(table.form.P * dtype(scale), table.form.signs)
    zero = np.zeros(len(table.P))
    table.H *= scale**2
    exponents = table.exponents(zero, zero, near_sign)
    near = logsumexp(np.where(table.near, exponents, -np.inf), axis=1)
    far = logsumexp(np.where(table.same, -np.inf, exponents), axis=1)
    # In float32 a squared distance is known to the rounding of the squared norms.
    atol = 1e-10 if dtype == np.float64 else 3e-6 * scale**2
    for band in table.pairs.bands:
        logs = form.log_sums(band, near_sign=near_sign)
        np.testing.assert_allclose(logs[0], near[band.rows], rtol=1e-12, atol=atol)
        np.testing.assert_allclose(logs[1], far[band.rows], rtol=1e-12, atol=atol)
        shifts = np.zeros((2, len(table.P)))
        shifts[:, band.rows] = logs
        sums = form.weights(band, *shifts, near_sign=near_sign).row_sums()
        np.testing.assert_allclose(sums, 1.0, atol=np.expm1(2 * atol))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 40.0])
def test_soft_weights_of_all_pairs(band_rows, dtype, scale):
    table = Table(dtype)
    P = table.P * dtype(scale)
    form, pairs = Embedded(P, table.form.signs), PairTiles(np.zeros(len(P), dtype=int))
    exponents = -(table.H * scale**2)
    np.fill_diagonal(exponents, -np.inf)
    expected = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    seen = []
    for band in pairs.bands:
        weights = form.soft_weights(band)
        assert weights.dtype == dtype
        own = np.arange(band.rows.start, band.rows.stop)
        assert not weights[np.arange(band.height), own].any()
        # In float32 a squared distance is known to the rounding of the squared norms.
        atol = 1e-10 if dtype == np.float64 else 3e-6 * max(1.0, scale**2)
        np.testing.assert_allclose(weights, expected[band.rows], atol=atol)
        seen += own.tolist()
    assert seen == list(range(len(P)))


def test_buffers_of_different_numbers_are_apart():
    table = Table()
    band = table.pairs.bands[0]
    first = table.form.weights(band, number=0).far
    before = first.copy()
    second = Embedded(2 * table.P, table.form.signs).weights(band, number=1).far
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, before)


def test_votes_equal_a_full_table(band_rows):
    X, y, _ = labelled()
    pairs = PairTiles(y)
    P, classes = X[pairs.order], y[pairs.order]
    votes = (
        Embedded(P[:, :1], np.ones(1)).with_vote(P[:, 1], 0.3, 0.7).with_vote(P[:, 2], 1.1, -0.4)
    )
    square = (P[:, None] - P[None]) ** 2
    H = square[..., 0] + 0.7 * (square[..., 1] >= 0.3) - 0.4 * (square[..., 2] >= 1.1)
    expected = np.exp(np.where(classes[:, None] == classes, H, -H))
    np.fill_diagonal(expected, 0.0)
    for band in pairs.bands:
        whole = votes.weights(band).merged(1.0)
        np.testing.assert_allclose(whole, expected[band.rows], rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_laplacian_and_scatter_equal_loops(band_rows, dtype):
    table = Table(dtype)
    n = len(table.P)
    W = table.rng.standard_normal((n, n))
    W[~table.company] = 0.0
    W[table.company, 0] -= W[table.company].sum(axis=1)
    W = W.astype(dtype)
    T = table.rng.standard_normal((n, 2)).astype(dtype)
    both = (W + W.T).astype(np.float64)
    laplacian = np.diag(both.sum(axis=1)) - both
    size = TOLERANCE[dtype] * np.abs(both).sum()

    def weights_of(band):
        return W[band.rows].copy()

    product = table.pairs.laplacian(weights_of, T)
    np.testing.assert_allclose(product, laplacian @ T, atol=size)
    loops = np.zeros((3, 3))
    for i, x in enumerate(table.P.astype(np.float64)):
        for j, other in enumerate(table.P.astype(np.float64)):
            loops += W[i, j] * np.outer(x - other, x - other)
    np.testing.assert_allclose(table.P.T @ laplacian @ table.P, loops, atol=size)
    np.testing.assert_allclose(table.pairs.scatter_matrix(weights_of, table.P), loops, atol=size)
    constants = table.pairs.laplacian(weights_of, np.ones((n, 1), dtype))
    np.testing.assert_allclose(constants, 0.0, atol=size)


def test_largest_squared_distance(monkeypatch, rng):
    X = rng.standard_normal((30, 3)) + 100
    expected = ((X[:, None] - X[None]) ** 2).sum(-1).max()
    for rows, columns in ((1, 1), (7, 11), (256, 2048)):
        monkeypatch.setattr(pair_tiles, "_BLOCK_ROWS", rows)
        monkeypatch.setattr(pair_tiles, "_BLOCK_COLUMNS", columns)
        assert largest_squared_distance(X) == pytest.approx(expected)
