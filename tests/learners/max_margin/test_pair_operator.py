from __future__ import annotations

import numpy as np
import pytest

from nearfar.learners.max_margin.pair_operator import PairOperator, Solution
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
