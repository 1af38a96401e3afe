"""Metrics that are read, and tables that are written."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from nearfar.cli.source import SourceError
from nearfar.metrics.metric import Metric
from nearfar.runtime.atomic_write import atomic_write

SEPARATORS = {".csv": ",", ".tsv": "\t"}


def load_metric(path: Path) -> Metric:
    """Read a metric's file."""
    if not path.is_file():
        raise SourceError(f"There is no file {path}.")
    return Metric.load(path)


def check_target(
    path: Path, kinds: tuple[str, ...] | None, inputs: Iterable[str | Path | None] = ()
) -> None:
    """Raise SourceError unless a file of this kind can be written there, and is no input."""
    if kinds is not None and path.suffix.lower() not in kinds:
        raise SourceError(
            f"{path} is not a kind of file that is written; those are {', '.join(kinds)}."
        )
    if path.is_dir():
        raise SourceError(f"{path} is a folder; name a file to write to.")
    try:
        folder = path.resolve().parent
    except (OSError, RuntimeError) as error:
        raise SourceError(f"{path} leads nowhere: {error}") from error
    if not folder.is_dir():
        raise SourceError(f"There is no folder {path.parent}.")
    if path.exists() and not path.is_file():
        raise SourceError(f"{path} is a device or a pipe; name a file to write to.")
    if not os.access(folder, os.W_OK):
        raise SourceError(f"Nothing can be written to the folder {folder}.")
    for given in inputs:
        if given is not None and path.exists() and Path(given).exists() and path.samefile(given):
            raise SourceError(f"{path} is what is read; name another file to write to.")


def write_table(table: pl.DataFrame, path: Path) -> None:
    """Write a table of a kind that is also read."""
    try:
        with atomic_write(path) as temporary:
            if path.suffix.lower() == ".parquet":
                table.write_parquet(temporary)
            else:
                table.write_csv(temporary, separator=SEPARATORS[path.suffix.lower()])
    except (OSError, pl.exceptions.PolarsError) as error:
        raise SourceError(f"{path} cannot be written: {error}") from error
