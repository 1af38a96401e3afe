"""Tables with types: .parquet, Arrow files (.feather, .arrow), .jsonl and .xlsx.

Parquet is read in pages. If the pages of all columns together are large, groups of columns go
through a temporary file. Arrow files are read by record batch; .jsonl and .xlsx files at once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

from nearfar.tables.errors import TableError
from nearfar.tables.packed_files import check_growth
from nearfar.tables.reader import (
    Batch,
    ColumnChoice,
    Source,
    TableFormat,
    TableReader,
    TableWriter,
    batch_rows,
)
from nearfar.typing import Floats

_PARQUET_BUFFER_BYTES = 1 << 16
_PARQUET_PAGE_BYTES = 1 << 20
"""Usual size of the pages that Parquet columns consist of."""
_PARQUET_MAX_PAGES_BYTES = 3 << 24
"""Read all columns at once if a page of each takes no more than this; otherwise some at a time."""
_PARQUET_GROUP_PAGES_BYTES = 1 << 24
"""Size of the pages of columns that are read together."""
_ROW_GROUP_BYTES = 1 << 24


class ArrowReader(TableReader):
    """A table that has types: numbers, text and others.

    Parameters
    ----------
    path : Path or Frame
    choice : ColumnChoice
    schema : pyarrow.Schema
    tables : iterable of (pyarrow.Table, int)
        Some rows at a time, and the number of rows in the whole table.
    """

    def __init__(
        self,
        path: Source,
        choice: ColumnChoice,
        schema: pa.Schema,
        tables: Iterable[tuple[pa.Table, int]] = (),
    ) -> None:
        self.path, self._schema, self._parts = path, schema.remove_metadata(), tables
        self.features = choice.features(path, schema.names)
        self.needed = choice.needed
        self.others = pa.schema([self._schema.field(name) for name in choice.others])
        single = {schema.field(name).type for name in self.features} == {pa.float32()}
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def _read_batches(self) -> Iterator[Batch]:
        self._check_numbers()
        for table, total in self._parts:
            yield self._batch(table, total)

    def _batch(self, table: pa.Table, total: int) -> Batch:
        X = _matrix(table, self.features, self.dtype)
        return Batch(X, table.select(self.others.names), total)

    def _check_numbers(self) -> None:
        text = [n for n in self.features if not _is_number(self._schema.field(n).type)]
        if text:
            raise self.not_numbers(text)


def _matrix(table: pa.Table, names: Sequence[str], dtype: np.dtype[Any]) -> Floats:
    """Return columns as an array; missing values are nan."""
    X = np.empty((len(table), len(names)), dtype)
    number = pa.from_numpy_dtype(dtype)
    for place, name in enumerate(names):
        column = table.column(name)
        if column.type != number:
            column = column.cast(number, safe=False)
        X[:, place] = column.to_numpy()
    return X


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    )


class ParquetReader(ArrowReader):
    """A .parquet file, read page by page."""

    def __init__(self, path: Path, choice: ColumnChoice, scratch: Path | None) -> None:
        self._scratch = scratch
        self._file = pa.parquet.ParquetFile(
            path, pre_buffer=False, buffer_size=_PARQUET_BUFFER_BYTES
        )
        super().__init__(path, choice, self._file.schema_arrow)
        self._width = choice.width or len(self.features)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_batches(self) -> Iterator[Batch]:
        self._check_numbers()
        width = len(self.features)
        if self._scratch is None:
            self._check_growth()
            rows, at_once = max(1, self._file.metadata.num_rows), width
        else:
            rows = batch_rows(self._width)
            page = self._page_bytes()
            fits = width * page <= _PARQUET_MAX_PAGES_BYTES
            at_once = width if fits else max(1, _PARQUET_GROUP_PAGES_BYTES // page)
        if width <= at_once:
            yield from self._direct(rows)
            return
        for group in range(self._file.num_row_groups):
            yield from self._by_columns(group, rows, at_once)

    def _check_growth(self) -> None:
        """Refuse a file whose rows take much more memory than it has bytes."""
        width = len(self.features) + len(self.others.names)
        unpacked = self._file.metadata.num_rows * width * self.dtype.itemsize
        check_growth(self.path, Path(str(self.path)).stat().st_size, unpacked)

    def _page_bytes(self) -> int:
        """Return the size of the largest pages, as far as the sizes of the columns tell."""
        metadata = self._file.metadata
        largest = 1
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            sizes = (group.column(i).total_uncompressed_size for i in range(group.num_columns))
            largest = max(largest, *sizes)
        return min(largest, _PARQUET_PAGE_BYTES)

    def _tables(self, names: Sequence[str], rows: int, **options: Any) -> Iterator[pa.Table]:
        """Yield some columns, a few rows at a time."""
        options |= {"batch_size": rows, "columns": list(names), "use_threads": False}
        for columns in self._file.iter_batches(**options):
            # polars panics on the invalid text and offsets of damaged files.
            columns.validate(full=True)
            yield pa.Table.from_batches([columns])

    def _direct(self, rows: int) -> Iterator[Batch]:
        """Read all columns at once."""
        total = self._file.metadata.num_rows
        for table in self._tables([*self.features, *self.others.names], rows):
            yield self._batch(table, total)

    def _by_columns(self, group: int, rows: int, at_once: int) -> Iterator[Batch]:
        """Read a row group, some columns at a time, by way of a temporary file."""
        n = self._file.metadata.row_group(group).num_rows
        width, item = len(self.features), self.dtype.itemsize
        others = self._tables(self.others.names, rows, row_groups=[group])
        waiting = self.others.empty_table()
        with tempfile.TemporaryFile(dir=self._scratch) as file:
            for left in range(0, width, at_once):
                names = self.features[left : left + at_once]
                for table in self._tables(names, rows, row_groups=[group]):
                    file.write(_matrix(table, names, self.dtype).data)
            for start in range(0, n, rows):
                X = np.empty((min(rows, n - start), width), self.dtype)
                for left in range(0, width, at_once):
                    part = X[:, left : left + at_once]
                    file.seek((n * left + start * part.shape[1]) * item)
                    block = file.read(part.size * item)
                    part[:] = np.frombuffer(block, self.dtype).reshape(part.shape)
                while self.others.names and len(waiting) < len(X):
                    waiting = pa.concat_tables([waiting, next(others)])
                yield Batch(X, waiting.slice(0, len(X)), self._file.metadata.num_rows)
                waiting = waiting.slice(len(X))


@contextmanager
def _open_arrow(path: Path, choice: ColumnChoice, _: Path | None) -> Iterator[ArrowReader]:
    with pa.OSFile(str(path)) as source:
        file = pa.ipc.open_file(source)
        total = pa.dataset.dataset(path, format="ipc").count_rows()
        yield ArrowReader(path, choice, file.schema, _record_batches(file, total))


def _record_batches(file: pa.RecordBatchFileReader, total: int) -> Iterator[tuple[pa.Table, int]]:
    for number in range(file.num_record_batches):
        batch = file.get_batch(number)
        batch.validate(full=True)
        yield pa.Table.from_batches([batch]), total


@contextmanager
def _open_whole(
    path: Path, choice: ColumnChoice, _: Path | None, *, load: Callable[[Path], pl.DataFrame]
) -> Iterator[ArrowReader]:
    table = load(path).to_arrow()
    yield ArrowReader(path, choice, table.schema, [(table, len(table))])


def _load_json_lines(path: Path) -> pl.DataFrame:
    return pl.read_ndjson(path, infer_schema_length=None)


def _load_excel(path: Path) -> pl.DataFrame:
    try:
        return pl.read_excel(path)
    except ImportError:
        raise TableError(
            f'{path}: reading Excel needs a package; run: pip install "fastexcel", or save the '
            "sheet as .csv."
        ) from None


class _ArrowWriter(TableWriter):
    """Writes row groups, or record batches, of bounded size."""

    def __init__(
        self, path: Path, schema: pa.Schema, *, create: Callable[[Path, pa.Schema], Any]
    ) -> None:
        width = sum(getattr(field.type, "list_size", 1) for field in schema)
        self._rows = max(1, _ROW_GROUP_BYTES // (8 * width))
        self._waiting: list[pa.Table] = []
        self._writer = create(path, schema)

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        self._waiting.append(table)
        if sum(map(len, self._waiting)) >= self._rows:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting), self._rows)
        self._waiting = []

    def finish(self) -> None:
        """Write the rows that wait, and the end of the file."""
        self._flush()
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


def _create_parquet(path: Path, schema: pa.Schema) -> pa.parquet.ParquetWriter:
    # Coordinates hardly repeat, so that a dictionary of them is no use.
    repeated = [
        field.name
        for field in schema
        if not (pa.types.is_floating(field.type) or pa.types.is_fixed_size_list(field.type))
    ]
    encoding: dict[str, Any] = {"compression": "zstd", "use_dictionary": repeated}
    return pa.parquet.ParquetWriter(path, schema, **encoding)


def _create_arrow(path: Path, schema: pa.Schema) -> pa.RecordBatchFileWriter:
    return pa.ipc.new_file(str(path), schema)


_write_arrow = partial(_ArrowWriter, create=_create_arrow)
_read_json_lines = partial(_open_whole, load=_load_json_lines)

ARROW_FORMATS = (
    TableFormat(
        ".parquet",
        ParquetReader,
        partial(_ArrowWriter, create=_create_parquet),
        start=b"PAR1",
        has_lists=True,
    ),
    TableFormat(".feather", _open_arrow, _write_arrow, start=b"ARROW1", has_lists=True),
    TableFormat(".arrow", _open_arrow, _write_arrow, has_lists=True),
    TableFormat(".jsonl", _read_json_lines, start=rb"\s*\{"),
    TableFormat(".ndjson", _read_json_lines),
    # An .npz file is a .zip file too.
    TableFormat(
        ".xlsx",
        partial(_open_whole, load=_load_excel),
        start=rb"PK\x03\x04(?!.{0,192}\.npy)",
    ),
)
