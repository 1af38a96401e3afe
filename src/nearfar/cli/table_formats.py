"""Table formats that are read: .csv, .tsv, .parquet, .npy and .npz.

Memory is bounded, whatever the size of the file: text is read in blocks and Parquet in pages. If
the pages of all columns together are large, groups of columns go through a temporary file.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from nearfar.cli.errors import UserError
from nearfar.cli.tables import Batch, ColumnChoice, TableReader, first_line, listed, reading
from nearfar.metrics.metric import Metric
from nearfar.typing import Floats

SEPARATORS = {".csv": ",", ".tsv": "\t"}
TABLE_FORMATS = (*SEPARATORS, ".parquet")
ARRAY_FORMATS = (".npy", ".npz")
FORMATS = (*TABLE_FORMATS, *ARRAY_FORMATS)

_CSV_BLOCK_BYTES = 1 << 22
_CSV_MAX_RECORD_BYTES = 1 << 26
_CSV_TAIL_BYTES = 1 << 12
_BATCH_BYTES = 1 << 23
_PARQUET_BUFFER_BYTES = 1 << 16
_PARQUET_PAGE_BYTES = 1 << 20
"""Usual size of the pages that Parquet columns consist of."""
_PARQUET_MAX_PAGES_BYTES = 3 << 24
"""Read all columns at once if a page of each takes no more than this; otherwise some at a time."""
_PARQUET_GROUP_PAGES_BYTES = 1 << 24
"""Size of the pages of columns that are read together."""


@contextmanager
def open_table(
    path: Path, choice: ColumnChoice, *, scratch: Path | None = None
) -> Iterator[TableReader]:
    """Open a table or a 2-d array.

    Parameters
    ----------
    path : Path
    choice : ColumnChoice
    scratch : Path, optional
        Folder for temporary files, to read in bounded memory. By default everything is read at
        once.
    """
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise UserError(f"{path} is not in a supported format: {', '.join(FORMATS)}.")
    if not path.is_file():
        raise UserError(f"There is no file {path}.")
    if kind in ARRAY_FORMATS and (choice.others or choice.drop):
        raise UserError(f"{path} is an array without named columns; use a table to name columns.")
    with ExitStack() as stack:
        with reading(path):
            if kind in SEPARATORS:
                reader: TableReader = CsvReader(path, choice)
            elif kind == ".parquet":
                reader = ParquetReader(path, choice, scratch)
            else:
                if kind == ".npz" and scratch is not None:
                    unpacked = tempfile.TemporaryDirectory(prefix=".nearfar-", dir=scratch)
                    scratch = Path(stack.enter_context(unpacked))
                reader = ArrayReader(path, choice.metric, scratch)
        yield stack.enter_context(closing(reader))


def column_names(path: Path) -> list[str]:
    """Return the names of a table's columns."""
    if path.suffix.lower() not in TABLE_FORMATS:
        raise UserError(f"{path} is not a table: {', '.join(TABLE_FORMATS)}.")
    with open_table(path, ColumnChoice()) as table:
        return list(table.features)


def read_frame(path: Path) -> pl.DataFrame:
    """Read all columns of a table as they are; those of text files are text."""
    with open_table(path, ColumnChoice(others=tuple(column_names(path)))) as table:
        frame = pl.from_arrow(table.read().others)
    assert isinstance(frame, pl.DataFrame)
    if len(frame) == 0:
        raise UserError(f"{path} has no rows.")
    return frame


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


