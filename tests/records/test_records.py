"""Tables of any kind are read as the same text."""

from __future__ import annotations

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest

from nearfar.records.records import Records

COLUMNS = {
    "name": [" Ann", "n/a", None],
    "age": [31.0, np.nan, 5.0],
    "day": [date(2024, 1, 31)] * 3,
}
TEXTS = {
    "name": ["Ann", None, None],
    "age": ["31", None, "5"],
    "day": ["2024-01-31", "2024-01-31", "2024-01-31"],
}


@pytest.mark.parametrize(
    "table",
    [
        COLUMNS,
        [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)],
        pd.DataFrame(COLUMNS),
        pl.DataFrame(COLUMNS),
    ],
    ids=["dict", "list", "pandas", "polars"],
)
def test_tables_are_read_as_text(table):
    found = {name: cells.tolist() for name, cells in Records.of(table, "left").fields.items()}
    # Datetimes of a frame also have a time.
    found["day"] = [str(cell)[:10] for cell in found["day"]]
    assert found == TEXTS


def test_missing_values_of_records_are_missing():
    rows = [{"a": value} for value in (None, np.nan, np.float32("nan"), pd.NaT, pd.NA, "", "?")]
    assert Records.of([*rows, {"a": "Nat"}], "left").fields["a"].tolist() == [None] * 7 + ["Nat"]


def test_other_objects_are_refused():
    with pytest.raises(TypeError, match="left must be a DataFrame, a dict of columns or a list"):
        Records.of([[1, 2]], "left")
    with pytest.raises(ValueError, match="different lengths"):
        Records.of({"a": [1, 2], "b": [1]}, "left")
