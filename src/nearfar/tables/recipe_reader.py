"""Tables whose columns become features by the recipe of a metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from nearfar.columns import Columns
from nearfar.columns.cells import column_values
from nearfar.columns.kinds import Category, Vector
from nearfar.runtime.notes import note
from nearfar.tables.errors import TableError
from nearfar.tables.reader import Batch, TableReader, polars_frame

_MANY_UNSEEN = 0.2
"""A note names columns with a larger share of levels that were not learned from."""


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
        unseen: Counter[str] = Counter()
        widths = [len(kind.feature_names) for kind in self._columns.kinds]
        starts = np.cumsum([0, *widths[:-1]])
        for batch in self._source.batches():
            frame = polars_frame(batch.others.select(self._columns.names))
            try:
                X = self._columns.apply(frame, first_row=row)
            except ValueError as error:
                raise TableError(f"{self.path}: {error}") from error
            row += len(X)
            for kind, start in zip(self._columns.kinds, starts, strict=True):
                if isinstance(kind, Category):
                    own = X[:, start : start + len(kind.feature_names)]
                    unseen[kind.name] += kind.unseen(column_values(frame, kind.name), own)
            yield Batch(X.astype(self.dtype, copy=False), self._others(batch), batch.total)
        for kind in self._columns.kinds:
            if unseen[kind.name] > _MANY_UNSEEN * row:
                rare = "are rare or " if isinstance(kind, Category) and kind.rare else ""
                note(
                    f"column {kind.name}: {unseen[kind.name]} of {row} values {rare}were not in "
                    f"the training rows ({self.path.name})."
                )

    def _others(self, batch: Batch) -> pa.Table:
        return batch.others.select(self.others.names)


def _is_single(kind: pa.DataType) -> bool:
    return hasattr(kind, "value_type") and kind.value_type == pa.float32()
