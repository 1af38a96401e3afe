"""The messy tables: their scoring, and that all columns are taken right but those named here."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import messy_tables
from messy import TABLES
from messy.answers import CATEGORY, DATE, LEFT_OUT, NUMBER, Answer
from messy.scoring import is_right
from nearfar.columns import Columns

N = 300
NOT_TAKEN = {
    # A number after a letter, and a word for 0.
    "shop orders": {"items"},
    "survey": {"Children"},
}


@pytest.mark.parametrize("make", TABLES, ids=lambda make: make.__name__)
def test_columns_are_taken_right(make):
    table = make(N)
    frame = pl.DataFrame({name: table.cells[name] for name in table.answers})
    columns = Columns().fit(frame)
    X, sources = columns.apply(frame), np.array(columns.sources)
    features = {name: X[:, sources == name] for name in columns.names}
    wrong = {n for n, answer in table.answers.items() if not is_right(answer, features.get(n))}
    assert wrong == NOT_TAKEN.get(table.name, set())


class TestScoring:
    NUMBERS = np.array([1.0, np.nan, 3.0, 7.0])

    def test_numbers_in_any_unit(self):
        right = Answer(NUMBER, self.NUMBERS)
        filled = np.where(np.isnan(self.NUMBERS), 3.0, self.NUMBERS)
        assert is_right(right, (100 * filled + 32)[:, None])
        assert is_right(right, np.column_stack([filled, np.isnan(self.NUMBERS)]))
        assert not is_right(right, filled[:, None] ** 2)
        assert not is_right(right, np.ones((4, 1)))
        assert not is_right(right, np.eye(4))
        assert not is_right(right, None)

    def test_several_numbers(self):
        both = np.array([[1.0, 9.0], [2.0, 4.0], [5.0, 6.0]])
        assert is_right(Answer(NUMBER, both), both[:, ::-1])
        assert not is_right(Answer(NUMBER, both), both[:, :1])

    def test_categories(self):
        words = np.array(["a", "b", "", "a", "b", ""], dtype=object)
        one_hot = np.eye(3)[[0, 1, 2, 0, 1, 2]]
        assert is_right(Answer(CATEGORY, words), one_hot)
        assert is_right(Answer(CATEGORY, words), one_hot[:, :2])
        assert not is_right(Answer(CATEGORY, words), np.array([[0], [1], [2], [0], [1], [2]]))
        assert not is_right(Answer(CATEGORY, words), np.eye(6)[:, :3])

    def test_dates(self):
        days = np.array(["2024-01-01", "2024-02-01", "NaT", "2025-01-01"], "datetime64[D]")
        parts = np.array([[0, 1], [31, 2], [31, 1], [366, 1]], dtype=float)
        assert is_right(Answer(DATE, days), parts)
        assert not is_right(Answer(DATE, days), parts[:, 1:])

    def test_left_out(self):
        assert is_right(Answer(LEFT_OUT), None)
        assert not is_right(Answer(LEFT_OUT), np.ones((4, 1)))


def test_the_stored_results_are_complete():
    """Of the tables as they are now, with 1,474 rows and with the first 1,200."""
    columns = {table.name: set(table.answers) for table in (make(N) for make in TABLES)}
    rows = messy_tables.stored()
    found = {(row["system"], row["table"], row["rows"]) for row in rows}
    sizes = (messy_tables.ROWS, messy_tables.FEWER_ROWS)
    assert found == {
        (s, t, n) for s in ("before", "after", "skrub") for t in columns for n in sizes
    }
    for row in rows:
        assert {*row["right"], *row["wrong"]} == columns[row["table"]]
        assert row["versions"]
    after = [row for row in rows if row["system"] == "after"]
    assert all(row["wrong"].keys() == NOT_TAKEN.get(row["table"], set()) for row in after)
