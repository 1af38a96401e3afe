"""Maps in closed form, against optimality conditions and leave-one-out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from nearfar.bridge import maps as module
from nearfar.bridge.maps import Centred, Ridge, orthogonal

RNG = np.random.default_rng(0)


def data(n=40, p=5, q=4, noise=0.3):
    X = RNG.standard_normal((n, p)) + 2
    return Centred.of(X, X @ RNG.standard_normal((q, p)).T + noise * RNG.standard_normal((n, q)))


@pytest.mark.parametrize(("p", "q"), [(4, 4), (3, 5), (5, 3)])
def test_orthogonal_maps(p, q):
    found = orthogonal(data(p=p, q=q)).L
    scale = np.linalg.norm(found, 2)
    gram = found @ found.T if q <= p else found.T @ found
    np.testing.assert_allclose(gram / scale**2, np.eye(min(p, q)), atol=1e-12)


@pytest.mark.parametrize(("p", "q"), [(2, 2), (2, 4)])
def test_no_other_rotation_is_better(p, q):
    given = data(p=p, q=q)
    best = ((given.X @ orthogonal(given).L.T - given.Y) ** 2).sum()
    for seed in range(200):
        rng = np.random.default_rng(seed)
        turn = np.linalg.qr(rng.standard_normal((max(p, q), max(p, q))))[0][:q, :p]
        scale = rng.uniform(0.1, 3)
        assert ((scale * given.X @ turn.T - given.Y) ** 2).sum() >= best


def test_the_strength_is_that_of_leave_one_out(monkeypatch):
    given = data(n=25, noise=3.0)
    strengths = np.logspace(-3, 2, 6)
    monkeypatch.setattr(module, "_STRENGTHS", strengths)
    ridge = Ridge(given)
    unit = np.linalg.eigvalsh(given.X.T @ given.X).mean()
    X, Y = given.X + given.new_mean, given.Y + given.old_mean
    errors = []
    for strength in unit * strengths:
        total = 0.0
        for i in range(len(X)):
            rest = Centred.of(np.delete(X, i, axis=0), np.delete(Y, i, axis=0))
            inverse = np.linalg.inv(rest.X.T @ rest.X + strength * np.eye(X.shape[1]))
            predicted = (X[i] - rest.new_mean) @ inverse @ rest.X.T @ rest.Y + rest.old_mean
            total += ((predicted - Y[i]) ** 2).sum()
        errors.append(total)
    assert ridge.strength == pytest.approx(unit * strengths[int(np.argmin(errors))])


def test_ridge_is_the_minimum():
    given = data(n=30, p=3, q=2)
    ridge = Ridge(given)

    def objective(w):
        W = w.reshape(2, 3)
        return ((given.X @ W.T - given.Y) ** 2).sum() + ridge.strength * (W**2).sum()

    found = minimize(objective, np.zeros(6), tol=1e-12).x
    np.testing.assert_allclose(ridge.W.ravel(), found, atol=1e-5)


def test_low_rank_maps():
    ridge = Ridge(data(p=6, q=5))
    fitted = ridge.data.X @ ridge.W.T
    left, values, right = np.linalg.svd(fitted, full_matrices=False)
    for rank in (1, 3, 5):
        found = ridge.low_rank(rank).L
        assert np.linalg.matrix_rank(found) == rank
        expected = (left[:, :rank] * values[:rank]) @ right[:rank]
        np.testing.assert_allclose(ridge.data.X @ found.T, expected, atol=1e-10)


def test_equal_vectors():
    same = Centred.of(np.ones((30, 3)), np.ones((30, 2)))
    for found in (orthogonal(same), Ridge(same).linear()):
        np.testing.assert_allclose(np.ones(3) @ found.L.T + found.b, np.ones(2))
