"""Costs of triplets and the search for impostors, against loops over all triplets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad

from nearfar import Triplets
from nearfar.learners.classic import impostors as module
from nearfar.learners.classic.impostors import (
    GivenTriplets,
    ImpliedTriplets,
    Impostors,
    LabelTriplets,
)
from nearfar.learners.classic.lmnn import Objective
from problems import labelled, points_with_a_single, set_bands
from references import lmnn as reference

N_TARGETS = 3
PUSH = 0.3


def problem(seed, **options):
    """Random points, all triplets of their targets, and the same as lists."""
    X, y, rng = points_with_a_single(seed, **options)
    y = np.unique(y, return_inverse=True)[1]
    pairs = reference.targets(X, y, N_TARGETS)
    return X, Impostors.nearest(X, y, N_TARGETS), pairs, reference.triplets(y, pairs), rng


def squared_distances(P):
    return ((P[:, None] - P[None]) ** 2).sum(axis=-1)


def costs_of(comparisons, P):
    H = squared_distances(P)
    return {t: 1.0 + H[t[0], t[1]] - H[t[0], t[2]] for t in comparisons}


def listed(impostors, keys):
    """Return keys of triplets as tuples."""
    n, n_targets = impostors.targets.shape
    pair, number = np.divmod(keys, n_targets)
    anchor, far = np.divmod(pair, n)
    near = impostors.targets[anchor, number]
    return list(zip(anchor.tolist(), near.tolist(), far.tolist(), strict=True))


MAPS = {"wide": 2.0, "narrow": 0.3, "low rank": 1.0}


@pytest.fixture(params=MAPS)
def case(request):
    X, impostors, pairs, comparisons, rng = problem(len(request.param))
    L = MAPS[request.param] * rng.standard_normal((2 if request.param == "low rank" else 3, 3))
    return X, impostors, pairs, comparisons, L


def kinds(X, impostors, comparisons, P):
    return [
        impostors.around(P),
        ImpliedTriplets(impostors),
        GivenTriplets(X, Triplets(comparisons)).around(P),
    ]


def test_the_objective_is_that_of_a_loop(case, band_rows):
    X, impostors, pairs, comparisons, L = case
    expected = reference.objective(squared_distances(X @ L.T), pairs, comparisons, PUSH)
    for source in (impostors, GivenTriplets(X, Triplets(comparisons))):
        objective = Objective(X, source, PUSH)
        for costs in kinds(X, impostors, comparisons, X @ L.T):
            assert objective.value(L, costs)[0] == pytest.approx(expected, rel=1e-12)


def test_the_gradient_is_that_of_finite_differences(case):
    X, impostors, _, comparisons, L = case
    objective = Objective(X, impostors, PUSH)
    for costs in kinds(X, impostors, comparisons, X @ L.T):
        error = check_grad(
            lambda flat, costs=costs: objective.value(flat.reshape(L.shape), costs)[0],
            lambda flat, costs=costs: objective.value(flat.reshape(L.shape), costs)[1].ravel(),
            L.ravel(),
        )
        assert error < 1e-5 * np.linalg.norm(objective.value(L, costs)[1])


@pytest.mark.parametrize("slack", [0.0, 0.25, 5.0])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_the_search_misses_nothing(case, band_rows, slack, shift):
    X, impostors, _, comparisons, L = case
    P = X @ L.T + shift
    costs = costs_of(comparisons, P)
    found = listed(impostors, impostors.search(P, slack))
    assert len(found) == len(set(found))
    assert set(found) <= set(comparisons)
    assert {t for t, cost in costs.items() if cost > -slack} <= set(found)
    assert all(costs[t] > -slack - 1e-3 for t in found)


def test_an_outlier_does_not_spoil_the_search():
    X, impostors, _, comparisons, _ = problem(3)
    P = X.copy()
    P[4] = 1e6
    costs = costs_of(comparisons, P)
    found = listed(impostors, impostors.search(P, 0.25))
    assert {t for t, cost in costs.items() if cost > -0.25} <= set(found)
    assert all(costs[t] > -0.5 for t in found)


def test_too_many_triplets_are_not_listed(monkeypatch):
    X, impostors, _, _, _ = problem(4)
    some, all_of_them = 10.0 * X, 0.1 * X
    n_some = len(impostors.search(some, 0.25))
    monkeypatch.setattr(module, "_ALWAYS_LISTED", n_some)
    monkeypatch.setattr(module, "_MOST_PER_TARGET", 0)
    assert impostors.search(all_of_them, 0.25) is None
    few, many = impostors.around(some), impostors.around(all_of_them)
    assert isinstance(few, LabelTriplets)
    assert isinstance(many, ImpliedTriplets)
    assert few.joined(many) is many.joined(few) is many
    assert few.joined(few).keys.tolist() == sorted(few.keys)


def test_joined_triplets_are_those_of_both(monkeypatch):
    X, impostors, _, _, rng = problem(5)
    one, other = (impostors.around(X @ rng.standard_normal((3, 3))) for _ in range(2))
    both = one.joined(other)
    assert set(both.keys) == set(one.keys) | set(other.keys)
    parts = dict(zip(one.keys, one.margins(X), strict=True))
    parts |= dict(zip(other.keys, other.margins(X), strict=True))
    np.testing.assert_allclose(both.margins(X), [parts[key] for key in both.keys])
    monkeypatch.setattr(module, "_ALWAYS_LISTED", len(both) - 1)
    monkeypatch.setattr(module, "_MOST_PER_TARGET", 0)
    assert isinstance(one.joined(other), ImpliedTriplets)


def test_float32_is_as_good_as_it_can_be():
    X, y, _ = labelled(n=200, dtype=np.float32)
    source = Impostors.nearest(X, y, N_TARGETS)
    precise = Objective(X.astype(np.float64), source, PUSH)
    for L in (np.eye(4), 3.0 * np.eye(4)):
        P = X @ L.T.astype(np.float32)
        for costs in (source.around(P), ImpliedTriplets(source)):
            value, gradient = Objective(X, source, PUSH).value(L, costs)
            exact, slope = precise.value(L, ImpliedTriplets(source))
            assert value == pytest.approx(exact, rel=1e-5)
            np.testing.assert_allclose(gradient, slope, atol=1e-3 * np.abs(slope).max())


class TestGiven:
    def test_weights_count_as_repetitions(self):
        X, _, _, comparisons, rng = problem(6)
        chosen = np.array(comparisons)[rng.permutation(len(comparisons))[:60]]
        weight = rng.integers(1, 4, len(chosen))
        repeated = GivenTriplets(X, Triplets(np.repeat(chosen, weight, axis=0)))
        for factor in (1.0, 7.0):
            weighted = GivenTriplets(X, Triplets(chosen, factor * weight))
            for L in (np.eye(3), 0.2 * np.eye(3)):
                values = [
                    Objective(X, given, PUSH).value(L, given.around(X))[0]
                    for given in (repeated, weighted)
                ]
                assert values[0] == pytest.approx(values[1], rel=1e-12)

    def test_a_pair_weighs_as_much_as_its_triplets(self):
        X = np.array([[0.0], [1.0], [2.0], [5.0]])
        triplets = Triplets([[0, 1, 2], [0, 1, 3], [3, 2, 0]], [1.0, 2.0, 3.0])
        given = GivenTriplets(X, triplets)
        np.testing.assert_allclose(given.pair_weight, [1.5 / 4.5, 3.0 / 4.5])
        np.testing.assert_allclose(given.triplets.weight, np.array([1.0, 2.0, 3.0]) / 4.5)


def test_a_sample_of_all_anchors_has_all_triplets():
    X, impostors, pairs, comparisons, _ = problem(7)
    pull, margins, weight = impostors.sample(X)
    given = GivenTriplets(X, Triplets(comparisons)).sample(X)
    assert pull == pytest.approx(given.pull)
    np.testing.assert_allclose(np.sort(margins), np.sort(given.margins))
    np.testing.assert_allclose(weight, 1.0 / len(pairs))


def test_threads_share_the_search(monkeypatch):
    X, y, _ = labelled(n=300)
    set_bands(monkeypatch, 16)
    source = Impostors.nearest(X, y, N_TARGETS)
    several = source.search(X, 0.25)
    source.tiles.threads.n_threads = 1
    np.testing.assert_array_equal(several, source.search(X, 0.25))
