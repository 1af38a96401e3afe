"""Names that modules of other branches still import."""

from __future__ import annotations

from nearfar.tables.reading import read_rows as read_rows
from nearfar.tables.reading import row_names as row_names
from nearfar.tables.table import Table as Table

InputRows = Table
