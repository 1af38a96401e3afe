"""The soft margin against generic solvers, finite differences and its optimality conditions."""

from __future__ import annotations

from dataclasses import replace

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from nearfar.learners.boosting.trace_one import best_terms, best_terms_by_lp, worst_weights
from nearfar.losses import SoftMargin
from nearfar.losses.loss import water_level
from references import drmetric as reference


def random_terms(seed, t=5, n=60):
    rng = np.random.default_rng(seed)
    start = rng.random(n) + 0.1
    soft = SoftMargin(start / start.sum(), cap=5 / n, sharpness=float(rng.uniform(5, 200)))
    return soft, rng.standard_normal((t, n)) + 0.1, 0.1 * rng.standard_normal(n)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 50),
    cap=st.floats(1.0, 60.0),
    spread=st.sampled_from([0.0, 1.0, 50.0, 5000.0]),
)
def test_water_filling(seed, n, cap, spread):
    z = spread * np.random.default_rng(seed).standard_normal(n)
    capped, log_tau = water_level(z, cap / n)
    d = np.minimum(cap / n, np.exp(np.minimum(z + log_tau, 0.0)))
    d[capped] = cap / n
    assert d.sum() == pytest.approx(1.0, abs=1e-12)
    q = np.exp(z - z.max())
    if q.min() > 0:
        np.testing.assert_allclose(d, reference.capped(q / q.sum(), cap / n), atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("caps_differ", [False, True])
def test_soft_margin_equals_a_generic_convex_solver(seed, caps_differ):
    soft, V, offset = random_terms(seed)
    n = V.shape[1]
    if caps_differ:
        soft = replace(soft, cap=np.random.default_rng(seed).uniform(1, 6, n) / n)
    value, w = best_terms(soft, V, np.eye(len(V))[0], offset)
    d = soft.evaluate(offset + w @ V)[1]
    x = cvxpy.Variable(n)
    worst = cvxpy.max(V @ x) + offset @ x
    problem = cvxpy.Problem(
        cvxpy.Minimize(worst + cvxpy.sum(cvxpy.rel_entr(x, soft.start)) / soft.sharpness),
        [cvxpy.sum(x) == 1, x <= soft.cap],
    )
    problem.solve(solver="CLARABEL")
    found = np.maximum(x.value, 1e-300)
    assert value == pytest.approx(
        (V @ found).max() + offset @ found + found @ np.log(found / soft.start) / soft.sharpness,
        abs=1e-7,
    )
    np.testing.assert_allclose(d, x.value, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), t=st.integers(1, 12))
def test_entropic_weights_are_optimal(seed, t):
    soft, V, offset = random_terms(seed, t)
    value, w = best_terms(soft, V, np.full(t, 1 / t), offset)
    d = soft.evaluate(offset + w @ V)[1]
    assert w.min() >= 0
    assert w.sum() == pytest.approx(1.0, abs=1e-14)
    edges = V @ d
    assert edges.max() - edges @ w <= 1e-11
    np.testing.assert_allclose(edges[w > 1e-9], edges.max(), atol=1e-8)
    from_elsewhere = best_terms(soft, V, np.eye(t)[-1], offset)
    assert from_elsewhere[0] == pytest.approx(value, abs=1e-12)
    np.testing.assert_allclose(from_elsewhere[1], w, atol=1e-7)


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    t=st.integers(1, 8),
    n=st.integers(1, 40),
    cap=st.floats(1.0, 50.0),
    sharpness=st.sampled_from([1e-3, 1.0, 300.0, 1e5, 1e8]),
)
def test_hard_soft_margins_are_solved(seed, t, n, cap, sharpness):
    rng = np.random.default_rng(seed)
    soft = SoftMargin(np.full(n, 1 / n), cap / n, sharpness)
    V = rng.uniform(-1, 1, (t, n)).round(2)
    V[-1] = V[0]
    values = [
        best_terms(soft, V, start, np.zeros(n))[0] for start in (np.eye(t)[0], np.full(t, 1 / t))
    ]
    limit = best_terms_by_lp(V, cap / n, np.zeros(n))[0]
    assert values[0] == pytest.approx(values[1], abs=1e-6)
    assert limit - 1e-6 <= max(values) <= limit + (np.log(n) + 1) / sharpness + 1e-6


