"""Decisions on pairs that a threshold was not chosen on."""

from __future__ import annotations

import numpy as np

from nearfar import Metric, Pairs
from nearfar.tables.verify import held_out_decisions

METRIC = Metric.identity(1)


def chain(similar):
    """Separate pairs of rows; similar ones are 1 apart, the others 5."""
    n = len(similar)
    start = 100.0 * np.arange(n)
    X = np.column_stack([start, start + np.where(similar, 1.0, 5.0)]).reshape(-1, 1)
    return X, Pairs(np.arange(2 * n).reshape(-1, 2), similar)


def test_decisions_are_those_of_thresholds_on_other_pairs():
    X, pairs = chain(np.arange(20) % 3 == 0)
    np.testing.assert_array_equal(held_out_decisions(METRIC, X, pairs), pairs.similar)


def test_a_pair_does_not_choose_its_own_threshold():
    """Similar pairs are ever farther, and all nearer than the others: the farthest is missed."""
    n = 10
    lengths = np.r_[2.0 ** np.arange(n), np.full(n, 5000.0)]
    X = np.stack([10000.0 * np.arange(2 * n), 10000.0 * np.arange(2 * n) + lengths], axis=1)
    pairs = Pairs(np.arange(4 * n).reshape(-1, 2), np.arange(2 * n) < n)
    same = held_out_decisions(METRIC, X.reshape(-1, 1), pairs)
    assert not same[n - 1]
    assert same[: n - 5].all()
    assert not same[n:].any()


def test_too_few_pairs_to_split():
    X, pairs = chain(np.array([True, False, False]))
    assert held_out_decisions(METRIC, X, pairs) is None
