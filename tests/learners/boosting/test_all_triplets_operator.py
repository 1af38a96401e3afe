"""All triplets of labels, never listed, against the list of them."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar import AllTriplets
from nearfar.learners.boosting import all_triplets_operator
from nearfar.learners.boosting.all_triplets_operator import AllTripletsOperator, Sums
from nearfar.learners.boosting.triplet_operator import TripletOperator
from nearfar.losses.loss import newton_step
from nearfar.runtime.threads import limited_threads
from problems import labelled, points_with_a_single, set_bands


def test_results_do_not_depend_on_the_bands(monkeypatch):
    X, y, rng = labelled()
    L = rng.standard_normal((3, 4))
    results = []
    for rows in (1, 5, 256):
        set_bands(monkeypatch, rows)
        operator = AllTripletsOperator(X, y)
        loss, u = operator.loss_and_weights(operator.state(L))
        results.append((loss, operator.matrix(u)))
    for loss, A in results[1:]:
        assert loss == pytest.approx(results[0][0], rel=1e-13)
        np.testing.assert_allclose(A, results[0][1], atol=1e-13)


@pytest.mark.parametrize("n_classes", [2, 3, 25])
def test_tiled_equals_listed_in_every_iteration(n_classes, band_rows):
    X, y, _ = labelled(n=30, n_classes=n_classes)
    listed, tiled = TripletOperator(X, AllTriplets()(X, y)), AllTripletsOperator(X, y)
    assert tiled.n_triplets == listed.n_triplets
    assert tiled.unit == pytest.approx(listed.unit, rel=1e-13)
    one, many = listed.start(), tiled.start()
    for _ in range(6):
        (loss, u), (other_loss, v) = listed.loss_and_weights(one), tiled.loss_and_weights(many)
        assert other_loss == pytest.approx(loss, rel=1e-13)
        np.testing.assert_allclose(tiled.matrix(v), listed.matrix(u), atol=1e-12)
        eigenvalue, direction = listed.leading_eigenpair(u)
        if eigenvalue < 1e-9:
            break
        lines = listed.line(one, direction), tiled.line(many, direction)
        assert lines[1].smallest_margin() == pytest.approx(lines[0].smallest_margin(), abs=1e-9)
        for w in (0.0, 0.1 / eigenvalue, 1.0 / eigenvalue):
            assert lines[1].slope(w) == pytest.approx(lines[0].slope(w), rel=1e-9, abs=1e-12)
        steps = [newton_step(line.slope, 0.0, 50 / eigenvalue)[0] for line in lines]
        assert steps[1] == pytest.approx(steps[0], rel=1e-10)
        one, many = lines[0].advance(steps[0]), lines[1].advance(steps[1])


@pytest.mark.parametrize("how", ["exact", "gaussian"])
def test_tiled_thresholds_equal_listed_ones(how, band_rows):
    X, y, rng = labelled(n=40)
    listed, tiled = TripletOperator(X, AllTriplets()(X, y)), AllTripletsOperator(X, y)
    one, many = listed.start(), tiled.start()
    for _ in range(4):
        v = rng.standard_normal(4)
        lines = [
            operator.thresholded_line(state, v, how=how, signed=False)
            for operator, state in ((listed, one), (tiled, many))
        ]
        assert lines[1].threshold == pytest.approx(lines[0].threshold, rel=1e-10)
        assert lines[1].wrong == pytest.approx(lines[0].wrong, abs=1e-12)
        assert lines[1].right == pytest.approx(lines[0].right, abs=1e-12)
        one, many = lines[0].advance(0.3), lines[1].advance(0.3)
        assert tiled.loss_and_weights(many)[0] == pytest.approx(
            listed.loss_and_weights(one)[0], rel=1e-12
        )


def test_steps_that_leave_the_range_of_exp():
    X, y, _ = labelled(n=30, n_classes=2)
    operator = AllTripletsOperator(X, y)
    line = operator.line(operator.start(), np.array([1.0, 0.0, 0.0, 0.0]))
    listed = TripletOperator(X, AllTriplets()(X, y))
    other = listed.line(listed.start(), np.array([1.0, 0.0, 0.0, 0.0]))
    for w in (1e2, 1e4):
        assert line.slope(w)[0] == pytest.approx(other.slope(w)[0], rel=1e-6)
        state = line.advance(w)
        assert operator.loss_and_weights(state)[0] == pytest.approx(
            listed.loss_and_weights(other.advance(w))[0], rel=1e-9
        )


def test_many_pairs_are_not_sorted(monkeypatch):
    monkeypatch.setattr(all_triplets_operator, "MAX_SORTED", 100)
    X, y, _ = labelled()
    operator = AllTripletsOperator(X, y)
    with pytest.raises(ValueError, match="gaussian"):
        operator.thresholded_line(operator.start(), np.ones(4), how="exact", signed=False)


@pytest.mark.parametrize("absolute", [False, True])
def test_the_embedding_never_has_more_columns_than_features(absolute):
    X, y, rng = labelled(n=40)
    listed, tiled = TripletOperator(X, AllTriplets()(X, y)), AllTripletsOperator(X, y)
    one, many = listed.start(), tiled.start()
    for w in rng.standard_normal(15) if absolute else rng.random(15):
        v = rng.standard_normal(4)
        one = listed.line(one, v).advance(0.1 * w)
        many = tiled.line(many, v).advance(0.1 * w)
        assert many.form.P.shape[1] <= 4
        loss, u = listed.loss_and_weights(one)
        other_loss, other_u = tiled.loss_and_weights(many)
        assert other_loss == pytest.approx(loss, rel=1e-10)
        np.testing.assert_allclose(tiled.matrix(other_u), listed.matrix(u), atol=1e-10)


class List:
    """All triplets, one by one, under a metric: their weights, and margins along directions."""

    def __init__(self, X, y, L, unit):
        self.X = X.astype(np.float64) / np.sqrt(unit)
        self.index = AllTriplets()(X, y).index
        H = self.margins(L).sum(axis=1)
        D = np.exp(-H - np.max(-H))
        self.D = D / D.sum()

    def margins(self, V):
        a, near, far = ((self.X @ V.T)[column] for column in self.index.T)
        return (a - far) ** 2 - (a - near) ** 2

    def covariance(self, V):
        m = self.margins(V)
        mean = self.D @ m
        return mean, (m * self.D[:, None]).T @ m - np.outer(mean, mean)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_pass_gives_what_sums_and_matrix_give(band_rows, dtype):
    X, y, rng = points_with_a_single(0)
    operator = AllTripletsOperator(X.astype(dtype), y)
    single = dtype == np.float32
    for rank, size in ((0, 1.0), (2, 0.1), (3, 1.0), (5, 1.0), (3, 12.0)):
        L = size * rng.standard_normal((rank, 3))
        state = operator.state(L)
        loss, u = operator.loss_and_weights(state)
        A = operator.matrix(u)
        near, far = state.sums.near, state.sums.far
        guesses = [None, state.sums, operator.start().sums]
        guesses += [
            Sums(near + s, far + t) for s in (-1500, -400, 0, 700) for t in (-1500, 0, 90, 1500)
        ]
        for about in guesses:
            ours, v, B = operator.evaluate(L, about)
            # In float32 squared distances are known to the rounding of the squared norms.
            rounding = 2e-6 * max(1.0, size**2) if single else 1e-12
            assert ours == pytest.approx(loss, rel=rounding, abs=rounding)
            np.testing.assert_allclose(B, A, atol=20 * rounding * (1 + np.abs(A).max()))
            np.testing.assert_allclose(v.sums.near, near, rtol=rounding, atol=20 * rounding)
            np.testing.assert_allclose(v.sums.far, far, rtol=rounding, atol=20 * rounding)
            anchors = np.exp(u.log_anchor)
            np.testing.assert_allclose(np.exp(v.log_anchor), anchors, atol=20 * rounding)
            assert (v.sums.near[~operator.anchors] == -np.inf).all()
            assert (v.log_anchor[~operator.anchors] == -np.inf).all()


@pytest.mark.parametrize("size", [0.0, 0.3, 1.0])
def test_curvature_is_the_covariance_of_the_margins(band_rows, size):
    X, y, rng = points_with_a_single(1, n=20, n_features=4)
    operator = AllTripletsOperator(X, y)
    L = size * rng.standard_normal((4, 4))
    every = List(X, y, L, operator.unit)
    _, u, A = operator.evaluate(L)
    for V in (np.linalg.eigh(A)[1].T[::-1], rng.standard_normal((3, 4)), np.eye(4)[:1]):
        mean, covariance = every.covariance(V)
        values = np.einsum("ij,jk,ik->i", V, A, V)
        np.testing.assert_allclose(values, mean, atol=1e-11)
        found = operator.curvature(u, V, values)
        np.testing.assert_allclose(found, covariance, atol=1e-10 * (1 + np.abs(covariance).max()))


def test_curvature_in_single_precision():
    X, y, rng = labelled(n=60)
    operator = AllTripletsOperator(X.astype(np.float32), y)
    L = 0.5 * rng.standard_normal((4, 4))
    _, u, A = operator.evaluate(L)
    values, V = np.linalg.eigh(A)
    expected = List(X, y, L, operator.unit).covariance(V.T)[1]
    found = operator.curvature(u, V.T, values)
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_curvature_is_the_second_derivative_of_the_loss():
    X, y, rng = labelled(n=40)
    operator = AllTripletsOperator(X, y)
    L = 0.5 * rng.standard_normal((4, 4))
    V, w, h = np.eye(4)[:3], rng.random(3), 1e-3
    _, u, A = operator.evaluate(L)
    values = np.diag(A)[:3]

    def loss(t):
        form = operator.state(
            np.vstack([L, np.sqrt(abs(t) * w)[:, None] * V]),
            np.append(np.ones(4), np.full(3, np.sign(t))),
        )
        return operator.loss_and_weights(form)[0]

    slope = (8 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12 * h)
    assert slope == pytest.approx(-w @ values, rel=1e-8)
    outer, inner = loss(2 * h) + loss(-2 * h), loss(h) + loss(-h)
    bend = (16 * inner - outer - 30 * loss(0.0)) / (12 * h * h)
    assert bend == pytest.approx(w @ operator.curvature(u, V, values) @ w, rel=1e-5)


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    set_bands(monkeypatch, 5)
    X, y, rng = labelled(n=200)
    L = rng.standard_normal((3, 4))
    results = []
    for n_jobs in (1, 2, 5):
        with limited_threads(n_jobs):
            operator = AllTripletsOperator(X, y)
            loss, u, A = operator.evaluate(L)
            curvature = operator.curvature(u, np.eye(4), np.diag(A))
        results.append((loss, A.tobytes(), curvature.tobytes()))
    assert len(set(results)) == 1


def test_a_vote_that_orders_nothing_wrongly():
    X, y = np.arange(12.0)[:, None] + 20 * (np.arange(12) > 5)[:, None], np.arange(12) // 6
    operator = AllTripletsOperator(X, y)
    line = operator.thresholded_line(operator.start(), np.ones(1), how="exact", signed=False)
    assert line.wrong == 0.0
    assert line.right == pytest.approx(1.0, rel=1e-12)
