"""Tables in files, a few rows at a time: what is read never depends on how long the file is.

Polars' own streaming is not bounded: on 16 threads it holds 1.5 GB of a CSV file, and of a Parquet
file always a whole row group. So text is cut into blocks here, at ends of records, and Parquet is
read by slices of rows and, if its row groups are large, by some columns at a time.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nearfar.cli.files import SEPARATORS
from nearfar.cli.source import ARRAYS, SourceError
from nearfar.metrics.metric import Metric
from nearfar.typing import Floats

KINDS = (*SEPARATORS, ".parquet", *ARRAYS)

_BLOCK_BYTES = 1 << 22
_RECORD_BYTES = 1 << 26
_TAIL_BYTES = 1 << 12
_SLAB_BYTES = 5 << 23
_FETCH_BYTES = 1 << 24


@dataclass(frozen=True)
class Batch:
    """Rows of a table: columns to keep, features, and how many rows the table may have."""

    kept: pl.DataFrame
    X: Floats
    total: int

    def __len__(self) -> int:
        return len(self.X)

    def rows(self, start: int, stop: int) -> Batch:
        """Some of the rows."""
        return Batch(self.kept[start:stop], self.X[start:stop], self.total)


class Table(Protocol):
    """Rows in a file.

    Attributes
    ----------
    features : what the features are called in errors
    kept : names and types of the columns to keep
    dtype : float32 if all features are, float64 otherwise
    """

    features: tuple[str, ...]
    kept: dict[str, pl.DataType]
    dtype: np.dtype[Any]

    def batches(self) -> Iterator[Batch]:
        """All rows in order."""
        ...


@contextmanager
def open_table(
    path: Path, metric: Metric, keep: Sequence[str], drop: Sequence[str], scratch: Path
) -> Iterator[Table]:
    """Find the columns that a metric is for; an archive of arrays is unpacked to `scratch`."""
    kind = path.suffix.lower()
    if kind in ARRAYS and (keep or drop):
        raise SourceError(f"{path} has no named columns; --keep and --drop are for tables.")
    try:
        if kind in SEPARATORS:
            yield TextTable(path, SEPARATORS[kind], metric, keep, drop)
        elif kind == ".parquet":
            yield ParquetTable(path, metric, keep, drop)
        elif kind == ".npy":
            yield ArrayTable(path, path, metric)
        else:
            with tempfile.TemporaryDirectory(prefix=".nearfar-", dir=scratch) as folder:
                yield ArrayTable(_unpack(path, Path(folder)), path, metric)
    except pl.exceptions.PolarsError as error:
        raise SourceError(f"{path} cannot be read: {first_line(error)}") from error


def even(batches: Iterator[Batch], rows: int) -> Iterator[Batch]:
    """Cut the same rows into batches of equal length; the last may be shorter."""
    pieces: list[Batch] = []
    missing = rows
    for batch in batches:
        start = 0
        while len(batch) - start >= missing:
            yield _joined([*pieces, batch.rows(start, start + missing)])
            start += missing
            pieces, missing = [], rows
        if start < len(batch):
            rest = batch.rows(start, len(batch))
            pieces.append(Batch(rest.kept, rest.X.copy(), rest.total))
            missing -= len(rest)
        # Let go of before the next one is read, or there would be two in memory.
        del batch
    if pieces:
        yield _joined(pieces)


def _joined(pieces: list[Batch]) -> Batch:
    if len(pieces) == 1:
        return pieces[0]
    kept = pl.concat([piece.kept for piece in pieces])
    return Batch(kept, np.concatenate([piece.X for piece in pieces]), pieces[-1].total)


def _features(
    path: Path, columns: Sequence[str], metric: Metric, keep: Sequence[str], drop: Sequence[str]
) -> tuple[str, ...]:
    """Columns that are the metric's features, in its order."""
    for name in columns:
        if columns.count(name) > 1:
            raise SourceError(f"{path} has several columns {name!r}; rename all but one.")
    for name in [*keep, *drop]:
        if name not in columns:
            raise SourceError(f"{path} has no column {name!r}; it has {', '.join(columns)}.")
    for name in drop:
        if name in keep:
            raise SourceError(f"{name!r} cannot be both kept and dropped.")
    if metric.feature_names is not None:
        absent = [name for name in metric.feature_names if name not in columns or name in drop]
        if absent:
            raise SourceError(
                f"The metric needs columns that {path} does not have, or that are dropped: "
                f"{', '.join(absent)}."
            )
        return metric.feature_names
    features = tuple(name for name in columns if name not in keep and name not in drop)
    if len(features) != metric.n_features:
        raise SourceError(
            f"The metric is for {metric.n_features} features, but {path} has {len(features)} "
            f"columns besides those kept and dropped; --keep or --drop the others."
        )
    return features


