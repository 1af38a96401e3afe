"""``nearfar transform``: map the rows of a file, in bounded memory however large it is.

Rows are mapped in batches whose length depends on the metric alone, so that the same rows give the
same bits in any format. The target is replaced only once the new file is complete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer

from nearfar.cli import options
from nearfar.cli.errors import UserError
from nearfar.cli.model_files import check_output
from nearfar.cli.row_maps import RowMap, load_row_map
from nearfar.cli.streams import shown_target, spooled, stdout_file
from nearfar.cli.terminal import bars, command, say, show_json
from nearfar.metrics.metric import Metric
from nearfar.runtime.atomic_write import atomic_write
from nearfar.tables.formats import (
    ARRAYS,
    TABLES,
    WRITTEN,
    WRITTEN_LISTS,
    column_names,
    kind_of,
    open_table,
    open_writer,
    writing,
)
from nearfar.tables.reader import ColumnChoice, TableReader, TableWriter, named_columns, rebatched
from nearfar.typing import Floats

_VECTOR = "nearfar"
"""Name of the column of lists that has all coordinates."""
_BATCH_BYTES = 1 << 23
_BLAS_TILE_ROWS = 1024


@command
def transform(
    metric: options.ModelPath,
    source: Annotated[
        Path,
        typer.Argument(callback=spooled, help="Table or array, as for learn, or - for stdin."),
    ],
    target: Annotated[
        Path,
        typer.Argument(help=f"File to write: {', '.join(WRITTEN)}; - is .csv to stdout."),
    ],
    keep: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN,...", help="Columns to copy; repeatable.")
    ] = None,
    drop: options.Drop = None,
    ids: options.Id = None,
    as_vector: Annotated[
        bool,
        typer.Option(
            "--as-vector",
            help=f"Write the coordinates as one column of lists, {_VECTOR!r}; for "
            f"{', '.join(WRITTEN_LISTS)}.",
        ),
    ] = False,
    documents: options.Documents = False,
    vector: options.VectorColumn = None,
    json: options.Json = False,
) -> None:
    """Map the rows of a file so that Euclidean distance is the metric.

    With an adapter, map queries or documents so that inner products are scores. Memory is bounded,
    however large the file is.
    """
    start = time.perf_counter()
    with bars() as shown, stdout_file(target) as path:
        rows = transform_file(
            load_row_map(metric, source, documents=documents, vector=vector),
            source,
            path,
            keep=[*([] if ids is None else [ids]), *(keep or [])],
            drop=drop or [],
            as_vector=as_vector,
            progress=lambda done, total: shown.update(done, total, "rows"),
        )
    seconds = time.perf_counter() - start
    if json:
        show_json({"rows": rows, "written": str(target), "seconds": seconds})
    else:
        say(f"Mapped {rows} rows in {seconds:.2f} s; written to {shown_target(target)}")


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
    model : Metric or RowMap
        With feature names, these columns are mapped; otherwise all but `keep` and `drop`.
    source : Path
        Table or 2-d array (.npy; .npz: its array X, or its only one).
    target : Path
        Table or array of the coordinates, in one of the formats `WRITTEN`. An existing file is
        replaced only once the new one is complete.
    keep : sequence of str
        Columns to copy before the coordinates. Those of a .csv or .tsv stay the text they are.
    drop : sequence of str
        Columns to leave out.
    as_vector : bool, default=False
        Whether to write one column of lists.
    progress : callable, optional
        Called with the number of rows done and their total, an estimate for .csv and .tsv.

    Returns
    -------
    int
        Number of rows.

    Raises
    ------
    UserError
        If it cannot be done; the message says what to do.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from nearfar import Metric
    >>> from nearfar.cli.transform import transform_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source, target = Path(folder) / "in.csv", Path(folder) / "out.csv"
    ...     _ = source.write_text("id,x\na,1\nb,2\n")
    ...     rows = transform_file(Metric([[3.0]]), source, target, keep=["id"])
    ...     print(rows, target.read_text().split())
    2 ['id,nearfar_0', 'a,3.0', 'b,6.0']
    """
    table_columns = column_names(source) if (keep or drop) and _is_table(source) else []
    kept, dropped = (named_columns(given, table_columns) for given in (keep, drop))
    row_map = RowMap.of_metric(model) if isinstance(model, Metric) else model
    choice = ColumnChoice(kept, dropped, row_map.reader)
    names = [f"nearfar_{number}" for number in range(row_map.n_components)]
    _check(source, target, choice, [_VECTOR] if as_vector else names)
    kind = kind_of(target)
    if as_vector and kind not in WRITTEN_LISTS:
        raise UserError(
            f"--as-vector writes a column of lists, which needs {', '.join(WRITTEN_LISTS)}, "
            f"not {target}."
        )
    with (
        atomic_write(target) as temporary,
        open_table(source, choice, scratch=target.resolve().parent) as table,
    ):
        number = pa.from_numpy_dtype(table.dtype)
        columns = [pa.field(name, number) for name in names]
        if as_vector or kind in ARRAYS:
            columns = [pa.field(_VECTOR, pa.list_(number, len(names)))]
        schema = pa.schema([*table.others, *columns])
        with open_writer(temporary, kind, schema) as writer:
            return _map_rows(row_map, table, writer, schema, target, progress)


