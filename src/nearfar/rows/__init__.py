"""Rows of X that are not an array in memory: files, folders and Dask arrays, read in blocks."""

from nearfar.rows.files import as_rows, open_rows
from nearfar.rows.rows import (
    ArrayRows,
    MappedRows,
    Moments,
    Points,
    Rows,
    column_ranges,
    column_variances,
    gram,
)

__all__ = [
    "ArrayRows",
    "MappedRows",
    "Moments",
    "Points",
    "Rows",
    "as_rows",
    "column_ranges",
    "column_variances",
    "gram",
    "open_rows",
]
