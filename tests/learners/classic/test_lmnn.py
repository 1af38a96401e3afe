"""LMNN against loops: objective, gradient, optimum, missed impostors, given triplets."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from nearfar import LMNN, Pairs, Triplets
from nearfar.constraints.mining import class_neighbors
from nearfar.learners.classic import impostors as module
from nearfar.learners.classic.impostors import GivenTriplets, ImpliedTriplets, Impostors
from nearfar.learners.classic.lmnn import Objective, best_factor
from problems import labelled, points_with_a_single
from references.lmnn import objective as objective_by_loops
from references.lmnn import projected_gradient, targets

PUSH = 0.5


def problem(seed=0, n=40, k=2):
    X, y, rng = labelled(seed, n=n)
    source = Impostors(y, class_neighbors(X, y, k, 0)[0])
    return X, y, source, Objective(X, source, PUSH), rng


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_objective_and_its_gradient(seed, listed):
    X, y, source, objective, rng = problem(seed)
    for size in (0.2, 1.0):
        L = size * rng.standard_normal((3, X.shape[1]))
        triplets = source.around(objective.embed(L)) if listed else ImpliedTriplets(source)
        value, gradient = objective.value(L, triplets)
        expected, by_matrix = objective_by_loops(L.T @ L, X, y, targets(X, y, 2), PUSH)
        assert value == pytest.approx(expected, rel=1e-10)
        np.testing.assert_allclose(gradient, 2 * L @ by_matrix, rtol=1e-9, atol=1e-10)


def test_the_gradient_by_finite_differences():
    X, _, source, objective, rng = problem()
    L = 0.5 * rng.standard_normal((2, X.shape[1]))
    triplets = ImpliedTriplets(source)

    def value(flat):
        return objective.value(flat.reshape(L.shape), triplets)[0]

    def gradient(flat):
        return objective.value(flat.reshape(L.shape), triplets)[1].ravel()

    assert check_grad(value, gradient, L.ravel()) < 1e-5


def last_objective(learner, X, y, k=3):
    """The objective of all triplets at the learned metric, by loops, in the units of the fit."""
    unit = 2 * X.var(axis=0).sum()
    M = learner.metric_.matrix * unit
    return objective_by_loops(M, X / np.sqrt(unit), y, targets(X, y, k), PUSH)[0]


@pytest.mark.parametrize("name", ["iris", "wine"])
def test_no_impostor_is_missed_and_the_optimum_is_reached(name):
    X, y = {"iris": load_iris, "wine": load_wine}[name](return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[::3], y[::3]
    learner = LMNN(scale="unit", tol=1e-9, max_iter=2000).fit(X, y)
    found = last_objective(learner, X, y)
    assert learner.history_.objective[-1] == pytest.approx(found, rel=1e-8)
    unit = 2 * X.var(axis=0).sum()
    pairs = targets(X, y, 3)
    long_run = min(
        projected_gradient(X / np.sqrt(unit), y, pairs, PUSH, n_steps=150, step=step)
        for step in (1.0, 10.0)
    )
    assert found <= long_run * (1 + 1e-6)


def test_triplets_that_are_not_listed_give_the_same_optimum(monkeypatch):
    X, y = (part[::2] for part in load_wine(return_X_y=True))
    learner = LMNN(scale="standard", tol=1e-10, max_iter=2000)
    listed = learner.fit(X, y).history_.objective[-1]
    monkeypatch.setattr(module, "_MOST_PER_ROW", 0)
    monkeypatch.setattr(module, "_FEW", 0)
    implied = learner.fit(X, y).history_.objective[-1]
    assert listed == pytest.approx(implied, rel=1e-3)


def test_given_triplets_cost_what_their_margins_lack():
    X, y, _, _, rng = problem(n=25)
    index = [(i, j, m) for i, j in targets(X, y, 2) for m in range(25) if y[m] != y[i]]
    a, near, far = np.array(index).T
    given = GivenTriplets(X, Triplets(index))
    ratios = []
    for size in (0.1, 0.5, 2.0):
        P = X @ (size * rng.standard_normal((3, X.shape[1]))).T
        h = ((P[:, None] - P) ** 2).sum(axis=2)
        lacking = np.maximum(0, 1 + h[a, near] - h[a, far]).sum()
        ratios.append(given.around(P).evaluate(P)[0] / lacking)
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-10)


def test_triplets_and_pairs_are_taken():
    X, y = load_iris(return_X_y=True)
    i = np.arange(0, 150, 3)
    pairs = Pairs(
        np.vstack([np.column_stack([i, i + 1]), np.column_stack([i, (i + 60) % 150])]),
        np.concatenate([y[i] == y[i + 1], y[i] == y[(i + 60) % 150]]),
    )
    first = LMNN(scale="standard").fit(X, pairs)
    second = LMNN(scale="standard").fit(X, pairs.triplets())
    np.testing.assert_allclose(first.metric_.matrix, second.metric_.matrix)
    assert first.score(X, pairs) > 0.9


def test_updated_targets_lower_the_distances_to_them():
    X, y = load_wine(return_X_y=True)
    fixed = LMNN(scale="standard").fit(X, y)
    updated = LMNN(scale="standard", update_targets=3).fit(X, y)
    assert updated.n_iter_ > fixed.n_iter_
    assert (updated.metric_.matrix != fixed.metric_.matrix).any()


def test_low_rank():
    X, y = load_digits(return_X_y=True)
    learner = LMNN(n_components=5, scale="unit").fit(X[:500], y[:500])
    assert learner.components_.shape == (5, 64)
    assert learner.history_.objective[-1] < learner.history_.objective[0]


def test_single_precision():
    X, y = load_wine(return_X_y=True)
    learner = LMNN(scale="standard").fit(X.astype(np.float32), y)
    assert learner.transform(X.astype(np.float32)).dtype == np.float32
    exact = LMNN(scale="standard").fit(X, y).metric_.distances(X)
    np.testing.assert_allclose(learner.metric_.distances(X), exact, rtol=0.1, atol=0.1)


def test_a_class_of_one_has_no_targets():
    X, y, _ = points_with_a_single(0)
    learner = LMNN(scale="unit", n_neighbors=2).fit(X, y)
    assert np.isfinite(learner.metric_.L).all()


def test_units():
    X, y = load_wine(return_X_y=True)
    first = LMNN(scale="unit").fit(X, y).metric_.distances(X)
    second = LMNN(scale="unit").fit(1000 * X, y).metric_.distances(1000 * X)
    np.testing.assert_allclose(first, second, rtol=1e-6)


def test_the_best_factor_minimises_along_the_ray():
    X, y, source, objective, _ = problem(1)
    L = np.eye(X.shape[1])
    best = best_factor(source.sample(objective.embed(L)), PUSH)
    values = {
        s: objective_by_loops(s * np.eye(X.shape[1]), X, y, targets(X, y, 2), PUSH)[0]
        for s in best * np.array([0.5, 0.9, 1.0, 1.1, 2.0])
    }
    assert min(values, key=values.__getitem__) == pytest.approx(best)


def test_iterations_that_run_out():
    X, y = load_wine(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="max_iter=2 was reached"):
        LMNN(max_iter=2, tol=1e-9, scale="standard").fit(X, y)


def test_a_warm_start_continues():
    X, y = load_wine(return_X_y=True)
    whole = LMNN(scale="standard", tol=1e-8, max_iter=1000).fit(X, y)
    learner = LMNN(scale="standard", tol=1e-8, max_iter=5, warm_start=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        learner.fit(X, y)
    learner.set_params(max_iter=1000).fit(X, y)
    assert learner.history_.objective[-1] == pytest.approx(whole.history_.objective[-1], rel=1e-4)
