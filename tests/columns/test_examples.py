"""What each column became, with an example."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl

from nearfar.columns import Columns
from nearfar.columns.columns import column_examples


def table():
    n = 60
    return pl.DataFrame(
        {
            "depth": [None, *["1.5 m", "80 cm", "2 m"] * 19, "1 m", "3 m"],
            "width": np.linspace(0, 1, n),
            "sold": ["yes", "no"] * 30,
            "day": [None, *[datetime.date(2024, 1, 1)] * 30, *[datetime.date(2024, 3, 5)] * 29],
            "town": ["Embu", "Meru", "Meru"] * 20,
            "code": [f"K-{k:03d}" for k in range(n)],
            "place": [[1.0, 2.0]] * n,
        }
    )


def test_all_kinds():
    found = column_examples(Columns().fit(table()), table())
    assert [tuple(example) for example in found] == [
        ("depth", "number in m; missing values filled in (as 1.5)", "'80 cm' → 0.8 m"),
        ("width", "number", "0 → 0"),
        ("sold", "0 or 1", "'yes' → 1"),
        (
            "day",
            "date; missing values filled in",
            "2024-01-01 → year 2024, month 1, weekday 0, days 0",
        ),
        ("town", "category, 2 levels", "'Embu' → town=Embu"),
        ("place", "vector, 2 numbers", ""),
        ("code", "left out: looks like ids", ""),
    ]


def test_without_a_table():
    found = {each.column: each.example for each in column_examples(Columns().fit(table()))}
    assert found["depth"] == "'80 cm' → 0.8 m"
    assert not any(example for name, example in found.items() if name != "depth")
