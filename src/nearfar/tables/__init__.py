"""Files, frames, arrays and datasets as rows with supervision."""

from __future__ import annotations

from nearfar.tables.errors import TableError
from nearfar.tables.reading import read_table
from nearfar.tables.table import Table

__all__ = ["Table", "TableError", "read_table"]
