"""What columns look like."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from nearfar.columns.cells import column_values
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
    ("Sample No", "looks like ids"): [*range(10233, 10233 + N - 4), 90001, 90002, 90003, 90004],
    ("Sample No", "looks like ids "): [1, 1, None, *range(2, 2 * N, 2)],
    ("x", "looks like ids"): np.r_[np.arange(N), 90001, 90002],
    ("casualties", "number"): RNG.choice(1000, N, replace=False),
    ("piano", "number"): RNG.choice(1000, N, replace=False),
    ("user_id", "number"): RNG.integers(10, size=N),
    ("paid", "number"): RNG.choice(1000, N, replace=False),
    ("code", "looks like ids"): [f"A-{v}" for v in range(N)],
    ("colour", "category"): WORDS,
    ("grade", "number"): RNG.choice(["0", "1", "2", "3+"], N, p=[0.4, 0.3, 0.25, 0.05]),
    ("zip", "category"): RNG.choice(["00501", "10115", "02139"], N),
    ("zip", "looks like ids"): [f"{v:05d}" for v in range(0, 900 * N, 900)],
    ("share", "number"): [f"{v}%" for v in RNG.integers(100, size=N)],
    ("wait", "number "): [f"{v} min" if v < 60 else f"{v / 60:.1f} h" for v in range(0, 3 * N, 3)],
    ("size", "number"): [*map(str, range(0, 300, 3)), "x7"],
    ("size", "category"): ["36", "38", "S", "M"] * 9,
    ("born", "date"): ["31/12/1999", "1/2/2001", "n.d."],
    ("first seen", "date"): ["12/31/1999 11:30 PM", "1/2/2001 7:05 AM"],
    ("answer", "category"): ["neither agree nor disagree at all", "I fully agree with this"] * 9,
    ("colour", "one value"): ["red"] * N,
    ("colour", "category "): ["red", None] * N,
    ("version", "one value"): [3] * N,
    ("version", "one value "): ["3 kg"] * N,
    ("version", "number"): [3.0, None] * N,
    ("day", "one value"): [datetime.date(2024, 1, 1)] * N,
    ("open", "one value"): [True] * N,
    ("pressure", "numbers"): [f"{a}/{b}" for a, b in RNG.integers([95, 55], [180, 99], (N, 2))],
    ("pressure", "category"): ["120/80", "130/90"] * N,
    ("phone", "looks like ids"): [f"{555 + v}-{1234 + v * v}" for v in range(N)],
    ("case", "looks like ids"): [f"{v % 3 + 1}/{7 * v + 1:04d}" for v in range(N)],
    ("flag", "boolean"): ["yes", "No", ""] * 5,
    ("flag", "boolean "): [True, None, False],
    ("flag", "category"): ["on", "off", "on", "off"],
    ("day", "date"): ["2024-01-01", "", "2024-05-06"],
    ("note", "free text"): [f"{w} and {n % 50} more words" for n, w in enumerate(WORDS)],
    ("town", "too many levels"): [f"town {v}" for v in RNG.integers(999, size=N)] + ["town 1"] * 2,
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


MORE, FEWER = 1474, 1200
STABLE = {
    # More or fewer than half of the rows are different, depending on their number.
    "levels": lambda rng: [f"level {v}" for v in rng.integers(900, size=MORE)],
    "lengths": lambda rng: [f"{v:.2f} m" for v in rng.uniform(1, 20, MORE)],
    "towns": lambda rng: [f"town {v}" for v in rng.integers(60, size=MORE)],
    "long tail": lambda rng: [f"brand {v}" for v in rng.zipf(1.5, MORE)],
    "running": lambda rng: [str(v) for v in rng.permutation(MORE)],
    "words": lambda rng: rng.choice(["12", "7.5", "unsure"], MORE, p=[0.7, 0.15, 0.15]).tolist(),
    "codes": lambda rng: [f"{v:05d}" for v in rng.integers(50, size=MORE)],
    "names": lambda rng: [f"name {v}" for v in rng.permutation(10 * MORE)[:MORE]],
}


@pytest.mark.parametrize("name", STABLE)
def test_a_part_of_the_rows_is_taken_in_the_same_way(name):
    rng = np.random.default_rng(0)
    cells = np.array(STABLE[name](rng), dtype=object)
    whole = guess("column", cells)
    for part in (cells[:FEWER], cells[-FEWER:], rng.permutation(cells)[:FEWER]):
        found = guess("column", part)
        assert (found if isinstance(found, str) else found.kind) == (
            whole if isinstance(whole, str) else whole.kind
        )


@pytest.mark.parametrize("n_rows", [30, 60, 151, 199, 200, 227])
def test_ids_of_two_rows_are_no_category(n_rows):
    """Also in the training rows of folds, where some ids have one row left."""
    animals = np.array([f"A{row // 2}" for row in range(n_rows)], dtype=object)
    assert guess("animal", animals) == "too many levels"
    assert guess("animal", np.random.default_rng(0).permutation(animals)[: n_rows * 4 // 5]) == (
        "too many levels"
    )


@pytest.mark.parametrize(("n_rows", "n_levels"), [(12, 4), (30, 6), (60, 12), (200, 40)])
def test_small_tables_have_categories(n_rows, n_levels):
    plots = np.array([f"plot {row % n_levels}" for row in range(n_rows)], dtype=object)
    assert guess("plot", plots).kind == "category"


def test_few_running_numbers_are_numbers():
    assert not numbers_like_ids("x", np.arange(9))
    assert not numbers_like_ids("x", 2 * np.arange(39))
    assert numbers_like_ids("x", 2 * np.arange(40))
    assert not numbers_like_ids("x", 5 * np.arange(40))
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
