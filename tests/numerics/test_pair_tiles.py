"""Tiles of pairs against full tables, whatever their size."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar import AllTriplets, pairwise
from nearfar.learners.boosting.all_triplets_operator import AllTripletsOperator
from nearfar.learners.boosting.eigen import leading
from nearfar.learners.boosting.losses import newton_step
from nearfar.learners.boosting.triplet_operator import TripletOperator
from nearfar.numerics.pair_tiles import ClassOrder, Embedded, Voted, largest_squared_distance


@pytest.fixture(params=[(1, 1), (7, 11), (192, 512)])
def tile_size(request, monkeypatch):
    set_tiles(monkeypatch, request.param)
    return request.param


def set_tiles(monkeypatch, size):
    monkeypatch.setattr(pairwise, "_TILE_ROWS", size[0])
    monkeypatch.setattr(pairwise, "_TILE_COLUMNS", size[1])
    monkeypatch.setattr(pairwise, "_SERIAL_ELEMENTS", 0)


def labelled(seed=0, n=60, n_features=4, n_classes=3, dtype=np.float64):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = rng.standard_normal((n, n_features)) + 0.5 * y[:, None]
    return X.astype(dtype), y, rng


def test_bands_cover_every_row_of_classes_with_company(tile_size):
    y = np.array([3, 0, 0, 7, 3, 3, 5, 0])
    order = ClassOrder(y)
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
    order = ClassOrder(y)
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
    order = ClassOrder(y)
    P, classes = X[order.order], y[order.order]
    votes = Voted(Embedded(P[:, :1], np.ones(1)), np.empty((0, 60)), np.empty(0), np.empty(0))
    votes = votes.extended(P[:, 1], 0.3, 0.7).extended(P[:, 2], 1.1, -0.4)
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
    order = ClassOrder(y)
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
    np.testing.assert_allclose(order.scatter(weights_of, X), X.T @ L @ X, atol=tolerance * 1000)
    constants = order.laplacian(weights_of, np.ones((60, 1), dtype))
    np.testing.assert_allclose(constants, 0.0, atol=tolerance * 10)
    classes = y[order.order]
    W[classes[:, None] == classes] *= -1
    weights = W + W.T
    L = np.diag(weights.sum(axis=1)) - weights
    W[classes[:, None] == classes] *= -1
    product = order.laplacian(weights_of, T, near_sign=-1.0)
    np.testing.assert_allclose(product, L @ T, atol=tolerance * 100)
    A = order.scatter(weights_of, X, near_sign=-1.0)
    np.testing.assert_allclose(A, X.T @ L @ X, atol=tolerance * 1000)


def test_results_do_not_depend_on_the_tiles(monkeypatch):
    X, y, rng = labelled()
    L = rng.standard_normal((3, 4))
    results = []
    for size in ((1, 1), (5, 13), (192, 512)):
        set_tiles(monkeypatch, size)
        scatter = AllTripletsOperator(X, y)
        loss, u = scatter.weigh(scatter.state(L))
        results.append((loss, scatter.matrix(u)))
    for loss, A in results[1:]:
        assert loss == pytest.approx(results[0][0], rel=1e-13)
        np.testing.assert_allclose(A, results[0][1], atol=1e-13)


@pytest.mark.parametrize("n_classes", [2, 3, 25])
def test_tiled_equals_listed_in_every_round(n_classes, tile_size):
    X, y, _ = labelled(n=45, n_classes=n_classes)
    listed, tiled = TripletOperator(X, AllTriplets()(X, y)), AllTripletsOperator(X, y)
    assert tiled.n_triplets == listed.n_triplets
    assert tiled.unit == pytest.approx(listed.unit, rel=1e-13)
    one, many = listed.start(), tiled.start()
    for _ in range(6):
        (loss, u), (other_loss, v) = listed.weigh(one), tiled.weigh(many)
        assert other_loss == pytest.approx(loss, rel=1e-13)
        np.testing.assert_allclose(tiled.matrix(v), listed.matrix(u), atol=1e-12)
        eigenvalue, direction = listed.top(u)
        if eigenvalue < 1e-9:
            break
        lines = listed.along(one, direction), tiled.along(many, direction)
        assert lines[1].lowest() == pytest.approx(lines[0].lowest(), abs=1e-9)
        for w in (0.0, 0.1 / eigenvalue, 1.0 / eigenvalue):
            assert lines[1].slope(w) == pytest.approx(lines[0].slope(w), rel=1e-9, abs=1e-12)
        steps = [newton_step(line.slope, 0.0, 50 / eigenvalue)[0] for line in lines]
        assert steps[1] == pytest.approx(steps[0], rel=1e-10)
        one, many = lines[0].advance(steps[0]), lines[1].advance(steps[1])


@pytest.mark.parametrize("how", ["exact", "gaussian"])
def test_tiled_cuts_equal_listed_ones(how, tile_size):
    X, y, rng = labelled(n=40)
    listed, tiled = TripletOperator(X, AllTriplets()(X, y)), AllTripletsOperator(X, y)
    one, many = listed.start(), tiled.start()
    for _ in range(4):
        v = rng.standard_normal(4)
        cuts = [
            operator.cut(state, v, how=how, signed=False)
            for operator, state in ((listed, one), (tiled, many))
        ]
        assert cuts[1].threshold == pytest.approx(cuts[0].threshold, rel=1e-10)
        assert cuts[1].wrong == pytest.approx(cuts[0].wrong, abs=1e-12)
        assert cuts[1].right == pytest.approx(cuts[0].right, abs=1e-12)
        one, many = cuts[0].advance(0.3), cuts[1].advance(0.3)
        assert tiled.weigh(many)[0] == pytest.approx(listed.weigh(one)[0], rel=1e-12)


def test_steps_that_leave_the_range_of_exp():
    X, y, _ = labelled(n=30, n_classes=2)
    scatter = AllTripletsOperator(X, y)
    line = scatter.along(scatter.start(), np.array([1.0, 0.0, 0.0, 0.0]))
    listed = TripletOperator(X, AllTriplets()(X, y))
    other = listed.along(listed.start(), np.array([1.0, 0.0, 0.0, 0.0]))
    for w in (1e2, 1e4):
        assert line.slope(w)[0] == pytest.approx(other.slope(w)[0], rel=1e-6)
        state = line.advance(w)
        assert scatter.weigh(state)[0] == pytest.approx(listed.weigh(other.advance(w))[0], rel=1e-9)


def test_many_pairs_are_not_sorted(monkeypatch):
    from nearfar import tiled

    monkeypatch.setattr(tiled, "MAX_SORTED", 100)
    X, y, _ = labelled()
    scatter = AllTripletsOperator(X, y)
    with pytest.raises(ValueError, match="gaussian"):
        scatter.cut(scatter.start(), np.ones(4), how="exact", signed=False)


def test_largest_squared_distance(tile_size, rng):
    X = rng.standard_normal((30, 3)) + 100
    expected = ((X[:, None] - X[None]) ** 2).sum(-1).max()
    assert largest_squared_distance(X) == pytest.approx(expected)


def test_leading_by_absolute_value():
    A = np.diag([1.0, -3.0, 2.0])
    assert leading(A)[0] == pytest.approx(2.0)
    value, v = leading(A, absolute=True)
    assert value == pytest.approx(-3.0)
    np.testing.assert_allclose(v, [0, 1, 0], atol=1e-12)


@pytest.mark.parametrize("absolute", [False, True])
def test_the_embedding_never_has_more_columns_than_features(absolute):
    X, y, rng = labelled(n=40)
    listed, tiled = TripletOperator(X, AllTriplets()(X, y)), AllTripletsOperator(X, y)
    one, many = listed.start(), tiled.start()
    for w in rng.standard_normal(15) if absolute else rng.random(15):
        v = rng.standard_normal(4)
        one = listed.along(one, v).advance(0.1 * w)
        many = tiled.along(many, v).advance(0.1 * w)
        assert many.form.P.shape[1] <= 4
        loss, u = listed.weigh(one)
        other_loss, other_u = tiled.weigh(many)
        assert other_loss == pytest.approx(loss, rel=1e-10)
        np.testing.assert_allclose(tiled.matrix(other_u), listed.matrix(u), atol=1e-10)
