from __future__ import annotations

import pytest

from nearfar.comparison.fit_cost import CostModel


@pytest.fixture
def costs():
    return CostModel()


def test_nothing_is_known(costs):
    assert costs.predict("it", 100) == 0


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_two_sizes_give_the_exponent(costs, power):
    for n in (300, 1200):
        costs.observe("it", n, 0.5 * (n / 300) ** power)
    assert costs.predict("it", 4800) == pytest.approx(0.5 * 16**power)
    # Other methods are expected to grow in the same way.
    costs.observe("other", 300, 2.0)
    assert costs.predict("other", 1200) == pytest.approx(2 * 4**power)


def test_exponents_are_bounded(costs):
    costs.observe("it", 300, 1.0)
    costs.observe("it", 600, 100.0)
    assert costs.predict("it", 1200) == pytest.approx(100 * 2**2.5)


def test_times_too_short_to_measure_say_nothing_of_exponents(costs):
    costs.observe("it", 300, 1e-5)
    costs.observe("it", 1200, 1.0)
    assert costs.predict("it", 2400) == pytest.approx(2**1.3)


def test_folds_of_the_same_size_are_averaged(costs):
    for seconds in (1.0, 3.0):
        costs.observe("it", 300, seconds)
    assert costs.predict("it", 300) == 2
    assert costs.predict("it", 301) == pytest.approx(2 * (301 / 300) ** 1.3)


def test_what_did_not_finish_takes_at_least_twice_as_long(costs):
    costs.observe("it", 300, 1.0)
    costs.observe_unfinished("it", 1200, 10.0)
    assert costs.predict("it", 1200) == 20
    assert costs.predict("it", 300) == 1
    costs.observe("it", 1200, 30.0)
    assert costs.predict("it", 1200) == 30
