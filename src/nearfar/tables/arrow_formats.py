"""Tables with types: .parquet, Arrow files (.feather, .arrow), .jsonl and .xlsx.

Parquet is read in pages. If the pages of all columns together are large, groups of columns go
through a temporary file. Arrow files are read by record batch; .jsonl and .xlsx files at once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

from nearfar.tables.excel_format import read_excel
from nearfar.tables.packed_files import check_growth
from nearfar.tables.reader import (
    Batch,
    ColumnChoice,
    Source,
    TableFormat,
    TableReader,
    TableWriter,
    batch_rows,
    reading,
)
from nearfar.typing import Floats

# Each column has a buffer, so that small ones bound the memory of wide tables.
_PARQUET_BUFFER_BYTES = 1 << 16
# Usual size of the pages that Parquet columns consist of.
_PARQUET_PAGE_BYTES = 1 << 20
# Read all columns at once if a page of each takes no more than this; otherwise some at a time.
_PARQUET_MAX_PAGES_BYTES = 3 << 24
# Size of the pages of columns that are read together.
_PARQUET_GROUP_PAGES_BYTES = 1 << 24
# Larger row groups are read faster, and held in memory until they are written.
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
        X = np.empty((len(table), len(self.features)), self.dtype)
        _fill(X, table, self.features)
        return Batch(X, table.select(self.others.names), total)

    def _check_numbers(self) -> None:
        types = pa.types
        numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
        text = [n for n in self.features if not any(f(self._schema.field(n).type) for f in numeric)]
        if text:
            raise self.not_numbers(text)


def _fill(X: Floats, table: pa.Table, names: Sequence[str]) -> None:
    """Write columns to an array; missing values are nan."""
    number = pa.from_numpy_dtype(X.dtype)
    for place, name in enumerate(names):
        column = table.column(name)
        if column.type != number:
            column = column.cast(number, safe=False)
        X[:, place] = column.to_numpy()


class ParquetReader(ArrowReader):
    """A .parquet file, read page by page."""

    def __init__(self, path: Path, choice: ColumnChoice, scratch: Path | None) -> None:
        self._scratch = scratch
        self._file = pa.parquet.ParquetFile(
            path, pre_buffer=False, buffer_size=_PARQUET_BUFFER_BYTES
        )
        super().__init__(path, choice, self._file.schema_arrow)
        metadata = self._file.metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        # Lists have more than one number.
        bytes_per_row = sum(group.total_byte_size for group in groups) // max(1, metadata.num_rows)
        self._width = max(choice.width, len(self.features), bytes_per_row // 8)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read(self) -> Batch:
        """Return all rows at once: some columns at a time, each written to its place."""
        metadata, width = self._file.metadata, len(self.features)
        # A file may have much more than it has bytes.
        cells = metadata.num_rows * (width + len(self.others.names))
        packed = Path(str(self.path)).stat().st_size
        check_growth(self.path, packed, cells * self.dtype.itemsize)
        self._check_numbers()
        with reading(self.path):
            X, at_once = np.empty((metadata.num_rows, width), self.dtype), self._columns_at_once()
            for left in range(0, width, at_once):
                names, top = self.features[left : left + at_once], 0
                for table in self._tables(names, batch_rows(len(names))):
                    _fill(X[top : top + len(table), left : left + at_once], table, names)
                    top += len(table)
            others = [self.others.empty_table()]
            if self.others.names:
                others += self._tables(self.others.names, batch_rows(self._width))
        self._check_finite(X, 0)
        return Batch(X, pa.concat_tables(others), metadata.num_rows)

    def _read_batches(self) -> Iterator[Batch]:
        self._check_numbers()
        rows, at_once = batch_rows(self._width), self._columns_at_once()
        if self._scratch is None or len(self.features) <= at_once:
            for table in self._tables([*self.features, *self.others.names], rows):
                yield self._batch(table, self._file.metadata.num_rows)
            return
        for group in range(self._file.num_row_groups):
            yield from self._by_columns(group, rows, at_once)

    def _columns_at_once(self) -> int:
        """Return how many columns have pages of bounded size together."""
        metadata, width = self._file.metadata, len(self.features)
        # Pages are no larger than their columns.
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        columns = [group.column(i) for group in groups for i in range(group.num_columns)]
        largest = max((column.total_uncompressed_size for column in columns), default=1)
        page = min(max(1, largest), _PARQUET_PAGE_BYTES)
        fits = width * page <= _PARQUET_MAX_PAGES_BYTES
        return max(1, width if fits else _PARQUET_GROUP_PAGES_BYTES // page)

    def _tables(
        self, names: Sequence[str], rows: int, groups: list[int] | None = None
    ) -> Iterator[pa.Table]:
        """Yield some columns of all or of some row groups, a few rows at a time."""
        for columns in self._file.iter_batches(rows, groups, list(names), use_threads=False):
            # polars panics on the invalid text and offsets of damaged files.
            columns.validate(full=True)
            yield pa.Table.from_batches([columns])

    def _by_columns(self, group: int, rows: int, at_once: int) -> Iterator[Batch]:
        """Read a row group, some columns at a time, by way of a temporary file."""
        n = self._file.metadata.row_group(group).num_rows
        width, item = len(self.features), self.dtype.itemsize
        others = self._tables(self.others.names, rows, [group])
        waiting = self.others.empty_table()
        with tempfile.TemporaryFile(dir=self._scratch) as file:
            for left in range(0, width, at_once):
                names = self.features[left : left + at_once]
                for table in self._tables(names, rows, [group]):
                    part = np.empty((len(table), len(names)), self.dtype)
                    _fill(part, table, names)
                    file.write(part.data)
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
def open_arrow(path: Path, choice: ColumnChoice, _: Path | None) -> Iterator[ArrowReader]:
    """Read an Arrow file by record batch."""
    with pa.OSFile(str(path)) as source:
        file = pa.ipc.open_file(source)
        total = pa.dataset.dataset(path, format="ipc").count_rows()

        def record_batches() -> Iterator[tuple[pa.Table, int]]:
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                batch.validate(full=True)
                yield pa.Table.from_batches([batch]), total

        yield ArrowReader(path, choice, file.schema, record_batches())


@contextmanager
def open_whole(path: Path, choice: ColumnChoice, _: Path | None) -> Iterator[ArrowReader]:
    """Read JSON lines or the first sheet of an Excel file at once."""
    excel = path.suffix.lower() == ".xlsx"
    table = read_excel(path) if excel else pl.read_ndjson(path, infer_schema_length=None).to_arrow()
    yield ArrowReader(path, choice, table.schema, [(table, len(table))])


class ArrowWriter(TableWriter):
    """Writes row groups of a .parquet file, or record batches of an Arrow file, of bounded size."""

    def __init__(self, path: Path, schema: pa.Schema, *, parquet: bool = False) -> None:
        width = sum(getattr(field.type, "list_size", 1) for field in schema)
        self._rows = max(1, _ROW_GROUP_BYTES // (8 * width))
        self._waiting: list[pa.Table] = []
        self._writer: pa.parquet.ParquetWriter | pa.RecordBatchFileWriter
        if parquet:
            # Coordinates hardly repeat, so that a dictionary of them is no use.
            repeated = [
                field.name
                for field in schema
                if not (pa.types.is_floating(field.type) or pa.types.is_fixed_size_list(field.type))
            ]
            self._writer = pa.parquet.ParquetWriter(
                path, schema, compression="zstd", use_dictionary=repeated
            )
        else:
            self._writer = pa.ipc.new_file(str(path), schema)

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


ARROW_FORMATS = (
    TableFormat(
        ".parquet",
        ParquetReader,
        partial(ArrowWriter, parquet=True),
        start=b"PAR1",
        has_lists=True,
    ),
    TableFormat(".feather", open_arrow, ArrowWriter, start=b"ARROW1", has_lists=True),
    TableFormat(".arrow", open_arrow, ArrowWriter, has_lists=True),
    TableFormat(".jsonl", open_whole, start=rb"\s*\{"),
    TableFormat(".ndjson", open_whole),
    # An .npz file is a .zip file too.
    TableFormat(".xlsx", open_whole, start=rb"PK\x03\x04(?!.{0,192}\.npy)"),
)