@pytest.mark.parametrize("start", [0, None])
def test_a_soft_margin_that_once_cycled(start):
    V = np.array([[-0.4, 0.77], [1.0, 0.26], [-0.1, 0.76]])
    soft = SoftMargin(np.full(2, 0.5), 10.0, 300.0)
    w = np.full(3, 1 / 3) if start is None else np.eye(3)[start]
    value, w = best_terms(soft, V, w, np.zeros(2))
    limit = best_terms_by_lp(V, 1.0, np.zeros(2))[0]
    assert limit - 1e-9 <= value <= limit + (np.log(2) + 1) / soft.sharpness
    edges = V @ soft.evaluate(w @ V)[1]
    assert edges.max() - edges @ w < 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_gradient_of_the_soft_margin(seed):
    soft, V, offset = random_terms(seed)
    rng = np.random.default_rng(seed)
    w, p = rng.dirichlet(np.ones(len(V))), rng.standard_normal(len(V))
    h = 1e-6
    rise = soft.evaluate(offset + (w + h * p) @ V)[0] - soft.evaluate(offset + (w - h * p) @ V)[0]
    slope = p @ V @ soft.evaluate(offset + w @ V)[1]
    assert rise / (2 * h) == pytest.approx(-slope, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_linear_programme_and_its_dual(seed):
    soft, V, offset = random_terms(seed)
    value, w, d = best_terms_by_lp(V, soft.cap, offset)
    assert d.sum() == pytest.approx(1.0)
    assert d @ offset + (V @ d).max() == pytest.approx(value, abs=1e-9)
    primal = reference.soft_margin_lp(V.T, soft.cap, offset)[0]
    dual = reference.soft_margin_dual(V.T, soft.cap, offset)[0]
    assert value == pytest.approx(primal, abs=1e-7)
    assert value == pytest.approx(dual, abs=1e-7)
    assert w.min() >= 0
    assert w.sum() == pytest.approx(1.0)
    attained = np.sort(offset + w @ V)
    full, part = divmod(1.0, soft.cap)
    worst = soft.cap * attained[: int(full)].sum() + part * attained[int(full)]
    assert worst == pytest.approx(value, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 30), cap=st.floats(1.0, 40.0))
def test_worst_weights_give_the_smallest_mean(seed, n, cap):
    rng = np.random.default_rng(seed)
    margins, caps = rng.standard_normal(n).round(1), cap * rng.dirichlet(np.ones(n))
    d = worst_weights(margins, caps)
    assert d.sum() == pytest.approx(1.0)
    assert ((d >= 0) & (d <= caps)).all()
    x = cvxpy.Variable(n)
    best = cvxpy.Problem(
        cvxpy.Minimize(margins @ x), [cvxpy.sum(x) == 1, x >= 0, x <= caps + 1e-12]
    )
    assert d @ margins == pytest.approx(best.solve(solver="HIGHS"), abs=1e-7)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("guess", ["none", "good", "bad"])
def test_the_linear_programme_of_many_constraints(seed, guess):
    """Most constraints are held at first; the result must be that of the whole programme."""
    rng = np.random.default_rng(seed)
    t, n = 6, 2000
    V, offset = rng.standard_normal((t, n)) + 0.1, 0.1 * rng.standard_normal(n)
    caps = rng.uniform(1.0, 8.0, n) / n
    expected, best, _ = whole_programme(V, caps, offset)
    w = {"none": None, "good": best, "bad": np.eye(t)[best.argmin()]}[guess]
    value, w, d = best_terms_by_lp(V, caps, offset, w)
    assert value == pytest.approx(expected, abs=1e-8)
    np.testing.assert_allclose(w, best, atol=1e-6)
    assert d.sum() == pytest.approx(1.0)
    assert ((d >= 0) & (d <= caps)).all()
    assert d @ offset + (V @ d).max() == pytest.approx(value, abs=1e-8)
    assert worst_weights(offset + w @ V, caps) @ (offset + w @ V) == pytest.approx(value)


def whole_programme(V, caps, offset):
    """Solve the dual with all constraints at once."""
    t, n = V.shape
    found = linprog(
        np.append(offset, 1.0),
        A_ub=np.column_stack([V, -np.ones(t)]),
        b_ub=np.zeros(t),
        A_eq=np.append(np.ones(n), 0.0)[None],
        b_eq=[1.0],
        bounds=[*zip(np.zeros(n), caps, strict=True), (None, None)],
    )
    return found.fun, -found.ineqlin.marginals, found.x[:n]