def _is_table(source: Path) -> bool:
    return kind_of(source) in TABLES and source.is_file()


def _map_rows(
    row_map: RowMap,
    table: TableReader,
    writer: TableWriter,
    schema: pa.Schema,
    target: Path,
    progress: Callable[[int, int], None] | None,
) -> int:
    report = progress or (lambda *_: None)
    rows = 0
    for batch in rebatched(table.batches(), _batch_rows(row_map)):
        with np.errstate(over="ignore", invalid="ignore"):
            Y = row_map.transform(batch.X)
        if not np.isfinite(Y).all():
            row = rows + int(np.flatnonzero(~np.isfinite(Y).all(axis=1))[0])
            raise UserError(f"Row {row} has values that are too large for the metric.")
        with writing(target):
            writer.write(_joined(batch.others, Y, schema))
        rows += len(batch)
        report(rows, max(rows, batch.total))
        # It may be a view of everything that was read at once.
        del batch
    with writing(target):
        writer.finish()
    report(rows, rows)
    return rows


def _joined(others: pa.Table, Y: Floats, schema: pa.Schema) -> pa.Table:
    """Return rows with their coordinates, in one column of lists or in a column each."""
    if pa.types.is_fixed_size_list(schema[-1].type):
        flat = pa.array(np.ascontiguousarray(Y).ravel())
        coordinates = [pa.FixedSizeListArray.from_arrays(flat, Y.shape[1])]
    else:
        coordinates = [pa.array(np.ascontiguousarray(column)) for column in Y.T]
    return pa.Table.from_arrays([*others.columns, *coordinates], schema=schema)


def _check(source: Path, target: Path, choice: ColumnChoice, names: list[str]) -> None:
    check_output(target, WRITTEN, [source])
    if choice.others and kind_of(target) in ARRAYS:
        raise UserError("An .npy file has coordinates only; to --keep columns, write a table.")
    clash = next((name for name in choice.others if name in names), None)
    if clash is not None:
        raise UserError(f"{clash!r} is the name of a coordinate; rename the column to keep.")


def _batch_rows(row_map: RowMap) -> int:
    """Return how many rows fit into a batch, in whole tiles of BLAS, which rounds the rest anew."""
    reader = row_map.reader
    widest = max(reader.n_features, row_map.n_components, reader.L.shape[1])
    rows = max(1, _BATCH_BYTES // (8 * widest))
    return rows if rows < _BLAS_TILE_ROWS else rows - rows % _BLAS_TILE_ROWS
