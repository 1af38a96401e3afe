"""What columns look like."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from nearfar.columns.cells import CellError, column_values
from nearfar.columns.guess import guess, numbers_like_ids

N = 60
RNG = np.random.default_rng(0)
WORDS = RNG.choice(["red", "green", "blue"], N).tolist()
COLUMNS = {
    ("x", "number"): RNG.standard_normal(N),
    ("year", "number"): RNG.integers(1990, 2020, N),
    ("pay", "number"): RNG.choice(100_000, N, replace=False),
    ("x", "number "): [str(v) for v in RNG.standard_normal(N)] + ["NA", "", "?"],
    ("row", "looks like ids"): np.arange(N),
    ("row", "looks like ids "): RNG.permutation(N) + 77.0,
    ("Unnamed: 0", "looks like ids"): RNG.choice(1000, N, replace=False),
    ("", "looks like ids"): [str(v) for v in range(N)],
    ("customerId", "looks like ids"): RNG.choice(1000, N, replace=False),
    ("user_id", "number"): RNG.integers(10, size=N),
    ("paid", "number"): RNG.choice(1000, N, replace=False),
    ("code", "looks like ids"): [f"A-{v}" for v in range(N)],
    ("colour", "category"): WORDS,
    ("grade", "category"): RNG.choice(["0", "1", "2", "3+"], N, p=[0.4, 0.3, 0.25, 0.05]),
    ("colour", "one value"): ["red"] * N,
    ("colour", "category "): ["red", None] * N,
    ("flag", "boolean"): ["yes", "No", ""] * 5,
    ("flag", "boolean "): [True, None, False],
    ("flag", "category"): ["on", "off", "on", "off"],
    ("day", "date"): ["2024-01-01", "", "2024-05-06"],
    ("note", "free text"): [f"{w} and some more words" for w in WORDS],
    ("town", "too many levels"): [f"town {v}" for v in RNG.integers(50, size=N)],
    ("x", "no values"): ["", "NA", "null"],
    ("t", "unsupported type"): [b"a", b"b"],
    ("t", "unsupported type "): [[["a"]], [["b"]]],
    ("t", "unsupported type  "): [datetime.time(1), None],
    ("t", "unsupported type   "): [{"a": 1.0}, {"a": 2.0}],
    ("wait", "number"): [datetime.timedelta(days=1), None],
    ("v", "vector"): [[1.0, 2.0], [3.0, 4.0]],
    ("v", "no values"): pl.Series([[], []], dtype=pl.List(pl.Float64)),
}


@pytest.mark.parametrize("key", COLUMNS, ids=lambda key: " ".join(key))
def test_guess(key):
    name, expected = key
    frame = pl.DataFrame({name: COLUMNS[key]})
    found = guess(name, column_values(frame, name))
    assert (found if isinstance(found, str) else found.kind) == expected.strip()


def test_one_word_among_numbers_is_an_error():
    cells = [str(v) for v in range(0, 300, 3)] + ["x7"]
    with pytest.raises(CellError, match="'x7' in row 100"):
        guess("size", column_values(pl.DataFrame({"size": cells}), "size"))


def test_few_running_numbers_are_numbers():
    assert not numbers_like_ids("x", np.arange(9))
    assert not numbers_like_ids("x", np.arange(20) + 0.5)
    assert not numbers_like_ids("x", np.r_[np.arange(20.0), np.nan])


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        ("category", ["a", "b", "a", None], "category"),
        ("Int64", [1, None, 5], "number"),
        ("boolean", [True, None, False], "boolean"),
        ("object", [True, None, False], "boolean"),
        ("object", [1, "a", None], "unsupported type"),
        ("complex", [1j, 2j], "unsupported type"),
        ("datetime64[ns]", ["2024-01-01", None], "date"),
        ("datetime64[ns, Europe/Berlin]", ["2024-01-01", None], "date"),
        ("timedelta64[s]", [1, None], "number"),
    ],
)
def test_types_of_pandas(dtype, values, expected):
    frame = pd.DataFrame({"x": pd.Series(values, dtype=dtype)})
    found = guess("x", column_values(frame, "x"))
    assert (found if isinstance(found, str) else found.kind) == expected


def test_lengths_of_time_are_days():
    frame = pl.DataFrame({"wait": [datetime.timedelta(hours=12), None]})
    np.testing.assert_array_equal(column_values(frame, "wait"), [0.5, np.nan])
