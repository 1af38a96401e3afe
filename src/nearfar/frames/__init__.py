"""Files, frames, arrays and datasets as rows with supervision."""

from __future__ import annotations

from nearfar.frames.reading import read_table
from nearfar.frames.table import Table, TableError

__all__ = ["Table", "TableError", "read_table"]