def first_line(error: BaseException) -> str:
    """What an error says, without polars' advice."""
    return str(error).strip().partition("\n")[0]


class TextTable:
    """A CSV file. Columns to keep stay the text they are; features are parsed as float64."""

    dtype = np.dtype(np.float64)

    def __init__(
        self, path: Path, separator: str, metric: Metric, keep: Sequence[str], drop: Sequence[str]
    ) -> None:
        self._path, self._separator = path, separator
        with path.open("rb") as file:
            columns = self._header(file)
            self._start = file.tell()
            self._end = _end_of_text(file, self._start)
        self.features = _features(path, columns, metric, keep, drop)
        self.kept: dict[str, pl.DataType] = {name: pl.String() for name in keep}
        # Names of our own need no quotes.
        self._aliases = {name: f"c{i}" for i, name in enumerate(columns)}

    def _header(self, file: BinaryIO) -> list[str]:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        record = file.readline(_RECORD_BYTES)
        while record.count(b'"') % 2 and len(record) < _RECORD_BYTES:
            if not (more := file.readline(_RECORD_BYTES)):
                break
            record += more
        try:
            text = io.StringIO(record.decode(), newline="")
            names = next(csv.reader(text, delimiter=self._separator), [])
        except (UnicodeDecodeError, csv.Error) as error:
            raise SourceError(f"{self._path} is not UTF-8 text; save it as such.") from error
        if not names:
            raise SourceError(f"{self._path} has no header; its first line must name the columns.")
        return names

    def batches(self) -> Iterator[Batch]:
        """All rows in order; how many there are is guessed from the bytes read so far."""
        size = self._end - self._start
        rows = done = 0
        for block in self._blocks():
            kept, X = self._parse(block, rows)
            rows += len(X)
            done += len(block)
            yield Batch(kept, X, max(rows, rows * size // done))

    def _blocks(self) -> Iterator[bytes]:
        """Whole records, about as many bytes each time."""
        with self._path.open("rb") as file:
            file.seek(self._start)
            rest = b""
            while more := file.read(min(_BLOCK_BYTES, self._end - file.tell())):
                block = rest + more
                end = _last_end(block)
                if end == 0 and len(block) > _RECORD_BYTES:
                    raise SourceError(f"{self._path} has a quote that is not closed.")
                rest = block[end:]
                if end:
                    yield block[:end]
            if rest:
                yield rest

    def _parse(self, block: bytes, before: int) -> tuple[pl.DataFrame, Floats]:
        numbers = {self._aliases[name]: pl.Float64() for name in self.features}
        texts = {self._aliases[name]: pl.String() for name in self.kept}
        try:
            frame = self._read(block, {**numbers, **texts})
            X = frame.select(pl.col(list(numbers)).cast(pl.Float64)).to_numpy(order="c")
        except pl.exceptions.PolarsError as error:
            self._explain(block, before, error)
            raise
        return frame.select(list(texts)).rename(dict(zip(texts, self.kept, strict=True))), X

    def _read(self, block: bytes, types: dict[str, Any]) -> pl.DataFrame:
        """Parse records under a header, so that short ones are filled with nulls."""
        header = self._separator.join(self._aliases.values()).encode()
        return pl.read_csv(
            header + b"\n" + block,
            separator=self._separator,
            columns=list(types),
            schema_overrides=types,
            infer_schema=False,
        )

    def _explain(self, block: bytes, before: int, error: Exception) -> None:
        """Name the first cell that is no number, if there is one."""
        names = {self._aliases[name]: name for name in self.features}
        try:
            frame = self._read(block, dict.fromkeys(names, pl.String()))
        except pl.exceptions.PolarsError:
            raise SourceError(
                f"{self._path} cannot be read after row {before}: {first_line(error)}"
            ) from error
        wrong = frame.select(
            pl.all().is_not_null() & pl.all().cast(pl.Float64, strict=False).is_null()
        ).to_numpy(order="c")
        if wrong.any():
            row, column = divmod(int(wrong.argmax()), wrong.shape[1])
            alias = frame.columns[column]
            raise SourceError(
                f"Column {names[alias]!r} of {self._path} is not a number in row "
                f"{before + row}, from 0: {frame[alias][row]!r}. Correct it, or --drop the column."
            ) from error


def _end_of_text(file: BinaryIO, start: int) -> int:
    """Where the text ends, without newlines: a blank line at the end is no row."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(start, size - _TAIL_BYTES))
    tail = file.read()
    return size - len(tail) + len(tail.rstrip(b"\r\n"))


def _last_end(block: bytes) -> int:
    """Where the last whole record ends: after a newline with an even number of quotes before it."""
    end, quotes = len(block), block.count(b'"')
    while end > 0:
        start = block.rfind(b"\n", 0, end) + 1
        quotes -= block.count(b'"', start, end)
        if quotes % 2 == 0:
            return start
        end = start - 1
    return 0


class ParquetTable:
    """A Parquet file, by slices of rows and groups of columns."""

    def __init__(
        self, path: Path, metric: Metric, keep: Sequence[str], drop: Sequence[str]
    ) -> None:
        self._lazy = pl.scan_parquet(path, glob=False)
        schema = self._lazy.collect_schema()
        self.features = _features(path, schema.names(), metric, keep, drop)
        words = [name for name in self.features if not schema[name].is_numeric()]
        if words:
            raise SourceError(f"Columns of {path} that are not numbers: {', '.join(words)}.")
        self.kept = {name: schema[name] for name in keep}
        single = all(schema[name] == pl.Float32 for name in self.features)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self._size = path.stat().st_size
        fetched = self._size / row_group_count(path) / len(schema)
        self._width = max(1, int(_FETCH_BYTES / fetched))

    def batches(self) -> Iterator[Batch]:
        """All rows in order."""
        total = int(self._lazy.select(pl.len()).collect().item())
        n_features = len(self.features)
        bytes_per_row = max(self.dtype.itemsize * n_features, self._size // max(1, total))
        # Beside the array there is the frame of some columns that it is filled from.
        copies = 1 + min(1.0, self._width / n_features)
        rows = max(1, int(_SLAB_BYTES / (copies * bytes_per_row)))
        for start in range(0, total, rows):
            yield self._slab(start, min(rows, total - start), total)

    def _slab(self, start: int, rows: int, total: int) -> Batch:
        part = self._lazy.slice(start, rows)
        X = np.empty((rows, len(self.features)), self.dtype)
        number = pl.Float32 if self.dtype == np.float32 else pl.Float64
        for left in range(0, len(self.features), self._width):
            columns = self.features[left : left + self._width]
            frame = part.select(pl.col(columns).cast(number)).collect()
            for column, values in enumerate(frame.iter_columns(), left):
                X[:, column] = values
        kept = [part.select(name).collect().to_series() for name in self.kept]
        return Batch(pl.DataFrame(kept), X, total)


def row_group_count(path: Path) -> int:
    """Number of row groups of a Parquet file, which polars does not tell.

    The footer is a struct in Thrift's compact protocol; its field 4 is the list of row groups.
    """
    with path.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        length = int.from_bytes(file.read(4), "little")
        file.seek(-8 - length, os.SEEK_END)
        number = 0
        while field := file.read(1)[0]:
            number += field >> 4
            if number == 4:
                return max(1, _list_header(file)[0])
            _skip(file, field & 15)
    return 1


def _varint(file: BinaryIO) -> int:
    value = shift = 0
    while (byte := file.read(1)[0]) > 127:
        value |= (byte & 127) << shift
        shift += 7
    return value | byte << shift


def _list_header(file: BinaryIO) -> tuple[int, int]:
    """Length of a list and the type of its elements."""
    byte = file.read(1)[0]
    return (byte >> 4 if byte >> 4 < 15 else _varint(file)), byte & 15


def _skip(file: BinaryIO, kind: int) -> None:
    """Pass over a value of a Thrift type; booleans are in the type itself."""
    if kind == 3:
        file.read(1)
    elif kind in (4, 5, 6):
        _varint(file)
    elif kind == 8:
        file.seek(_varint(file), os.SEEK_CUR)
    elif kind == 9:
        length, inner = _list_header(file)
        for _ in range(length):
            _skip(file, inner)
    elif kind == 12:
        while field := file.read(1)[0]:
            _skip(file, field & 15)


class ArrayTable:
    """A 2-d array in an .npy file."""

    def __init__(self, path: Path, name: Path, metric: Metric) -> None:
        self._path = path
        array = self._open(name)
        if array.ndim != 2 or array.shape[1] != metric.n_features:
            raise SourceError(
                f"The metric is for rows of {metric.n_features} features, but the array in {name} "
                f"has the shape {array.shape}."
            )
        if array.dtype.kind not in "fiu":
            raise SourceError(f"The array in {name} has no numbers, but {array.dtype}.")
        self._shape = array.shape
        self.dtype = np.dtype(np.float32 if array.dtype == np.float32 else np.float64)
        self.features = tuple(str(i) for i in range(1, metric.n_features + 1))
        self.kept: dict[str, pl.DataType] = {}

    def _open(self, name: Path) -> NDArray[Any]:
        try:
            array = np.load(self._path, mmap_mode="r")
        except (ValueError, EOFError, OSError) as error:
            raise SourceError(f"{name} cannot be read: {first_line(error)}") from error
        return np.asarray(array)

    def batches(self) -> Iterator[Batch]:
        """All rows in order."""
        total, width = self._shape
        # The pages that are copied count too.
        rows = max(1, _SLAB_BYTES // (2 * self.dtype.itemsize * width))
        for start in range(0, total, rows):
            yield Batch(pl.DataFrame(), self._slab(start, start + rows), total)

    def _slab(self, start: int, stop: int) -> Floats:
        # Pages count as memory until their mapping is closed, so that each slab has its own.
        mapped = np.load(self._path, mmap_mode="r")
        return np.array(mapped[start:stop], dtype=self.dtype, order="C")


def _unpack(path: Path, folder: Path) -> Path:
    """Copy the array of an archive to a file of its own, where any row can be reached."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(".npy")]
            chosen = "X.npy" if "X.npy" in names else names[0] if len(names) == 1 else None
            if chosen is None:
                arrays = ", ".join(name.removesuffix(".npy") for name in names)
                raise SourceError(f"{path} needs an array X, or only one; it has: {arrays}.")
            with archive.open(chosen) as packed, (folder / "X.npy").open("wb") as file:
                shutil.copyfileobj(packed, file, 1 << 20)
    except (zipfile.BadZipFile, zlib.error) as error:
        raise SourceError(f"{path} cannot be read: {first_line(error)}") from error
    return folder / "X.npy"
