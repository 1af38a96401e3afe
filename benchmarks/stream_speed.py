"""`nearfar transform` on large files: peak memory, and speed compared with polars reading the file.

CSV and Parquet files of 2 GB, 50 features to 10; also 500 features to 30, and Parquet in one row
group. Each file has its own process, which maps it and then lets polars sum its columns.

    python benchmarks/stream_speed.py [--toy]
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from nearfar import Metric
from nearfar.cli.transform import transform_file
from protocol import arguments, record

MB = 1_000_000
BYTES_PER_CELL = {".csv": 19.6, ".parquet": 8}


def generate(path: Path, n_bytes: int, width: int, row_group_size: int) -> None:
    rows = int(n_bytes / (BYTES_PER_CELL[path.suffix] * width))
    batch = min(rows, 1_000_000 // width)
    names = [f"f{i}" for i in range(width)]

    def draw(*_: Any) -> Iterator[pl.DataFrame]:
        rng = np.random.default_rng(0)
        for start in range(0, rows, batch):
            X = rng.standard_normal((min(batch, rows - start), width))
            yield pl.DataFrame(X, schema=names)

    table = register_io_source(draw, schema=dict.fromkeys(names, pl.Float64()))
    if path.suffix == ".csv":
        table.sink_csv(path)
    else:
        table.sink_parquet(path, compression="uncompressed", row_group_size=row_group_size)


def peak() -> float:
    """Peak memory since the process started, or since the last call, in MB."""
    status = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    Path("/proc/self/clear_refs").write_text("5")
    return kilobytes * 1024 / MB


def measure(path: Path, width: int, n_components: int) -> dict[str, Any]:
    metric = Metric(np.random.default_rng(1).standard_normal((n_components, width)))
    row: dict[str, Any] = {"size": path.stat().st_size / MB, "cores": os.cpu_count()}
    row["imports_peak"] = peak()
    start = time.perf_counter()
    row["rows"] = transform_file(metric, path, path.with_name(f"mapped{path.suffix}"))
    row["seconds"] = time.perf_counter() - start
    row["peak"] = peak()
    start = time.perf_counter()
    lazy = pl.scan_csv(path) if path.suffix == ".csv" else pl.scan_parquet(path)
    lazy.select(pl.all().sum()).collect(engine="streaming")
    row["read_seconds"] = time.perf_counter() - start
    row["read_peak"] = peak()
    return row


def run(name: str, n_bytes: int, width: int, n_components: int, group: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"table.{name.split()[0].lower()}"
        generate(path, n_bytes, width, group)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            row = {"name": name, **pool.apply(measure, (path, width, n_components))}
    print(
        f"{name}, {width} -> {n_components}: {row['size']:.0f} MB, {row['rows']} rows: "
        f"{row['seconds']:.1f} s, {row['size'] / row['seconds']:.0f} MB/s, "
        f"peak {row['peak']:.0f} MB (imports {row['imports_peak']:.0f}); "
        f"polars reads it at {row['size'] / row['read_seconds']:.0f} MB/s, "
        f"peak {row['read_peak']:.0f} MB; {row['seconds'] / row['read_seconds']:.1f} times as long",
        flush=True,
    )
    return row


def main() -> None:
    size = 4 * MB if arguments(__doc__).toy else 2_000 * MB
    rows = [
        run("CSV", size, 50, 10, 0),
        run("Parquet", size, 50, 10, 100_000),
        run("CSV wide", size, 500, 30, 0),
        run("Parquet wide", size, 500, 30, 50_000),
        run("Parquet in one row group", size, 50, 10, 1_000_000_000),
        run("Parquet wide in one row group", size, 500, 30, 1_000_000_000),
    ]
    record("stream_speed", rows)


if __name__ == "__main__":
    main()
