"""The operator against explicit differences, and the identities that bind its parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfar import Triplets
from nearfar.learners.boosting.triplet_operator import TripletOperator
from nearfar.numerics import edges
from references import boostmetric as reference


def random_problem(seed, n=25, n_features=4, m=80, dtype=np.float64, weighted=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features)).astype(dtype)
    index = np.array([rng.choice(n, 3, replace=False) for _ in range(m)])
    return X, Triplets(index, rng.random(m) if weighted else None), rng


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(3, 30), D=st.integers(1, 6), m=st.integers(1, 60))
def test_quadratic_form_is_weighted_margins(seed, n, D, m):
    X, triplets, rng = random_problem(seed, n, D, m)
    operator = TripletOperator(X, triplets)
    u, v = rng.standard_normal(m), rng.standard_normal(D)
    expected = u @ operator.margins(v)
    size = np.abs(u) @ np.abs(operator.margins(v)) + 1e-12
    assert abs(v @ operator.matrix(u) @ v - expected) <= 1e-12 * size
    assert abs(v @ (operator.operator(u) @ v) - expected) <= 1e-12 * size


@pytest.mark.parametrize("block", [4096, 7])
def test_matrix_equals_explicit_differences(block, monkeypatch):
    monkeypatch.setattr(edges, "_BLOCK_ROWS", block)
    X, triplets, rng = random_problem(1)
    A = reference.triplet_matrices(X, triplets.index)
    u = rng.random(len(triplets))
    operator = TripletOperator(X, triplets, unit=1.0)
    np.testing.assert_allclose(operator.matrix(u), np.tensordot(u, A, 1), atol=1e-12)
    v = rng.standard_normal(4)
    np.testing.assert_allclose(operator.margins(v), [v @ a @ v for a in A], atol=1e-12)
    L = rng.standard_normal((3, 4))
    M = L.T @ L
    margins = operator.embedding_margins(operator.embed(L))
    np.testing.assert_allclose(margins, [(a * M).sum() for a in A], atol=1e-11)
    pulled = operator.pull(u, operator.embed(L))
    np.testing.assert_allclose(pulled, L @ operator.matrix(u), atol=1e-11)


@pytest.mark.parametrize("weighted", [False, True])
def test_units(weighted):
    X, triplets, _ = random_problem(2, weighted=weighted)
    operator = TripletOperator(X, triplets)
    a, near, far = triplets.index.T
    squares = ((X[a] - X[near]) ** 2).sum(1) + ((X[a] - X[far]) ** 2).sum(1)
    assert operator.unit == pytest.approx(np.average(squares / 2, weights=triplets.weight))
    distinct = np.unique(np.sort(np.concatenate([[a, near], [a, far]], axis=1), axis=0), axis=1)
    lengths = ((X[distinct[0]] - X[distinct[1]]) ** 2).sum(1)
    assert TripletOperator(X, triplets, unit="longest").unit == pytest.approx(lengths.max())
    assert TripletOperator(X, triplets, unit="long").unit == pytest.approx(
        np.quantile(lengths, 0.9)
    )
    assert TripletOperator(X, triplets, unit=2.5).unit == 2.5
    other = TripletOperator(1000 * X + 5, triplets)
    v = np.eye(4)[1]
    np.testing.assert_allclose(other.margins(v), operator.margins(v), rtol=1e-7, atol=1e-9)
    state, factor = operator.prior_state(np.diag([1.0, 2.0, 3.0, 4.0]), 0.5)
    again = TripletOperator(X @ np.diag([1.0, 2.0, 3.0, 4.0]), triplets)
    np.testing.assert_allclose(state, 0.5 * again.embedding_margins(again.X), rtol=1e-9)
    assert factor > 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_lanczos_agrees_with_dense(dtype, monkeypatch):
    X, triplets, rng = random_problem(3, n=200, n_features=40, m=600, dtype=dtype)
    u = rng.random(600)
    u /= u.sum()
    value, v = TripletOperator(X, triplets).leading_eigenpair(u)
    monkeypatch.setattr(TripletOperator, "_dense_is_cheaper", lambda self: False)
    operator = TripletOperator(X, triplets)
    tolerance = 1e-9 if dtype == np.float64 else 1e-4
    for _ in range(2):
        other_value, other_v = operator.leading_eigenpair(u)
        assert other_value == pytest.approx(value, rel=tolerance)
        assert abs(v @ other_v) == pytest.approx(1.0, abs=tolerance)
        residual = operator.matrix(u) @ other_v - other_value * other_v
        assert np.linalg.norm(residual) < tolerance * value
    minus = np.sqrt(0.9 * value) * np.vstack([v, np.eye(40)[0]])
    expected, w = np.linalg.eigh(operator.matrix(u) - minus.T @ minus)
    lower_value, lower_v = operator.leading_eigenpair(u, minus=minus)
    assert lower_value == pytest.approx(expected[-1], rel=10 * tolerance)
    assert abs(lower_v @ w[:, -1]) == pytest.approx(1.0, abs=10 * tolerance)
    assert lower_value < 0.99 * value


@pytest.mark.parametrize("kind", ["contradictory", "equal points", "complements"])
def test_lanczos_survives_matrices_that_kill_its_start(kind, monkeypatch):
    monkeypatch.setattr(TripletOperator, "_dense_is_cheaper", lambda self: False)
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (60, 20)).astype(float)
    X = np.ones((60, 40)) if kind == "equal points" else np.hstack([X, 1 - X])
    index = [[0, 1, 2], [0, 2, 1]] if kind == "contradictory" else [[0, 1, 2], [3, 4, 5]]
    operator = TripletOperator(X, Triplets(index))
    value, v = operator.leading_eigenpair(np.array([0.5, 0.5]))
    expected = np.linalg.eigvalsh(operator.matrix(np.array([0.5, 0.5])))[-1]
    assert value == pytest.approx(expected, abs=1e-9)
    assert np.linalg.norm(v) == pytest.approx(1.0)


def test_cost_model_takes_lanczos_where_features_are_many():
    X = np.zeros((3, 3))
    triplets = Triplets([[0, 1, 2]])
    assert TripletOperator(X, triplets)._dense_is_cheaper()
    wide = np.broadcast_to(np.zeros(1), (20_000, 4096))
    assert not TripletOperator(wide, triplets, unit=1.0)._dense_is_cheaper()
    tall = np.broadcast_to(np.zeros(1), (20_000, 64))
    assert TripletOperator(tall, triplets, unit=1.0)._dense_is_cheaper()


def test_the_leading_direction_is_deterministic_and_signed():
    X, triplets, rng = random_problem(4)
    u = rng.random(len(triplets))
    _, v = TripletOperator(X, triplets).leading_eigenpair(u)
    assert v[np.abs(v).argmax()] > 0
    np.testing.assert_array_equal(v, TripletOperator(X, triplets).leading_eigenpair(u)[1])


def test_duplicate_is_double_weight_and_order_is_nothing():
    X, triplets, rng = random_problem(5)
    index = triplets.index
    twice = Triplets(np.vstack([index, index[:1]]))
    weighted = Triplets(index, np.where(np.arange(len(index)) == 0, 2.0, 1.0))
    shuffled = triplets.take(rng.permutation(len(index)))
    v = rng.standard_normal(4)
    results = []
    for each in (twice, weighted):
        operator = TripletOperator(X, each)
        loss, u = operator.loss_and_weights(operator.margins(v))
        results.append((loss, operator.unit, operator.matrix(u)))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-13)
    assert results[0][1] == pytest.approx(results[1][1], rel=1e-13)
    np.testing.assert_allclose(results[0][2], results[1][2], atol=1e-13)
    plain, mixed = TripletOperator(X, triplets), TripletOperator(X, shuffled)
    a, b = (s.matrix(s.loss_and_weights(s.margins(v))[1]) for s in (plain, mixed))
    np.testing.assert_allclose(a, b, atol=1e-13)


def test_float32_is_close_to_float64():
    X, triplets, rng = random_problem(6, dtype=np.float32)
    u, v = rng.random(len(triplets)), rng.standard_normal(4)
    single, double = TripletOperator(X, triplets), TripletOperator(X.astype(np.float64), triplets)
    np.testing.assert_allclose(single.margins(v), double.margins(v), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(single.matrix(u), double.matrix(u), rtol=1e-4, atol=1e-4)
