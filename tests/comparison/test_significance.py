"""Tests of the difference between two methods."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from nearfar.comparison.significance import holm, row_test


def test_queries_are_independent() -> None:
    difference = np.random.default_rng(0).normal(0.2, 1.0, size=40)
    assert row_test(difference) == pytest.approx(ttest_1samp(difference, 0).pvalue)
    assert row_test(difference) < row_test(difference, 4.0)


@pytest.mark.parametrize("difference", [np.zeros(9), np.ones(1)])
def test_nothing_is_significant_without_differences_or_queries(difference: np.ndarray) -> None:
    assert row_test(difference) == 1.0


def test_holm_by_hand() -> None:
    assert holm(np.array([0.01, 0.04, 0.03])).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert holm(np.array([0.9, 0.8])).tolist() == [1.0, 1.0]
    assert len(holm(np.array([]))) == 0
