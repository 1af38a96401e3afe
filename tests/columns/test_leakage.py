"""Columns that tell the class of every row."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar.columns.leakage import leaking_columns, leaking_numbers

Y = np.arange(600) % 3
RNG = np.random.default_rng(0)
COLUMNS = {
    "codes": (np.array([7.0, 1.0, 3.0])[Y], True),
    "ranges": (10.0 * np.array([2, 0, 1])[Y] + RNG.random(600), True),
    "nearly": (10.0 * np.array([2, 0, 1])[Y] + RNG.random(600), False),
    "noise": (RNG.random(600), False),
    "constant": (np.zeros(600), False),
    "two classes in one range": (np.array([0.0, 0.0, 9.0])[Y], False),
    "two ranges of a class": (np.array([0.0, 1.0, 2.0])[Y] + 5 * (np.arange(600) > 300), True),
}
COLUMNS["nearly"][0][301] = 25.5


@pytest.mark.parametrize("name", COLUMNS)
def test_numbers(name):
    values, expected = COLUMNS[name]
    assert leaking_columns(values[:, None], Y, [name]) == [name] * expected


def test_categories():
    one_hot = np.eye(3)[(Y + 1) % 3]
    assert leaking_columns(one_hot, Y, ["c"] * 3) == ["c"]
    one_hot[300:312:2] = one_hot[301]
    assert leaking_columns(one_hot, Y, ["c"] * 3) == ["c"]
    one_hot[300:330:2] = one_hot[301]
    assert leaking_columns(one_hot, Y, ["c"] * 3) == []
    finer = np.eye(6)[2 * Y + RNG.integers(2, size=600)]
    assert leaking_columns(finer, Y, ["c"] * 6) == ["c"]
    names_of_rows = np.eye(400)[np.arange(600) % 400]
    assert leaking_columns(names_of_rows, Y, ["c"] * 400) == []


def test_a_rare_class_is_no_proof():
    rare = (np.arange(600) > 595).astype(int)
    weekday = np.eye(7)[np.arange(600) % 7]
    assert leaking_columns(weekday, rare, ["c"] * 7) == []


def test_numbers_that_repeat():
    """Each value belongs to one class, and the values of a class are not an interval."""
    rates = np.array([[5.3, 11.0], [9.1, 7.2], [12.7, 6.0]])
    rate = rates[Y, np.arange(600) // 3 % 2]
    assert leaking_columns(rate[:, None], Y, ["rate"]) == ["rate"]


def test_few_rows_prove_nothing():
    assert leaking_columns(np.arange(10.0)[:, None], np.arange(10) // 5, ["x"]) == []


PRICE = np.round(RNG.lognormal(12, 0.5, 600), -2)
BESIDE_PRICE = {
    "rounded tax": (np.round(0.19 * PRICE), True),
    "falling": (-np.sqrt(PRICE), True),
    "another currency, some days later": (PRICE * RNG.normal(1.08, 0.01, 600), True),
    "area": (PRICE * RNG.lognormal(0, 0.2, 600), False),
    "constant": (np.zeros(600), False),
}


@pytest.mark.parametrize("name", BESIDE_PRICE)
def test_numbers_to_predict(name):
    values, expected = BESIDE_PRICE[name]
    X = np.column_stack([RNG.random(600), values])
    assert leaking_numbers(X, PRICE, ["noise", name]) == [name] * expected


def test_few_rows_prove_nothing_of_numbers():
    assert leaking_numbers(np.arange(10.0)[:, None], np.arange(10.0), ["x"]) == []


def test_copies_of_rows_prove_nothing():
    """Each of 150 rows three times: a number repeats, but only in copies of its row."""
    rows, y = RNG.normal(size=(150, 4)), RNG.integers(3, size=150)
    assert leaking_columns(np.tile(rows, (3, 1)), np.tile(y, 3), list("abcd")) == []
    rows[:, 0] = y + 10 * RNG.integers(3, size=150)
    assert leaking_columns(np.tile(rows, (3, 1)), np.tile(y, 3), list("abcd")) == ["a"]
