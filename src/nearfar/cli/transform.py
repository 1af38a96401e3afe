"""``nearfar transform``: rows mapped to where Euclidean distance is the metric."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from nearfar.cli import options
from nearfar.cli.files import load_metric
from nearfar.cli.stream import transform_file
from nearfar.cli.terminal import bars, command, say, show_json


@command
def transform(
    metric: options.MetricPath,
    source: Annotated[Path, typer.Argument(help="A table (.csv, .tsv, .parquet) or an array.")],
    target: Annotated[Path, typer.Argument(help="What to write: .csv, .tsv, .parquet or .npy.")],
    keep: Annotated[
        list[str] | None, typer.Option(help="Column to copy as it is; repeatable.")
    ] = None,
    drop: options.Drop = None,
    json: options.Json = False,
) -> None:
    """Map every row of a file by a metric, in bounded memory however large the file is."""
    start = time.perf_counter()
    with bars() as shown:
        rows = transform_file(
            load_metric(metric),
            source,
            target,
            keep=keep or [],
            drop=drop or [],
            progress=lambda done, total: shown.update(done, total, "rows"),
        )
    seconds = time.perf_counter() - start
    if json:
        show_json({"rows": rows, "written": str(target), "seconds": seconds})
    else:
        say(f"{rows} rows mapped in {seconds:.2f} s, written to {target}")
