"""Frames of pandas, polars and pyarrow, read as files are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from narwhals.stable.v2.typing import IntoDataFrame

from nearfar.columns.cells import column_keys, is_declared_category
from nearfar.tables.errors import TableError
from nearfar.typing import Array


@dataclass(frozen=True, eq=False)
class Frame:
    """A table in memory, which is read as a file is.

    Attributes
    ----------
    name : str
        What messages call it.
    table : pyarrow.Table
    declared : tuple of str
        Columns that pandas declares categories.
    """

    name: str
    table: pa.Table
    declared: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    @classmethod
    def of(cls, frame: IntoDataFrame, name: str) -> Frame:
        """Return a DataFrame under a name; cells of a column with several types become text."""
        columns, declared = {}, []
        for text, key in column_keys(frame).items():
            cells = nw.from_native(frame, eager_only=True).get_column(key)
            try:
                array = cells.to_arrow()
            except (pa.ArrowException, TypeError):
                missing = cells.is_null().to_list()
                values = zip(cells.to_list(), missing, strict=True)
                array = pa.array([None if gap else str(cell) for cell, gap in values])
            if pa.types.is_dictionary(array.type):
                array = array.cast(array.type.value_type)
            columns[text] = array
            if is_declared_category(frame, key):
                declared.append(text)
        return cls(name, pa.table(columns), tuple(declared))

    def with_column(self, role: str, value: str | Array | None) -> tuple[Frame, str | None]:
        """Return the frame and the name of a column; an array becomes a column first.

        Parameters
        ----------
        role : str
            What the column is, and its name if the array has none.
        value : str, array or None
        """
        if value is None or isinstance(value, str):
            return self, value
        name = str(getattr(value, "name", None) or role)
        if name in self.table.column_names:
            raise TableError(f"{self} has a column {name!r}; give its name instead of an array.")
        if np.shape(value) != (len(self.table),):
            raise TableError(f"{len(self.table)} rows need one {role} each; got {np.shape(value)}.")
        table = self.table.append_column(name, pa.array(np.asarray(value)))
        return replace(self, table=table), name
