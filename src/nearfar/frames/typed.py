"""Tables whose columns have types: DataFrames, .jsonl, .xlsx, .parquet and Arrow files.

The latter two are read and written by `nearfar.frames.arrow`, which is imported where one
is opened: pyarrow is as large as all of polars, and tables in text do without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nearfar.frames.excel import read_excel
from nearfar.frames.reader import Batch, ColumnChoice, Source, TableFormat, TableReader
from nearfar.runtime.messages import optional_package
from nearfar.typing import Floats


class TypedReader(TableReader):
    """A table that has types: numbers, text and others.

    Parameters
    ----------
    names: Names of all columns.
    types: Returns the types of some columns.
    parts: Some rows at a time, and the number of rows in the whole table.
    """

    def __init__(
        self,
        path: Source,
        choice: ColumnChoice,
        names: Sequence[str],
        types: Callable[[Sequence[str]], pl.Schema],
        parts: Iterable[tuple[pl.DataFrame, int]] = (),
    ) -> None:
        self.path, self._parts = path, parts
        self.features = choice.features(path, names)
        self.needed = choice.needed
        self.wanted = list(dict.fromkeys([*self.features, *choice.others]))
        self._types = types(self.wanted)
        self.others = pl.Schema({name: self._types[name] for name in choice.others})
        single = {self._types[name] for name in self.features} == {pl.Float32()}
        self.dtype = np.dtype(np.float32 if single else np.float64)

    @classmethod
    def of_frame(cls, path: Source, choice: ColumnChoice, frame: pl.DataFrame) -> TypedReader:
        """Read what is in memory."""
        parts = [(frame, len(frame))]
        return cls(path, choice, frame.columns, lambda names: frame.select(names).schema, parts)

    def _read_batches(self) -> Iterator[Batch]:
        self._check_numbers()
        for table, total in self._parts:
            yield self._batch(table, total)

    def _batch(self, table: pl.DataFrame, total: int) -> Batch:
        X = np.empty((len(table), len(self.features)), self.dtype)
        fill(X, table, self.features)
        return Batch(X, table.select(self.others.names()), total)

    def _check_numbers(self) -> None:
        kinds = {name: self._types[name] for name in self.features}
        text = [name for name, kind in kinds.items() if not (kind.is_numeric() or kind == pl.Null)]
        if text:
            raise self.not_numbers(text)


def fill(X: Floats, table: pl.DataFrame, names: Sequence[str]) -> None:
    """Write columns to an array; missing values are nan."""
    number = pl.Float32 if X.dtype == np.float32 else pl.Float64
    for place, name in enumerate(names):
        X[:, place] = table[name].cast(number).to_numpy()


@contextmanager
def open_whole(path: Path, choice: ColumnChoice, _: Path | None) -> Iterator[TypedReader]:
    """Read JSON lines or the first sheet of an Excel file at once."""
    excel = path.suffix.lower() == ".xlsx"
    table = read_excel(path) if excel else pl.read_ndjson(path, infer_schema_length=None)
    yield TypedReader.of_frame(path, choice, table)


ARROW = (".parquet", ".feather", ".arrow")
"""Endings of files that only pyarrow reads and writes."""


def require_pyarrow() -> None:
    """Raise ImportError that says what to install if pyarrow is missing."""
    optional_package("pyarrow.parquet", "A Parquet or Arrow file", "nearfar[parquet]")


def _with_pyarrow(name: str) -> Callable[..., Any]:
    """Return a reader or a writer of `nearfar.frames.arrow`, which is imported late."""

    def opened(*arguments: Any, **options: Any) -> Any:
        require_pyarrow()
        from nearfar.frames import arrow

        return getattr(arrow, name)(*arguments, **options)

    return opened


_ARROW = (_with_pyarrow("open_arrow"), _with_pyarrow("ArrowWriter"))
TYPED_FORMATS = (
    TableFormat(
        ".parquet",
        _with_pyarrow("ParquetReader"),
        partial(_with_pyarrow("ArrowWriter"), parquet=True),
        start=b"PAR1",
        has_lists=True,
    ),
    TableFormat(".feather", *_ARROW, start=b"ARROW1", has_lists=True),
    TableFormat(".arrow", *_ARROW, has_lists=True),
    TableFormat(".jsonl", open_whole, start=rb"\s*\{"),
    TableFormat(".ndjson", open_whole),
    # An .npz file is a .zip file too.
    TableFormat(".xlsx", open_whole, start=rb"PK\x03\x04(?!.{0,192}\.npy)"),
)
