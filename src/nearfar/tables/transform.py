"""`transform`: the rows of a file by the map of a metric or an adapter, in bounded memory.

Rows are mapped in batches whose length depends on the metric alone, so that the same rows give the
same bits in any format. The target is replaced only once the new file is complete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nearfar.columns import Columns
from nearfar.columns.guess import Vector
from nearfar.frames.formats import (
    ARRAYS,
    TABLES,
    WRITTEN,
    WRITTEN_LISTS,
    check_output,
    column_names,
    kind_of,
    open_table,
    open_writer,
    writing,
)
from nearfar.frames.metric_files import kind_of_model, load_metric, load_model
from nearfar.frames.reader import (
    ColumnChoice,
    columns_named,
    named_columns,
    rebatched,
    require_columns,
)
from nearfar.frames.table import TableError
from nearfar.metrics.metric import Metric
from nearfar.runtime.atomic_write import atomic_write
from nearfar.runtime.messages import counted, option
from nearfar.typing import Floats

VECTOR_COLUMN = "nearfar"
"""Name of the column of lists that has all coordinates."""
# Larger batches take more memory, and smaller ones more time for each row.
_BATCH_BYTES = 1 << 23
# BLAS multiplies tiles of rows; those of an incomplete tile may be rounded in another way.
_BLAS_TILE_ROWS = 1024


@dataclass(frozen=True)
class RowMap:
    """A map of rows.

    Attributes
    ----------
    reader: Whose features are read; it need not be what maps them.
    transform: Maps features.
    n_components: Number of coordinates after the map.
    """

    reader: Metric
    transform: Callable[[Floats], Floats]
    n_components: int

    @classmethod
    def of_metric(cls, metric: Metric) -> RowMap:
        """Return the map of a metric."""
        if len(metric.parts) > 1:
            raise TableError(
                "A gated metric has several maps, and the query decides which one applies; "
                "transform needs a metric with one map."
            )
        return cls(metric, metric.transform, metric.n_components)

    @classmethod
    def of_vectors(
        cls,
        transform: Callable[[Floats], Floats],
        n_features: int,
        source: Path,
        vector: str | None = None,
    ) -> RowMap:
        """Return the map of an adapter for the vectors of a file.

        Parameters
        ----------
        n_features: Length of the vectors.
        vector: Column of vectors, if several have lists.
        """
        width = transform(np.zeros((1, n_features))).shape[1]
        reader = Metric.identity(n_features)
        if kind_of(source) in TABLES and source.is_file():
            names = column_names(source)
            require_columns(source, names, [] if vector is None else [vector])
            with open_table(source, ColumnChoice(others=tuple(names))) as table:
                cells = {name: getattr(kind, "inner", None) for name, kind in table.others.items()}
            lists = [name for name, cell in cells.items() if cell is not None and cell.is_numeric()]
            if vector is not None and vector not in lists:
                raise TableError(f"Column {vector} of {source} has no lists of numbers.")
            if vector is None and len(lists) > 1:
                choose = f"choose one with {option('vector')}"
                raise TableError(f"{source} has lists in {columns_named(lists)}; {choose}.")
            if lists:
                kind = Vector(vector or lists[0], (0.0,) * n_features, indicator=False)
                reader = reader.with_columns(Columns.of((kind,), impute=False))
        return cls(reader, transform, width)


def transform_file(
    model: Metric | RowMap,
    source: Path,
    target: Path,
    *,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    as_vector: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    r"""Map every row of a table, and write the result in the same order.

    Parameters
    ----------
    model: With feature names, these columns are mapped; otherwise all but `keep` and
        `drop`.
    source: Table or 2-d array (.npy; .npz: its array X, or its only one).
    target: Table or array of the coordinates, in one of the formats `WRITTEN`. An existing
        file is replaced only once the new one is complete.
    keep: Columns to copy before the coordinates. Those of a .csv or .tsv stay the text they
        are.
    drop: Columns to leave out.
    as_vector: Whether to write one column of lists.
    progress: Called with the number of rows done and their total, an estimate for .csv and
        .tsv.

    Returns
    -------
    int
        Number of rows.

    Raises
    ------
    TableError
        If it cannot be done; the message says what to do.
    """
    is_table = kind_of(source) in TABLES and source.is_file()
    table_columns = column_names(source) if (keep or drop) and is_table else []
    kept, dropped = (named_columns(names, table_columns) for names in (keep, drop))
    row_map = RowMap.of_metric(model) if isinstance(model, Metric) else model
    choice = ColumnChoice(kept, dropped, row_map.reader)
    names = [f"nearfar_{number}" for number in range(row_map.n_components)]
    check_output(target, WRITTEN, [source])
    kind = kind_of(target)
    if kept and kind in ARRAYS:
        raise TableError(
            f"An .npy file has coordinates only; to {option('keep')} columns, write a table."
        )
    clash = next((n for n in kept if n in ([VECTOR_COLUMN] if as_vector else names)), None)
    if clash is not None:
        raise TableError(f"{clash!r} is the name of a coordinate; rename the column to keep.")
    if as_vector and kind not in WRITTEN_LISTS:
        raise TableError(
            f"{option('as_vector')} writes a column of lists, which needs "
            f"{', '.join(WRITTEN_LISTS)}, not {target}."
        )
    widest = max(row_map.reader.n_features, row_map.n_components, row_map.reader.L.shape[1])
    batch_rows = max(1, _BATCH_BYTES // (8 * widest))
    if batch_rows >= _BLAS_TILE_ROWS:
        batch_rows -= batch_rows % _BLAS_TILE_ROWS
    report = progress or (lambda *_: None)
    rows = 0
    with (
        atomic_write(target) as temporary,
        open_table(source, choice, scratch=target.resolve().parent) as table,
    ):
        number = pl.Float32() if table.dtype == np.float32 else pl.Float64()
        columns: dict[str, pl.DataType] = dict.fromkeys(names, number)
        if as_vector or kind in ARRAYS:
            columns = {VECTOR_COLUMN: pl.Array(number, len(names))}
        schema = pl.Schema({**table.others, **columns})
        with open_writer(temporary, kind, schema) as writer:
            for batch in rebatched(table.batches(), batch_rows):
                with np.errstate(over="ignore", invalid="ignore"):
                    Y = row_map.transform(batch.X)
                if not np.isfinite(Y).all():
                    row = rows + int(np.flatnonzero(~np.isfinite(Y).all(axis=1))[0])
                    raise TableError(f"Row {row} has values that are too large for the metric.")
                with writing(target):
                    mapped = [Y] if VECTOR_COLUMN in columns else Y.T
                    cells = map(pl.Series, columns, mapped, columns.values())
                    writer.write(
                        pl.DataFrame(
                            {**batch.others.to_dict(), **dict(zip(columns, cells, strict=True))}
                        )
                    )
                rows += len(batch)
                report(rows, max(rows, batch.total))
                # It may be a view of everything that was read at once.
                del batch
            with writing(target):
                writer.finish()
            report(rows, rows)
    return rows


def transform(
    metric: str | PathLike[str],
    source: object,
    target: str | PathLike[str],
    *,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    ids: str | None = None,
    as_vector: bool = False,
    documents: bool = False,
    vector: str | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Mapped:
    """Map the rows of a file so that Euclidean distance is the metric.

    With an adapter, map queries or documents so that inner products are scores. Memory is bounded,
    however large the file is.

    Parameters
    ----------
    metric: Metric file, as written by `nearfar learn`, or adapter, by `nearfar adapt`.
    source: Table or array, as for `nearfar learn`.
    target: Table or array to write: .csv, .tsv, .parquet, .feather, .arrow, .jsonl or .npy.
    keep: Column to copy, or several with commas.
    drop: Column to leave out, or several with commas.
    ids: Column of row names, which is copied.
    as_vector: Write the coordinates as one column of lists, nearfar; not for .csv and .tsv.
    documents: With an adapter: map documents, not queries.
    vector: For adapters: column of vectors [default: the only one with lists].
    progress: Called with the number of rows done, an estimate of their total, and "rows".
    """
    start = time.perf_counter()
    model, rows_from, kind = Path(metric), Path(str(source)), kind_of_model(Path(metric))
    if kind == "adapter":
        adapter = load_model(model)
        mapped = adapter.transform_documents if documents else adapter.transform_queries
        row_map = RowMap.of_vectors(mapped, adapter.n_features_in_, rows_from, vector)
    elif documents:
        raise ValueError(f"{option('documents')} is for adapters, which {metric} is not.")
    elif vector is not None:
        raise ValueError(f"{option('vector')} is for adapters; {metric} is a metric.")
    else:
        row_map = RowMap.of_metric(load_metric(model))
    rows = transform_file(
        row_map,
        rows_from,
        Path(target),
        keep=[*([] if ids is None else [ids]), *keep],
        drop=drop,
        as_vector=as_vector,
        progress=progress and (lambda done, total: progress(done, total, "rows")),
    )
    return Mapped(rows, str(target), time.perf_counter() - start)


@dataclass(frozen=True)
class Mapped:
    """How many rows were mapped, and where they were written."""

    rows: int
    written: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the same for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        rows = counted(self.rows, "row")
        return f"Mapped {rows} in {self.seconds:.2f} s; written to {self.written}"
