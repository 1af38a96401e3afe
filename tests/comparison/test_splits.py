from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedKFold

from nearfar.comparison.splits import Cell, Splits, stratified_order


def splits(n, n_classes, n_folds=5, **options):
    y = np.arange(n) % n_classes
    folds = list(StratifiedKFold(n_folds).split(y[:, None], y))
    return Splits(folds, y, **options)


@given(st.lists(st.integers(2, 60), min_size=2, max_size=6), st.integers(0, 99), st.data())
def test_the_first_rows_are_a_stratified_sample(sizes, seed, data):
    y = np.repeat(np.arange(len(sizes)), sizes)
    order = stratified_order(y, np.random.default_rng(seed))
    assert sorted(order) == list(range(len(y)))
    n = data.draw(st.integers(2 * len(sizes), len(y)))
    counts = np.bincount(y[order[:n]], minlength=len(sizes))
    assert counts.min() >= 2
    # Classes that are not at their minimum have the same share, up to a row.
    more = counts > 2
    lower = (counts[more] - 1) / np.array(sizes)[more]
    upper = (counts[more] + 1) / np.array(sizes)[more]
    assert lower.max(initial=0.0) <= upper.min(initial=2.0)


@pytest.mark.parametrize(
    ("n", "n_classes", "sizes"),
    [
        (1000, 2, [800]),
        (1500, 2, [300, 1200]),
        (3000, 75, [300, 2400]),
        (3000, 150, [600, 2400]),
        (30_000, 10, [300, 1200, 4800, 24_000]),
    ],
)
def test_stages(n, n_classes, sizes):
    found = splits(n, n_classes).stages
    assert found[:-1] == [[Cell(0, size)] for size in sizes]
    assert found[-1] == [Cell(fold, sizes[-1]) for fold in range(1, 5)]


def test_many_neighbours_need_larger_samples():
    assert splits(6000, 2, n_neighbors=100).stages[0] == [Cell(0, 1000)]


def test_samples_are_nested_and_apart_from_test_rows():
    found = splits(30_000, 10, seed=3)
    cells = [stage[0] for stage in found.stages[:-1]]
    rows = [found.rows(cell) for cell in cells]
    for (small, tested), (large, _) in pairwise(rows):
        assert set(small) < set(large)
        assert len(tested) == 1000
        assert not set(tested) & set(large)
    assert [len(train) for train, _ in rows] == [cell.n_train for cell in cells]
    np.testing.assert_array_equal(rows[-1][0], found.folds[0][0])
    again = splits(30_000, 10, seed=3).rows(cells[0])
    for one, other in zip(again, rows[0], strict=True):
        np.testing.assert_array_equal(one, other)
