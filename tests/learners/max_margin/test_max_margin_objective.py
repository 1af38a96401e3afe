from __future__ import annotations

import numpy as np
import pytest

from nearfar import Pairs
from nearfar.learners.max_margin.cutting_planes import PairOperator, Solution
from problems import random_pairs
from references import maxmargin as reference


def test_planes_and_margins_equal_loops():
    X, pairs = random_pairs(6, weighted=True)
    operator = PairOperator(X, pairs, unit=2.0)
    rng = np.random.default_rng(0)
    L = rng.standard_normal((3, 4))
    A = L.T @ L
    solution = Solution(A, 0.7, operator.distances(L))
    scaled = X / np.sqrt(2.0)
    expected = reference.margins(A, 0.7, scaled, pairs.index, pairs.similar)
    np.testing.assert_allclose(operator.margins(solution), expected, rtol=1e-12)
    c = reference.most_violated(A, 0.7, scaled, pairs.index, pairs.similar)
    G, delta, s = reference.cut(c, scaled, pairs.index, pairs.similar, pairs.weight)
    plane = operator.plane(solution)
    np.testing.assert_allclose(plane.G, G, atol=1e-12)
    assert plane.slope_b == pytest.approx(s)
    assert plane.offset == pytest.approx(delta)
    touches = plane.offset - plane.slope_b * 0.7 + (plane.G * A).sum()
    assert touches == pytest.approx(operator.mean_hinge(solution), rel=1e-12)


def test_units_are_the_mean_squared_distance_or_given():
    X, pairs = random_pairs(6, weighted=True)
    squared = ((X[pairs.index[:, 0]] - X[pairs.index[:, 1]]) ** 2).sum(axis=1)
    mean = np.average(squared, weights=pairs.weight)
    operator = PairOperator(X, pairs)
    assert operator.unit == pytest.approx(mean)
    np.testing.assert_allclose(operator.p, pairs.weight / pairs.weight.sum(), rtol=1e-14)
    assert PairOperator(X, pairs, unit=2.0).unit == 2.0
    assert PairOperator(0 * X, pairs).unit == 1.0
    for far in (1e-9, 1e9):
        with pytest.raises(ValueError, match="too far from one"):
            PairOperator(np.sqrt(far / mean) * X, pairs, unit=1.0)


def test_pairs_without_weight_do_not_count():
    X, pairs = random_pairs(6, weighted=True)
    weight = pairs.weight.copy()
    weight[:5] = 0.0
    few = PairOperator(X, Pairs(pairs.index[5:], pairs.similar[5:], weight[5:]))
    all_of_them = PairOperator(X, Pairs(pairs.index, pairs.similar, weight))
    np.testing.assert_allclose(all_of_them.p, [*np.zeros(5), *few.p])
    assert all_of_them.unit == pytest.approx(few.unit)


def test_a_share_of_the_way_to_another_solution():
    one, other = Solution(np.eye(2), 1.0, np.zeros(3)), Solution(3 * np.eye(2), 2.0, np.ones(3))
    quarter = one.toward(other, 0.25)
    np.testing.assert_allclose(quarter.A, 1.5 * np.eye(2))
    np.testing.assert_allclose(quarter.z, 0.25)
    assert quarter.b == 1.25
