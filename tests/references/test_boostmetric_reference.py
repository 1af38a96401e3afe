"""Sanity tests of the reference implementations themselves."""

from __future__ import annotations

import numpy as np
import pytest

from references import boostmetric

Problem = tuple[boostmetric.Floats, boostmetric.Ints]


@pytest.fixture(scope="module")
def iris() -> Problem:
    """Every second standardised iris row, with its 3 x 3 mined triplets."""
    X, y = pytest.importorskip("sklearn.datasets").load_iris(return_X_y=True)
    X, y = X[::2], y[::2]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, boostmetric.mine(X, y, 3, 3)


@pytest.fixture(scope="module")
def overlap() -> Problem:
    """Two overlapping Gaussian classes in five dimensions."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 5)) * [1.0, 2.0, 0.5, 1.0, 3.0] + 0.7 * y[:, None]
    return X, boostmetric.mine(X, y, 2, 3)


def test_triplet_matrix_gives_difference_of_squared_distances() -> None:
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    A = boostmetric.triplet_matrices(X, [(0, 1, 2)])
    np.testing.assert_array_equal(A, [[[-1.0, 0.0], [0.0, 9.0]]])
    assert np.sum(A[0] * np.eye(2)) == 8.0


def test_weights_sum_to_one_and_survive_huge_margins() -> None:
    u = boostmetric.weights(np.array([-2000.0, -2000.0, 3000.0]), np.array([1.0, 3.0, 1.0]))
    np.testing.assert_allclose(u, [0.25, 0.75, 0.0])
    rho = np.random.default_rng(1).normal(size=50)
    assert np.sum(boostmetric.weights(rho, np.ones(50))) == pytest.approx(1.0, abs=1e-14)


def test_objective_by_hand() -> None:
    A = np.array([[[2.0]], [[-1.0]]])
    M = np.array([[0.5]])
    plain = np.log(np.exp(-1.0) + np.exp(0.5)) + 0.3 * 0.5
    assert boostmetric.objective(A, M, 0.3) == pytest.approx(plain, abs=1e-14)
    heavy = np.log(0.5 * np.exp(-1.1) + 1.5 * np.exp(0.7)) + 0.3 * 0.5
    value = boostmetric.objective(A, M, 0.3, np.array([2.0, 6.0]), np.array([0.1, -0.2]))
    assert value == pytest.approx(heavy, abs=1e-14)


def test_bisection_step_has_the_closed_form_of_adaboost() -> None:
    u = np.array([0.5, 0.2, 0.3])
    w, capped = boostmetric.bisection_step(np.array([1.0, 1.0, -1.0]), u, 0.0, 0.4)
    assert not capped
    assert w == pytest.approx(0.5 * np.log(0.7 / 0.3), rel=1e-12)


def test_bisection_step_solves_its_equation() -> None:
    rng = np.random.default_rng(2)
    H = rng.normal(0.3, 1.0, size=200)
    u = rng.dirichlet(np.ones(200))
    v = 0.01
    w, capped = boostmetric.bisection_step(H, u, v, float(u @ H))
    q = u * np.exp(-w * H)
    assert not capped
    assert w > 0.0
    assert q @ H / q.sum() == pytest.approx(v, abs=1e-12)


def test_bisection_step_is_capped_without_a_root() -> None:
    H = np.array([1.0, 2.0])
    assert boostmetric.bisection_step(H, np.array([0.5, 0.5]), 1e-7, 1.5) == (50.0 / 1.5, True)


@pytest.mark.parametrize("penalty", [1e-7, 0.05])
def test_boosting_lowers_the_objective_each_round(overlap: Problem, penalty: float) -> None:
    X, triplets = overlap
    found = boostmetric.boost(X, triplets, penalty=penalty, max_iter=60)
    A = boostmetric.triplet_matrices(X, triplets)
    path = np.concatenate([[np.log(len(triplets))], found.objectives])
    assert len(found.steps) > 2
    assert np.all(np.diff(path) < 1e-13)
    assert np.all(found.steps > 0.0)
    M = np.einsum("j,ja,jb->ab", found.steps, found.directions, found.directions)
    np.testing.assert_allclose(found.M, M, rtol=1e-12, atol=1e-12)
    assert boostmetric.objective(A, M, found.v) == pytest.approx(path[-1], abs=1e-11)
    u = boostmetric.weights(np.einsum("rab,ab->r", A, M), np.ones(len(A)))
    np.testing.assert_allclose(found.u, u, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("name", ["logistic", "squared_hinge"])
def test_boosting_a_mean_lowers_the_objective_each_round(overlap: Problem, name: str) -> None:
    X, triplets = overlap
    found = boostmetric.boost_mean(X, triplets, name, penalty=0.01, max_iter=12)
    start = {"logistic": np.log(2.0), "squared_hinge": 1.0}[name]
    assert len(found.steps) > 2
    assert np.all(np.diff([start, *found.objectives]) < 1e-13)
    gap, excess = boostmetric.optimality(X, triplets, found.M, name, found.v)
    nothing = boostmetric.optimality(X, triplets, np.zeros((5, 5)), name, found.v)
    assert nothing == (0.0, pytest.approx(99 * found.v))
    assert 0 < abs(gap) + excess < nothing[1]


def test_losses_of_margins_by_hand() -> None:
    values, slopes = boostmetric.pointwise("logistic", np.array([0.0, -1000.0, np.log(3.0)]))
    np.testing.assert_allclose(values, [np.log(2.0), 1000.0, np.log(4.0 / 3.0)])
    np.testing.assert_allclose(slopes, [0.5, 1.0, 0.25])
    values, slopes = boostmetric.pointwise("squared_hinge", np.array([-1.0, 0.5, 3.0]))
    assert values.tolist() == [4.0, 0.25, 0.0]
    assert slopes.tolist() == [4.0, 1.0, 0.0]


def test_full_penalty_learns_nothing(overlap: Problem) -> None:
    X, triplets = overlap
    found = boostmetric.boost(X, triplets, penalty=1.0)
    assert found.directions.shape == (0, 5)
    assert not found.M.any()
    M, value = boostmetric.optimum(X, triplets, v=found.v)
    assert value == pytest.approx(np.log(len(triplets)), abs=1e-9)
    assert np.trace(M) < 1e-4


def test_boosting_stops_once_all_triplets_are_far_apart() -> None:
    rng = np.random.default_rng(4)
    y = np.arange(30) % 3
    X = rng.normal(size=(30, 8))
    X[:, :2] = 0.25 * X[:, :2] + 2.0 * np.column_stack([y == 1, y == 2])
    triplets = boostmetric.mine(X, y, 2, 2)
    m = len(triplets)
    found = boostmetric.boost(X, triplets)
    A = boostmetric.triplet_matrices(X, triplets)
    rho = np.einsum("rab,ab->r", A, found.M)
    assert 1 < len(found.steps) < 500
    assert found.steps[-1] < 50.0 / found.eigenvalues[-1]
    assert np.all(rho >= 0.0)
    losses = found.objectives - found.v * np.cumsum(found.steps)
    assert losses[-1] < np.log(m) - 20.0 <= losses[-2]


def test_capped_step_ends_boosting() -> None:
    X = np.array([[0.0, 0.0], [0.0, 1.0], [2.0, 0.0], [2.0, 1.0]])
    found = boostmetric.boost(X, boostmetric.mine(X, [0, 0, 1, 1], 1, 1))
    assert len(found.steps) == 1
    assert found.steps[0] == 50.0 / found.eigenvalues[0]


@pytest.mark.parametrize("penalty", [1e-7, 0.1])
def test_optimum_is_not_above_boosting(iris: Problem, penalty: float) -> None:
    X, triplets = iris
    found = boostmetric.boost(X, triplets, penalty=penalty)
    M, value = boostmetric.optimum(X, triplets, v=found.v)
    assert value <= found.objectives[-1] + 1e-12
    assert value > found.objectives[-1] - 1.0
    assert np.linalg.eigvalsh(M)[0] > -1e-10


def test_optimum_is_a_local_minimum(overlap: Problem) -> None:
    X, triplets = overlap
    rng = np.random.default_rng(3)
    weight = rng.uniform(0.5, 2.0, size=len(triplets))
    A = boostmetric.triplet_matrices(X, triplets)
    offset = np.einsum("rii->r", A) / 50.0
    M, value = boostmetric.optimum(X, triplets, weight=weight, v=0.2, offset=offset)
    for size in [1e-4, 1e-2, 1.0]:
        for _ in range(20):
            L = np.linalg.cholesky(M + 1e-9 * np.eye(5)).T + size * rng.normal(size=(5, 5))
            assert boostmetric.objective(A, L.T @ L, 0.2, weight, offset) > value - 1e-9


def test_unbounded_objective_is_refused() -> None:
    X = np.array([[0.0, 0.0], [0.0, 1.0], [2.0, 0.0], [2.0, 1.0]])
    triplets = boostmetric.mine(X, [0, 0, 1, 1], 1, 1)
    with pytest.raises(ValueError, match="unbounded"):
        boostmetric.optimum(X, triplets, v=1e-7)


def test_duplicated_triplet_is_a_doubled_weight(overlap: Problem) -> None:
    X, triplets = overlap
    m = len(triplets)
    weight = np.ones(m)
    weight[7] = 2.0
    twice = np.concatenate([triplets, triplets[7:8]])
    a = boostmetric.boost(X, triplets, weight=weight, penalty=0.01, max_iter=10)
    b = boostmetric.boost(X, twice, penalty=0.01, max_iter=10)
    np.testing.assert_allclose(a.M, b.M, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        a.objectives - np.log(m), b.objectives - np.log(m + 1), rtol=0.0, atol=1e-11
    )


def test_offset_of_a_prior_shifts_the_start(overlap: Problem) -> None:
    X, triplets = overlap
    A = boostmetric.triplet_matrices(X, triplets)
    prior = 0.1 * np.eye(5)
    offset = np.einsum("rab,ab->r", A, prior)
    plain = boostmetric.boost(X, triplets, max_iter=5)
    found = boostmetric.boost(X, triplets, max_iter=5, offset=offset)
    assert found.v == plain.v
    value = boostmetric.objective(A, found.M + prior, found.v) - found.v * np.trace(prior)
    assert found.objectives[-1] == pytest.approx(value, abs=1e-12)


def test_mine_breaks_ties_by_row_number() -> None:
    X = np.array([[0.0], [1.0], [-1.0 - 1e-12], [2.0], [-2.0], [9.0]])
    triplets = boostmetric.mine(X, [0, 0, 0, 1, 1, 2], 2, 2)
    assert triplets[:4].tolist() == [[0, 1, 3], [0, 1, 4], [0, 2, 3], [0, 2, 4]]
    assert not np.any(triplets[:, 0] == 5)
    assert boostmetric.mine(X, np.zeros(6), 2, 2).shape == (0, 3)
