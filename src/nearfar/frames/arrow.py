"""Tables in .parquet and Arrow files (.feather, .arrow), in bounded memory; they need pyarrow.

Parquet is read in pages. If the pages of all columns together are large, groups of columns go
through a temporary file. Arrow files are read by record batch. polars reads and writes both, but
holds whole row groups, and aborts on some damaged files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

from nearfar.frames.formats import TypedReader, fill
from nearfar.frames.reader import (
    Batch,
    ColumnChoice,
    TableWriter,
    batch_rows,
    reading,
)
from nearfar.frames.table import check_growth

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


class ParquetReader(TypedReader):
    """A .parquet file, read page by page."""

    def __init__(self, path: Path, choice: ColumnChoice, scratch: Path | None) -> None:
        self._scratch = scratch
        self._file = pa.parquet.ParquetFile(
            path, pre_buffer=False, buffer_size=_PARQUET_BUFFER_BYTES
        )
        schema = self._file.schema_arrow
        super().__init__(path, choice, schema.names, lambda names: _types(schema, names))
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
        cells = metadata.num_rows * (width + len(self.others))
        packed = Path(str(self.path)).stat().st_size
        check_growth(self.path, packed, cells * self.dtype.itemsize)
        self._check_numbers()
        with reading(self.path):
            X, at_once = np.empty((metadata.num_rows, width), self.dtype), self._columns_at_once()
            for left in range(0, width, at_once):
                names, top = self.features[left : left + at_once], 0
                for table in self._tables(names, batch_rows(len(names))):
                    fill(X[top : top + len(table), left : left + at_once], table, names)
                    top += len(table)
            others = [self.others.to_frame()]
            if self.others:
                others += self._tables(self.others.names(), batch_rows(self._width))
        self._check_finite(X, 0)
        return Batch(X, pl.concat(others), metadata.num_rows)

    def _read_batches(self) -> Iterator[Batch]:
        self._check_numbers()
        rows, at_once = batch_rows(self._width), self._columns_at_once()
        if self._scratch is None or len(self.features) <= at_once:
            for table in self._tables([*self.features, *self.others], rows):
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
    ) -> Iterator[pl.DataFrame]:
        """Yield some columns of all or of some row groups, a few rows at a time."""
        wanted = list(dict.fromkeys(names))
        for columns in self._file.iter_batches(rows, groups, wanted, use_threads=False):
            yield _frame(columns)

    def _by_columns(self, group: int, rows: int, at_once: int) -> Iterator[Batch]:
        """Read a row group, some columns at a time, by way of a temporary file."""
        n = self._file.metadata.row_group(group).num_rows
        width, item = len(self.features), self.dtype.itemsize
        others = self._tables(self.others.names(), rows, [group])
        waiting = self.others.to_frame()
        with tempfile.TemporaryFile(dir=self._scratch) as file:
            for left in range(0, width, at_once):
                names = self.features[left : left + at_once]
                for table in self._tables(names, rows, [group]):
                    part = np.empty((len(table), len(names)), self.dtype)
                    fill(part, table, names)
                    file.write(part.data)
            for start in range(0, n, rows):
                X = np.empty((min(rows, n - start), width), self.dtype)
                for left in range(0, width, at_once):
                    part = X[:, left : left + at_once]
                    file.seek((n * left + start * part.shape[1]) * item)
                    block = file.read(part.size * item)
                    part[:] = np.frombuffer(block, self.dtype).reshape(part.shape)
                while self.others and len(waiting) < len(X):
                    waiting = pl.concat([waiting, next(others)])
                yield Batch(X, waiting.slice(0, len(X)), self._file.metadata.num_rows)
                waiting = waiting.slice(len(X))


@contextmanager
def open_arrow(path: Path, choice: ColumnChoice, _: Path | None) -> Iterator[TypedReader]:
    """Read an Arrow file by record batch."""
    with pa.OSFile(str(path)) as source:
        file = pa.ipc.open_file(source)
        total = pa.dataset.dataset(path, format="ipc").count_rows()

        schema = file.schema

        def record_batches() -> Iterator[tuple[pl.DataFrame, int]]:
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                yield _frame(batch.select(list(dict.fromkeys(reader.wanted)))), total

        reader = TypedReader(
            path, choice, schema.names, lambda names: _types(schema, names), record_batches()
        )
        yield reader


def _frame(columns: pa.RecordBatch) -> pl.DataFrame:
    """Return some rows as a frame of polars, with the same names."""
    # polars panics on the invalid text and offsets of damaged files, on damaged metadata, and on
    # decimals of 256 bits. It renames columns without a name.
    columns.validate(full=True)
    names = [str(number) for number in range(columns.num_columns)]
    arrays = [
        column.cast(pa.float64()) if pa.types.is_decimal256(column.type) else column
        for column in columns.columns
    ]
    frame = pl.from_arrow(pa.RecordBatch.from_arrays(arrays, names=names))
    assert isinstance(frame, pl.DataFrame)
    frame.columns = columns.schema.names
    return frame


def _types(schema: pa.Schema, names: Sequence[str]) -> pl.Schema:
    """Return the types of some columns as polars has them."""
    # `pa.array([], type)` of pyarrow 16 cannot make all dictionaries.
    columns = [column.chunk(0) for column in schema.empty_table().select(list(names)).columns]
    return _frame(pa.RecordBatch.from_arrays(columns, names=list(names))).schema


class ArrowWriter(TableWriter):
    """Writes row groups of a .parquet file, or record batches of an Arrow file, of bounded size."""

    def __init__(self, path: Path, schema: pl.Schema, *, parquet: bool = False) -> None:
        width = sum(getattr(kind, "size", 1) for kind in schema.dtypes())
        self._rows = max(1, _ROW_GROUP_BYTES // (8 * width))
        self._waiting: list[pl.DataFrame] = []
        columns = schema.to_frame().to_arrow().schema
        self._writer: pa.parquet.ParquetWriter | pa.RecordBatchFileWriter
        if parquet:
            # Coordinates hardly repeat, so that a dictionary of them is no use.
            repeated = [
                name
                for name, kind in schema.items()
                if not (kind.is_float() or isinstance(kind, pl.Array))
            ]
            self._writer = pa.parquet.ParquetWriter(
                path, columns, compression="zstd", use_dictionary=repeated
            )
        else:
            self._writer = pa.ipc.new_file(str(path), columns)

    def write(self, table: pl.DataFrame) -> None:
        """Append rows."""
        self._waiting.append(table)
        if sum(map(len, self._waiting)) >= self._rows:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pl.concat(self._waiting).to_arrow(), self._rows)
        self._waiting = []

    def finish(self) -> None:
        """Write the rows that wait, and the end of the file."""
        self._flush()
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()
