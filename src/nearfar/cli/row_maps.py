"""What ``nearfar transform`` maps rows by: a metric, or an adapter's map of queries or documents.

An adapter has no names of features. Its vectors are in a column of lists, or in all columns of
numbers; they are read in the same way as the features of a metric.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearfar.cli.errors import UserError
from nearfar.cli.model_files import is_adapter, load_adapter, load_metric
from nearfar.columns import Columns
from nearfar.columns.kinds import Vector
from nearfar.metrics.metric import Metric
from nearfar.tables.formats import TABLES, column_names, kind_of, open_table
from nearfar.tables.reader import ColumnChoice, columns_named, require_columns
from nearfar.typing import Floats


@dataclass(frozen=True)
class RowMap:
    """A map of rows.

    Attributes
    ----------
    reader : Metric
        Whose features are read; it need not be what maps them.
    transform : callable
        Maps features.
    n_components : int
        Number of coordinates after the map.
    """

    reader: Metric
    transform: Callable[[Floats], Floats]
    n_components: int

    @classmethod
    def of_metric(cls, metric: Metric) -> RowMap:
        """Return the map of a metric."""
        if len(metric.parts) > 1:
            raise UserError(
                "A gated metric has several maps, and the query decides which one applies; "
                "transform needs a metric with one map."
            )
        return cls(metric, metric.transform, metric.n_components)

    @classmethod
    def of_adapter(
        cls, adapter: Any, source: Path, *, documents: bool = False, vector: str | None = None
    ) -> RowMap:
        """Return the map of an adapter for the vectors of a file."""
        n_features = adapter.n_features_in_
        transform = adapter.transform_documents if documents else adapter.transform_queries
        width = transform(np.zeros((1, n_features))).shape[1]
        return cls(_vector_reader(source, n_features, vector), transform, width)


def load_row_map(path: Path, source: Path, *, documents: bool, vector: str | None) -> RowMap:
    """Read what maps the rows of a file, from the file of a metric or of an adapter."""
    if is_adapter(path):
        adapter = load_adapter(path)
        return RowMap.of_adapter(adapter, source, documents=documents, vector=vector)
    if documents or vector is not None:
        raise UserError(f"--documents and --vector are for adapters; {path} is a metric.")
    return RowMap.of_metric(load_metric(path))


def _vector_reader(source: Path, n_features: int, vector: str | None) -> Metric:
    """Return a metric with the vectors of a file as its features."""
    reader = Metric.identity(n_features)
    if kind_of(source) not in TABLES or not source.is_file():
        return reader
    names = column_names(source)
    require_columns(source, names, [] if vector is None else [vector])
    with open_table(source, ColumnChoice(others=tuple(names))) as table:
        lists = [field.name for field in table.others if _has_lists(field.type)]
    if vector is not None and vector not in lists:
        raise UserError(f"Column {vector} of {source} has no lists of numbers.")
    if vector is None and len(lists) > 1:
        raise UserError(f"{source} has lists in {columns_named(lists)}; choose one with --vector.")
    if not lists:
        return reader
    kind = Vector(vector or lists[0], (0.0,) * n_features, indicator=False)
    return reader.with_columns(Columns((kind,), impute=False))


def _has_lists(kind: pa.DataType) -> bool:
    """Whether a column has lists of numbers."""
    types = pa.types
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return False
    return bool(types.is_floating(kind.value_type) or types.is_integer(kind.value_type))
