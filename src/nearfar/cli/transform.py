"""``nearfar transform``: map the rows of a file, in bounded memory however large it is.

Rows are mapped in batches whose length depends on the metric alone, so that the same rows give the
same bits in any format. The target is replaced only once the new file is complete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from nearfar.cli import options
from nearfar.cli.errors import UserError
from nearfar.cli.metric_files import check_output, load_metric
from nearfar.cli.streams import shown_target, spooled
from nearfar.cli.table_formats import TABLE_FORMATS, column_names, kind_of, open_table
from nearfar.cli.table_writers import (
    VECTOR,
    WRITTEN_FORMATS,
    TableWriter,
    open_writer,
    stdout_file,
    writing,
)
from nearfar.cli.tables import ColumnChoice, TableReader, named_columns, rebatched
from nearfar.cli.terminal import bars, command, say, show_json
from nearfar.metrics.metric import Metric
from nearfar.runtime.atomic_write import always_cleaned_up, atomic_write

_BATCH_BYTES = 1 << 23
_BLAS_TILE_ROWS = 1024


@command
def transform(
    metric: options.MetricPath,
    source: Annotated[
        Path,
        typer.Argument(callback=spooled, help="Table or array, as for learn, or - for stdin."),
    ],
    target: Annotated[
        Path,
        typer.Argument(help="File to write: .csv, .tsv, .parquet or .npy; - is .csv to stdout."),
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
            help=f"Write the coordinates as one column of lists, {VECTOR!r}; for .parquet.",
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """Map the rows of a file so that Euclidean distance is the metric.

    Memory is bounded, however large the file is.
    """
    start = time.perf_counter()
    with bars() as shown, stdout_file(target) as path:
        rows = transform_file(
            load_metric(metric),
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
    metric: Metric,
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
    metric : Metric
        With feature names, these columns are mapped; otherwise all but `keep` and `drop`.
    source : Path
        Table or 2-d array (.npy; .npz: its array X, or its only one).
    target : Path
        Table (.csv, .tsv, .parquet) or array (.npy) of the coordinates. An existing file is
        replaced only once the new one is complete.
    keep : sequence of str
        Columns to copy before the coordinates. Those of a .csv or .tsv stay the text they are.
    drop : sequence of str
        Columns to leave out.
    as_vector : bool, default=False
        Whether to write one column of lists; for .parquet.
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
    choice = ColumnChoice(kept, dropped, metric)
    names = [f"nearfar_{number}" for number in range(metric.n_components)]
    _check(metric, source, target, choice, [VECTOR] if as_vector else names)
    if as_vector and target.suffix.lower() != ".parquet":
        raise UserError(
            f"--as-vector writes a column of lists, which needs .parquet, not {target}."
        )
    with (
        atomic_write(target) as temporary,
        open_table(source, choice, scratch=target.resolve().parent) as table,
    ):
        kind = target.suffix.lower()
        writer = open_writer(temporary, kind, table.others, names, table.dtype, as_vector=as_vector)
        with always_cleaned_up(writer.close):
            return _map_rows(metric, table, writer, target, progress or (lambda *_: None))


def _is_table(source: Path) -> bool:
    return kind_of(source) in TABLE_FORMATS and source.is_file()


def _map_rows(
    metric: Metric,
    table: TableReader,
    writer: TableWriter,
    target: Path,
    progress: Callable[[int, int], None],
) -> int:
    rows = 0
    for batch in rebatched(table.batches(), _batch_rows(metric)):
        Y = metric.transform(batch.X)
        with writing(target):
            writer.write(batch.others, Y)
        rows += len(batch)
        progress(rows, max(rows, batch.total))
        # It may be a view of everything that was read at once.
        del batch
    with writing(target):
        writer.finish()
    progress(rows, rows)
    return rows


def _check(
    metric: Metric, source: Path, target: Path, choice: ColumnChoice, names: list[str]
) -> None:
    if len(metric.parts) > 1:
        raise UserError(
            "A gated metric has several maps, and the query decides which one applies; "
            "transform needs a metric with one map."
        )
    check_output(target, WRITTEN_FORMATS, [source])
    if choice.others and target.suffix.lower() == ".npy":
        raise UserError("An .npy file has coordinates only; to --keep columns, write a table.")
    clash = next((name for name in choice.others if name in names), None)
    if clash is not None:
        raise UserError(f"{clash!r} is the name of a coordinate; rename the column to keep.")


def _batch_rows(metric: Metric) -> int:
    """Return how many rows fit into a batch, in whole tiles of BLAS, which rounds the rest anew."""
    widest = max(metric.n_features, metric.n_components, metric.L.shape[1])
    rows = max(1, _BATCH_BYTES // (8 * widest))
    return rows if rows < _BLAS_TILE_ROWS else rows - rows % _BLAS_TILE_ROWS