class CsvReader(TableReader):
    """A .csv or .tsv file. Features are float64; other columns stay the text they are.

    Blocks of whole records are cut here and parsed by polars. pyarrow's incremental reader loses a
    newline if a block ends between the CR and LF of a quoted value, cannot read a record that is
    longer than a block, and takes everything after an unclosed quote as one value. That of polars
    holds more of the file the more cores there are.
    """

    dtype = np.dtype(np.float64)

    def __init__(self, path: Path, choice: ColumnChoice) -> None:
        self.path = path
        self._separator = SEPARATORS[path.suffix.lower()]
        with path.open("rb") as file:
            header = self._header(file)
            self._start = file.tell()
            self._end = _end_of_text(file, self._start)
        self._columns = next(csv.reader(io.StringIO(header, newline=""), delimiter=self._separator))
        self.features = choice.features(path, self._columns)
        self.others = pa.schema([(name, pa.string()) for name in choice.others])
        # A column that is both is read as text and converted later.
        self._types: dict[str, Any] = dict.fromkeys(self.features, pl.Float64)
        self._types |= dict.fromkeys(choice.others, pl.String)

    def _header(self, file: BinaryIO) -> str:
        """Return the first record, or say what is wrong with it."""
        record = file.readline(_CSV_MAX_RECORD_BYTES)
        if record.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise UserError(f"{self.path} is in UTF-16; save it in UTF-8.")
        if self._separator == "," and b"," not in record and b";" in record:
            raise UserError(
                f"{self.path} is separated by ';'; save it with ',' (and '.' for decimals)."
            )
        while record.count(b'"') % 2 and len(record) < _CSV_MAX_RECORD_BYTES:
            if not (more := file.readline(_CSV_MAX_RECORD_BYTES)):
                break
            record += more
        if not record.strip():
            raise UserError(f"{self.path} has no header; its first line must name the columns.")
        return record.decode("utf-8-sig")

    def _read_batches(self) -> Iterator[Batch]:
        """Yield one batch per block; the total is estimated from the bytes read so far."""
        size = self._end - self._start
        rows = done = 0
        for block in self._blocks():
            try:
                frame = self._parse(block, self._types)
                X = frame.select(pl.col(self.features).cast(pl.Float64)).to_numpy(order="c")
            except pl.exceptions.PolarsError as error:
                raise self._explained(error, block, rows) from error
            others = frame.select(self.others.names).to_arrow().cast(self.others)
            rows += len(X)
            done += len(block)
            yield Batch(X, others, max(rows, rows * size // done))

    def _blocks(self) -> Iterator[bytes]:
        """Yield whole records, about as many bytes each time."""
        with self.path.open("rb") as file:
            file.seek(self._start)
            rest = b""
            while more := file.read(min(_CSV_BLOCK_BYTES, self._end - file.tell())):
                block = rest + more
                if file.tell() == self._end and block.count(b'"') % 2 == 0:
                    yield block
                    return
                end = _end_of_records(block)
                rest = block[end:]
                if end:
                    yield block[:end]
                elif len(rest) > _CSV_MAX_RECORD_BYTES:
                    break
            if rest:
                raise UserError(f"{self.path} has a quote that is not closed.")

    def _parse(self, block: bytes, types: dict[str, Any]) -> pl.DataFrame:
        """Parse some columns of whole records; short records are filled with nulls."""
        # Names of our own need no quotes.
        aliases = {name: f"c{number}" for number, name in enumerate(self._columns)}
        wanted = {aliases[name]: kind for name, kind in types.items()}
        frame = pl.read_csv(
            self._separator.join(aliases.values()).encode() + b"\n" + block,
            separator=self._separator,
            columns=list(wanted),
            schema_overrides=wanted,
            infer_schema=False,
        )
        return frame.select(pl.col(aliases[name]).alias(name) for name in types)

    def _explained(self, error: Exception, block: bytes, before: int) -> UserError:
        """Name a row that is too long, columns of text, or the first cell that is not a number."""
        text = io.StringIO(block.decode(errors="replace"), newline="")
        for row, record in enumerate(csv.reader(text, delimiter=self._separator), start=before):
            if len(record) > len(self._columns):
                return UserError(
                    f"{self.path} has {len(record)} values in row {row} (counting from 0), but "
                    f"{len(self._columns)} columns."
                )
        try:
            cells = self._parse(block, dict.fromkeys(self.features, pl.String))
        except pl.exceptions.PolarsError:
            return UserError(f"{self.path} cannot be read after row {before}: {first_line(error)}")
        is_text = pl.all().is_not_null() & pl.all().cast(pl.Float64, strict=False).is_null()
        wrong = cells.select(is_text)
        words = [c.name for c in wrong if c.any() and c.sum() == cells[c.name].count()]
        if words:
            return self.not_numbers(words)
        for column in wrong:
            if column.any():
                row = int(column.to_numpy().argmax())
                return UserError(
                    f"{self.path} has {cells[column.name][row]!r} in column {column.name}, row "
                    f"{before + row} (counting from 0), which is not a number. Correct it, or "
                    "leave out the row or the column."
                )
        return UserError(f"{self.path} cannot be read after row {before}: {first_line(error)}")


def _end_of_text(file: BinaryIO, start: int) -> int:
    """Return where the text ends, without newlines: a blank line at the end is not a row."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(start, size - _CSV_TAIL_BYTES))
    tail = file.read()
    return size - len(tail) + len(tail.rstrip(b"\r\n"))


def _end_of_records(block: bytes) -> int:
    """Return where the last whole record ends: after a newline with an even number of quotes."""
    end, quotes = len(block), block.count(b'"')
    while end > 0:
        start = block.rfind(b"\n", 0, end) + 1
        quotes -= block.count(b'"', start, end)
        if quotes % 2 == 0:
            return start
        end = start - 1
    return 0


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    )


class ParquetReader(TableReader):
    """A .parquet file, read page by page."""

    def __init__(self, path: Path, choice: ColumnChoice, scratch: Path | None) -> None:
        self.path, self._scratch = path, scratch
        self._file = pa.parquet.ParquetFile(
            path, pre_buffer=False, buffer_size=_PARQUET_BUFFER_BYTES
        )
        self._schema = self._file.schema_arrow.remove_metadata()
        self.features = choice.features(path, self._schema.names)
        self.others = pa.schema([self._schema.field(name) for name in choice.others])
        single = {self._schema.field(name).type for name in self.features} == {pa.float32()}
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_batches(self) -> Iterator[Batch]:
        text = [n for n in self.features if not _is_number(self._schema.field(n).type)]
        if text:
            raise self.not_numbers(text)
        width = len(self.features)
        if self._scratch is None:
            rows, at_once = max(1, self._file.metadata.num_rows), width
        else:
            rows = max(1, _BATCH_BYTES // (8 * max(1, width)))
            page = self._page_bytes()
            fits = width * page <= _PARQUET_MAX_PAGES_BYTES
            at_once = width if fits else max(1, _PARQUET_GROUP_PAGES_BYTES // page)
        if width <= at_once:
            yield from self._direct(rows)
            return
        for group in range(self._file.num_row_groups):
            yield from self._by_columns(group, rows, at_once)

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
            yield pa.Table.from_batches([columns])

    def _direct(self, rows: int) -> Iterator[Batch]:
        """Read all columns at once."""
        total = self._file.metadata.num_rows
        for table in self._tables([*self.features, *self.others.names], rows):
            others = table.select(self.others.names)
            yield Batch(_matrix(table, self.features, self.dtype), others, total)

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


class ArrayReader(TableReader):
    """A 2-d array in an .npy file, or the array X of an .npz file, or its only one."""

    others = pa.schema([])

    def __init__(self, path: Path, metric: Metric | None, scratch: Path | None) -> None:
        self.path, self._whole = path, scratch is None
        if path.suffix.lower() == ".npy":
            self._load: Callable[[], NDArray[Any]] = partial(np.load, path, mmap_mode="r")
        elif scratch is None:
            array = load_array(path, _member(path))
            self._load = lambda: array
        else:
            self._load = partial(np.load, _unpacked(path, scratch), mmap_mode="r")
        array = np.asarray(self._load())
        if array.ndim != 2 or array.dtype.kind not in "fiub":
            raise UserError(
                f"{path} must have a 2-d array of numbers; got {array.dtype} {array.shape}."
            )
        if metric is not None and array.shape[1] != metric.n_features:
            raise UserError(
                f"The metric needs {metric.n_features} features, but {path} has "
                f"{array.shape[1]} columns."
            )
        self._shape = array.shape
        self.dtype = np.dtype(np.float32 if array.dtype == np.float32 else np.float64)
        self.features = tuple(str(number) for number in range(array.shape[1]))

    def _read_batches(self) -> Iterator[Batch]:
        total, width = self._shape
        rows = max(1, total if self._whole else _BATCH_BYTES // (8 * max(1, width)))
        for start in range(0, total, rows):
            # Pages count as memory until their mapping is closed, so that each batch has its own.
            mapped = self._load()
            X = np.array(mapped[start : start + rows], dtype=self.dtype, order="C")
            del mapped
            yield Batch(X, self.others.empty_table(), total)


def load_array(path: Path, name: str | None = None) -> NDArray[Any]:
    """Read an array of an .npy file, or one of an .npz file; never one that runs code."""
    if not path.is_file():
        raise UserError(f"There is no file {path}.")
    with reading(path):
        found = np.load(path, allow_pickle=False)
        return np.asarray(found if name is None else found[name])


def array_names(path: Path) -> list[str]:
    """Return the names of the arrays in an .npz file."""
    with reading(path), zipfile.ZipFile(path) as archive:
        return [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]


def _member(path: Path) -> str:
    """Return the name of the array that has the rows."""
    names = array_names(path)
    if "X" in names or len(names) == 1:
        return "X" if "X" in names else names[0]
    raise UserError(f"{path} has no array X; it has {listed(names)}.")


def _unpacked(path: Path, folder: Path) -> Path:
    """Copy the array of an archive to a file of its own, which can be mapped to memory."""
    target = folder / "X.npy"
    with (
        zipfile.ZipFile(path) as archive,
        archive.open(f"{_member(path)}.npy") as packed,
        target.open("wb") as file,
    ):
        shutil.copyfileobj(packed, file, 1 << 20)
    return target
