"""Rows of X that are not an array in memory: files, folders and Dask arrays, read in blocks."""

from nearfar.rows.files import as_rows, open_rows
from nearfar.rows.moments import Moments, column_ranges, column_variances, gram
from nearfar.rows.rows import ArrayRows, MappedRows, Points, Rows

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
