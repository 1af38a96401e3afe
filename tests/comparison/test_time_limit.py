from __future__ import annotations

import numpy as np
import pytest

from comparison.helpers import FakeClock, Timed
from nearfar import compare
from nearfar.comparison.runner import affordable_rows, rows_within


@pytest.mark.parametrize(("power", "expected"), [(1.0, 12_307), (2.0, 1_921)])
def test_two_sizes_tell_how_the_time_grows(power, expected):
    clock, tried = FakeClock(), []

    def run(n):
        tried.append(n)
        seconds = 0.1 * (n / 300) ** power
        clock.now += seconds
        return seconds

    start = clock.now
    found = affordable_rows(run, 20_000, 5, lambda: 30 - (clock.now - start))
    assert tried[:2] == [300, 1200]
    assert found == pytest.approx(expected, rel=0.15)
    # What is chosen takes no more than the time that is left.
    assert 5 * 0.1 * (found / 300) ** power <= 30 - (clock.now - start)


def test_small_tables_are_not_timed():
    assert affordable_rows(lambda n: 1 / 0, 300, 5, lambda: 0.0) == 300
    assert rows_within(1e9, {300: 1.0}, 900) == 900
    assert rows_within(-1.0, {300: 1.0}, 900) == 0


def test_all_methods_have_the_same_smaller_sample():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(1000, 3)), np.arange(1000) % 2
    clock = FakeClock()
    found = compare(X, y, {"slow": Timed(clock, 2.0)}, budget=20, clock=clock, n_neighbors=3)
    assert 100 <= len(found.sample) < 1000
    for result in found.results + found.classifiers:
        tested = np.flatnonzero(~np.isnan(result.wrong))
        np.testing.assert_array_equal(tested, found.sample)
    assert f"{len(found.sample)} of 1000 rows" in found.verdicts[0]
    assert found.to_dict()["n_sampled"] == len(found.sample)
    clock = FakeClock()
    enough = compare(X, y, {"slow": Timed(clock, 2.0)}, budget=90, clock=clock, n_neighbors=3)
    assert enough.sample is None
    assert enough.findings == []
