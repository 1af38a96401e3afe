"""Tables whose columns become features by the recipe of a metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from nearfar.cli.errors import UserError
from nearfar.cli.tables import Batch, TableReader, polars_frame
from nearfar.columns import Columns
from nearfar.columns.kinds import Vector


class RecipeReader(TableReader):
    """A table whose columns become features in the way that a metric has learned.

    Parameters
    ----------
    source : TableReader
        Reads the columns unchanged.
    columns : Columns
        The recipe.
    others : sequence of str
        Other columns that are wanted.
    """

    def __init__(self, source: TableReader, columns: Columns, others: Sequence[str]) -> None:
        self.path, self._source, self._columns = source.path, source, columns
        self.features = columns.feature_names
        self.others = pa.schema([source.others.field(name) for name in others])
        single = all(
            isinstance(kind, Vector) and _is_single(source.others.field(kind.name).type)
            for kind in columns.kinds
        )
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def _read_batches(self) -> Iterator[Batch]:
        row = 0
        for batch in self._source.batches():
            frame = polars_frame(batch.others.select(self._columns.names))
            try:
                X = self._columns.apply(frame, first_row=row)
            except ValueError as error:
                raise UserError(f"{self.path}: {error}") from error
            row += len(X)
            yield Batch(X.astype(self.dtype, copy=False), self._others(batch), batch.total)

    def _others(self, batch: Batch) -> pa.Table:
        return batch.others.select(self.others.names)


def _is_single(kind: pa.DataType) -> bool:
    return hasattr(kind, "value_type") and kind.value_type == pa.float32()
