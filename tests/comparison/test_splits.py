from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nearfar.comparison.tasks import folds_within, row_folds, stratified_order


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


def test_a_sample_has_the_folds_of_all_rows():
    y = np.arange(60) % 3
    folds = row_folds(y, 5, None, 0)
    rows = stratified_order(y, np.random.default_rng(0))[:30]
    few = folds_within(folds, rows, 60)
    assert sorted(np.concatenate([test for _, test in few])) == sorted(rows)
    for (train, test), (small, tested) in zip(folds, few, strict=True):
        assert set(small) <= set(train)
        assert set(tested) <= set(test)
    assert folds_within([(np.arange(4), np.arange(4, 6))], np.arange(4), 6) == []
