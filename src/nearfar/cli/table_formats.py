"""Table formats that are read: text, .parquet, .jsonl, .xlsx, .npy and .npz.

Memory is bounded, whatever the size of the file: text is read in blocks and Parquet in pages. If
the pages of all columns together are large, groups of columns go through a temporary file. Only
.jsonl and .xlsx files are read at once.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from nearfar.cli.csv_reader import SEPARATORS, CsvReader
from nearfar.cli.errors import UserError
from nearfar.cli.recipe_reader import RecipeReader
from nearfar.cli.tables import (
    Batch,
    ColumnChoice,
    TableReader,
    listed,
    polars_frame,
    reading,
)
from nearfar.metrics.metric import Metric
from nearfar.typing import Floats

_PACKED = {f"{kind}.gz": kind for kind in SEPARATORS}
_JSON_LINES = (".jsonl", ".ndjson")
TABLE_FORMATS = (*SEPARATORS, *_PACKED, ".parquet", *_JSON_LINES, ".xlsx")
ARRAY_FORMATS = (".npy", ".npz")
FORMATS = (*TABLE_FORMATS, *ARRAY_FORMATS)

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
    kind = kind_of(path)
    if kind not in FORMATS:
        raise UserError(f"{path} is not in a supported format: {', '.join(FORMATS)}.")
    if not path.is_file():
        raise UserError(f"There is no file {path}.")
    if kind in ARRAY_FORMATS and (choice.others or choice.drop):
        raise UserError(f"{path} is an array without named columns; use a table to name columns.")
    with ExitStack() as stack:
        with reading(path):
            raw = choice.raw
            reader: TableReader
            if kind in SEPARATORS:
                reader = CsvReader(path, raw, kind=kind)
            elif kind in _PACKED:
                folder = stack.enter_context(_temporary_folder(scratch))
                reader = CsvReader(path, raw, _decompressed(path, folder), _PACKED[kind])
            elif kind == ".parquet":
                reader = ParquetReader(path, raw, scratch)
            elif kind in TABLE_FORMATS:
                reader = FrameReader(path, raw)
            else:
                if kind == ".npz" and scratch is not None:
                    scratch = Path(stack.enter_context(_temporary_folder(scratch)))
                reader = ArrayReader(path, choice.metric, scratch)
            if choice.columns is not None and kind in TABLE_FORMATS:
                reader = RecipeReader(reader, choice.columns, choice.others)
        yield stack.enter_context(closing(reader))


def kind_of(path: Path) -> str:
    """Return the format that a file's name says, in lower case.

    Examples
    --------
    >>> from pathlib import Path
    >>> from nearfar.cli.table_formats import kind_of
    >>> kind_of(Path("sales.2024.CSV.gz")), kind_of(Path("x.npy"))
    ('.csv.gz', '.npy')
    """
    packed = next((kind for kind in _PACKED if path.name.lower().endswith(kind)), None)
    return packed or path.suffix.lower()


def stem_of(path: Path) -> str:
    """Return a file's name without its format.

    Examples
    --------
    >>> from pathlib import Path
    >>> from nearfar.cli.table_formats import stem_of
    >>> stem_of(Path("data/sales.2024.CSV.gz")), stem_of(Path("iris"))
    ('sales.2024', 'iris')
    """
    return path.name[: len(path.name) - len(kind_of(path))]


def _temporary_folder(parent: Path | None) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix=".nearfar-", dir=parent)


def _decompressed(path: Path, folder: str) -> Path:
    """Decompress a file to one that can be read from the middle."""
    target = Path(folder) / "text"
    with gzip.open(path) as packed, target.open("wb") as file:
        shutil.copyfileobj(packed, file, 1 << 20)
    return target


def column_names(path: Path) -> list[str]:
    """Return the names of a table's columns."""
    if kind_of(path) not in TABLE_FORMATS:
        raise UserError(f"{path} is not a table: {', '.join(TABLE_FORMATS)}.")
    with open_table(path, ColumnChoice()) as table:
        return list(table.features)


def read_frame(path: Path) -> pl.DataFrame:
    """Read all columns of a table as they are; those of text files are text."""
    with open_table(path, ColumnChoice(others=tuple(column_names(path)))) as table:
        frame = polars_frame(table.read().others)
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


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    )


class _ArrowReader(TableReader):
    """A table that has types: numbers, text and others."""

    _schema: pa.Schema

    def _choose(self, schema: pa.Schema, choice: ColumnChoice) -> None:
        self._schema = schema
        self.features = choice.features(self.path, schema.names)
        self.needed = choice.needed
        self.others = pa.schema([schema.field(name) for name in choice.others])
        single = {schema.field(name).type for name in self.features} == {pa.float32()}
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def _check_numbers(self) -> None:
        text = [n for n in self.features if not _is_number(self._schema.field(n).type)]
        if text:
            raise self.not_numbers(text)


class FrameReader(_ArrowReader):
    """A .jsonl or .xlsx file, read at once."""

    def __init__(self, path: Path, choice: ColumnChoice) -> None:
        self.path = path
        self._table = _read_whole(path).to_arrow()
        self._choose(self._table.schema.remove_metadata(), choice)

    def _read_batches(self) -> Iterator[Batch]:
        self._check_numbers()
        X = _matrix(self._table, self.features, self.dtype)
        others = self._table.select(self.others.names).cast(self.others)
        yield Batch(X, others, len(self._table))


def _read_whole(path: Path) -> pl.DataFrame:
    if kind_of(path) in _JSON_LINES:
        return pl.read_ndjson(path, infer_schema_length=None)
    try:
        return pl.read_excel(path)
    except ImportError:
        raise UserError(
            f'{path}: reading Excel needs a package; run: pip install "fastexcel", or save the '
            "sheet as .csv."
        ) from None


class ParquetReader(_ArrowReader):
    """A .parquet file, read page by page."""

    def __init__(self, path: Path, choice: ColumnChoice, scratch: Path | None) -> None:
        self.path, self._scratch = path, scratch
        self._file = pa.parquet.ParquetFile(
            path, pre_buffer=False, buffer_size=_PARQUET_BUFFER_BYTES
        )
        self._choose(self._file.schema_arrow.remove_metadata(), choice)
        self._width = choice.width or len(self.features)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_batches(self) -> Iterator[Batch]:
        self._check_numbers()
        width = len(self.features)
        if self._scratch is None:
            rows, at_once = max(1, self._file.metadata.num_rows), width
        else:
            rows = max(1, _BATCH_BYTES // (8 * max(1, self._width)))
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
            # polars panics on the invalid text and offsets of damaged files.
            columns.validate(full=True)
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
    with reading(path), path.open("rb") as file:
        found = np.load(file, allow_pickle=False)
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
