"""Decisions on pairs that a threshold was not chosen on."""

from __future__ import annotations

import numpy as np

from nearfar import Metric, Pairs
from nearfar.verification import held_out_decisions

METRIC = Metric.identity(1)


def chain(similar):
    """Separate pairs of rows; similar ones are 1 apart, the others 5."""
    n = len(similar)
    start = 100.0 * np.arange(n)
    X = np.column_stack([start, start + np.where(similar, 1.0, 5.0)]).reshape(-1, 1)
    return X, Pairs(np.arange(2 * n).reshape(-1, 2), similar)


def test_decisions_are_those_of_thresholds_on_other_pairs():
    X, pairs = chain(np.arange(20) % 3 == 0)
    seen = []

    def choose(known):
        seen.append({tuple(row) for row in known.index.tolist()})
        return METRIC.pair_distances(X, known)[known.similar].max()

    same = held_out_decisions(METRIC, X, pairs, choose)
    np.testing.assert_array_equal(same, pairs.similar)
    every = {tuple(row) for row in pairs.index.tolist()}
    left_out = [every - known for known in seen]
    assert sum(map(len, left_out)) == 20
    assert set.union(*left_out) == every


def test_too_few_pairs_to_split():
    X, pairs = chain(np.array([True, False, False]))
    assert held_out_decisions(METRIC, X, pairs, lambda known: 2.0) is None
