"""Files that are complete or not there: everything is written beside its place, then moved."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from nearfar.cli.source import TABLES, SourceError
from nearfar.metric import Metric

SEPARATORS = {".csv": ",", ".tsv": "\t"}


def load_metric(path: Path) -> Metric:
    """Read a metric's file."""
    if not path.is_file():
        raise SourceError(f"There is no file {path}.")
    return Metric.load(path)


def check_target(path: Path, kinds: tuple[str, ...]) -> None:
    """Raise SourceError unless a file of this kind can be written there."""
    if path.suffix.lower() not in kinds:
        raise SourceError(
            f"{path} is not a kind of file that is written; those are {', '.join(kinds)}."
        )
    if path.is_dir():
        raise SourceError(f"{path} is a folder; name a file to write to.")
    if not path.resolve().parent.is_dir():
        raise SourceError(f"There is no folder {path.parent}.")


def write_table(table: pl.DataFrame, path: Path) -> None:
    """Write a table of a kind that is also read."""
    check_target(path, tuple(TABLES))
    with replacing(path) as temporary:
        if path.suffix.lower() == ".parquet":
            table.write_parquet(temporary)
        else:
            table.write_csv(temporary, separator=SEPARATORS[path.suffix.lower()])


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A temporary file that takes the place of another at the end, or leaves it as it was."""
    path = target.resolve()
    temporary = path.with_name(f".nearfar-{secrets.token_hex(8)}")
    with surely(lambda: temporary.unlink(missing_ok=True)):
        try:
            temporary.touch(exist_ok=False)
        except OSError as error:
            raise SourceError(f"{target} cannot be written: {error.strerror}.") from error
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        if path.exists():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)


@contextmanager
def surely(cleanup: Callable[[], None]) -> Iterator[None]:
    """Clean up at the end, twice if need be: after Ctrl-C polars raises, and Python once more."""
    try:
        try:
            yield
        finally:
            cleanup()
    finally:
        cleanup()
