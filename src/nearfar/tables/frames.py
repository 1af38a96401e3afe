"""DataFrames of pandas, polars and others, read as files are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
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
    table : polars.DataFrame
    declared : tuple of str
        Columns that pandas declares categories.
    """

    name: str
    table: pl.DataFrame
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
                column = cells.to_polars()
            except (ImportError, ValueError, TypeError, NotImplementedError) as error:
                # polars reads the objects of pandas with pyarrow, which wants one type.
                rows = zip(cells.to_list(), cells.is_null().to_list(), strict=True)
                values = [None if gap else cell for cell, gap in rows]
                if (
                    not isinstance(error, ImportError)
                    or len({*map(type, values)} - {type(None)}) > 1
                ):
                    values = [None if cell is None else str(cell) for cell in values]
                column = pl.Series(values)
            if column.dtype in (pl.Categorical, pl.Enum):
                column = column.cast(pl.String)
            columns[text] = column
            if is_declared_category(frame, key):
                declared.append(text)
        return cls(name, pl.DataFrame(columns), tuple(declared))

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
        if name in self.table.columns:
            raise TableError(f"{self} has a column {name!r}; give its name instead of an array.")
        if np.shape(value) != (len(self.table),):
            raise TableError(f"{len(self.table)} rows need one {role} each; got {np.shape(value)}.")
        table = self.table.with_columns(pl.Series(name, np.asarray(value)))
        return replace(self, table=table), name
