"""``nearfar transform``: map the rows of a file, in bounded memory however large it is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from nearfar.cli import options
from nearfar.cli.files import (
    is_adapter,
    load_adapter,
    load_metric,
    shown_target,
    spooled,
    stdout_file,
)
from nearfar.cli.terminal import UserError, bars, command, say, show_json
from nearfar.runtime.quoting import counted
from nearfar.tables.formats import WRITTEN, WRITTEN_LISTS
from nearfar.tables.mapping import VECTOR_COLUMN, RowMap, transform_file


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
            help=f"Write the coordinates as one column of lists, {VECTOR_COLUMN!r}; for "
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
    if is_adapter(metric):
        adapter = load_adapter(metric)
        mapped = adapter.transform_documents if documents else adapter.transform_queries
        row_map = RowMap.of_vectors(mapped, adapter.n_features_in_, source, vector)
    elif documents:
        raise UserError(f"--documents is for adapters, which {metric} is not.")
    elif vector is not None:
        raise UserError(f"--vector is for adapters; {metric} is a metric.")
    else:
        row_map = RowMap.of_metric(load_metric(metric))
    with bars() as shown, stdout_file(target) as path:
        rows = transform_file(
            row_map,
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
        say(f"Mapped {counted(rows, 'row')} in {seconds:.2f} s; written to {shown_target(target)}")
