"""The list of table formats, and how files are opened and written by their ending.

Memory is bounded, whatever the size of the file, if a folder for temporary files is given. Only
.jsonl and .xlsx files are read at once, and Arrow files by record batch. `nearfar.frames.arrow` is
imported where a file needs it: pyarrow is as large as all of polars.
"""

from __future__ import annotations

import os
import re
import tokenize
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nearfar.columns import Columns
from nearfar.columns.cells import column_values
from nearfar.columns.guess import Category, Vector
from nearfar.frames.csv import CSV_FORMATS
from nearfar.frames.excel import read_excel
from nearfar.frames.reader import (
    Batch,
    ColumnChoice,
    Source,
    TableFormat,
    TableReader,
    TableWriter,
    batch_rows,
    first_line,
    listed,
    reading,
    with_arrow_errors,
)
from nearfar.frames.table import Frame, TableError, check_archive, no_file, unpacked_copy
from nearfar.runtime.atomic_write import always_cleaned_up, atomic_write
from nearfar.runtime.messages import note, optional_package
from nearfar.typing import Array, Floats


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


class ArrayReader(TableReader):
    """A 2-d array in an .npy file, or in the copy of what is in an .npz file."""

    others = pl.Schema()

    def __init__(
        self, path: Path, choice: ColumnChoice, _: Path | None = None, copy: Path | None = None
    ) -> None:
        self.path, self._content = path, copy or path
        array = np.asarray(_loaded(self._content, mmap_mode="r"))
        if array.ndim != 2 or array.dtype.kind not in "fiub":
            raise TableError(
                f"{path} must have a 2-d array of numbers; got {array.dtype} {array.shape}."
            )
        metric = choice.metric
        if metric is not None and array.shape[1] != metric.n_features:
            raise TableError(
                f"The metric needs {metric.n_features} features, but {path} has "
                f"{array.shape[1]} columns."
            )
        self._shape = array.shape
        self.dtype = np.dtype(np.float32 if array.dtype == np.float32 else np.float64)
        self.features = tuple(map(str, range(array.shape[1])))

    def _read_batches(self) -> Iterator[Batch]:
        total, width = self._shape
        rows = batch_rows(width)
        for start in range(0, total, rows):
            # Pages count as memory until their mapping is closed, so that each batch has its own.
            mapped = _loaded(self._content, mmap_mode="r")
            X = np.array(mapped[start : start + rows], dtype=self.dtype, order="C")
            del mapped
            yield Batch(X, self.others.to_frame(), total)


@contextmanager
def open_npz(path: Path, choice: ColumnChoice, scratch: Path | None) -> Iterator[ArrayReader]:
    """Read the array X of an .npz file, or its only one."""
    names = array_names(path)
    if "X" not in names and len(names) != 1:
        raise TableError(f"{path} has no array X; it has {listed(names)}.")
    name = "X" if "X" in names else names[0]
    check_archive(path, f"{name}.npy")
    with (
        zipfile.ZipFile(path) as archive,
        archive.open(f"{name}.npy") as packed,
        unpacked_copy(path, packed, scratch) as copy,
    ):
        yield ArrayReader(path, choice, copy=copy)


def _loaded(file: Any, **options: Any) -> Any:
    """Load an array, never one that runs code."""
    try:
        return np.load(file, allow_pickle=False, **options)
    # NumPy reads headers as Python.
    except (TypeError, SyntaxError, tokenize.TokenError) as error:
        raise ValueError(f"its header is damaged: {error}") from error


def load_array(path: Path, name: str | None = None) -> Array:
    """Read an array of an .npy file, or one of an .npz file."""
    if not path.is_file():
        raise no_file(path)
    with reading(path), path.open("rb") as file:
        if name is not None:
            check_archive(path, f"{name}.npy")
        content = _loaded(file)
        return np.asarray(content if name is None else content[name])


def array_names(path: Path) -> list[str]:
    """Return the names of the arrays in an .npz file."""
    with reading(path), zipfile.ZipFile(path) as archive:
        return [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]


class ArrayWriter(TableWriter):
    """Writes an .npy file; its header is written again once the rows are counted."""

    def __init__(self, path: Path, schema: pl.Schema) -> None:
        (vectors,) = schema.dtypes()
        assert isinstance(vectors, pl.Array)
        self._dtype = np.dtype(np.float32 if vectors.inner == pl.Float32 else np.float64)
        self._width, self._rows = vectors.size, 0
        self._file = path.open("wb")
        self._write_header()

    def _write_header(self) -> None:
        # numpy leaves room for the largest number of rows, so that both headers have one length.
        np.lib.format.write_array_header_1_0(
            self._file,
            {
                "descr": np.lib.format.dtype_to_descr(self._dtype),
                "fortran_order": False,
                "shape": (self._rows, self._width),
            },
        )

    def write(self, table: pl.DataFrame) -> None:
        """Append the lists of the only column."""
        self._file.write(np.ascontiguousarray(table.to_series().to_numpy()).data)
        self._rows += len(table)

    def finish(self) -> None:
        """Write the header with the number of rows."""
        self._file.seek(0)
        self._write_header()
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


ARRAY_FORMATS = (
    TableFormat(".npy", ArrayReader, ArrayWriter, start=rb"\x93NUMPY", is_array=True),
    TableFormat(".npz", open_npz, start=rb"PK\x03\x04.{0,192}\.npy", is_array=True),
)


FORMATS = {each.ending: each for each in (*CSV_FORMATS, *TYPED_FORMATS, *ARRAY_FORMATS)}
TABLES = tuple(ending for ending, each in FORMATS.items() if not each.is_array)
ARRAYS = tuple(ending for ending, each in FORMATS.items() if each.is_array)
WRITTEN = tuple(ending for ending, each in FORMATS.items() if each.write)
WRITTEN_TABLES = tuple(ending for ending in WRITTEN if ending in TABLES)
WRITTEN_LISTS = tuple(ending for ending in WRITTEN if FORMATS[ending].has_lists)
"""Endings of files that are read and written."""
STREAM = "-"
"""What stands for stdin and stdout."""
STDIN_FOLDER = "nearfar-stdin-"
"""How the names of folders begin that have a copy of stdin."""
_SAVE_AS = {
    ".txt": " If it is a table, name it .csv.",
    ".xls": " Save it as .xlsx.",
    ".ods": " Save it as .xlsx.",
    ".json": " Write an object per line, and name it .jsonl.",
}
# A note names columns with a larger share of levels that were not learned from.
_MANY_UNSEEN = 0.2


@contextmanager
def open_table(
    path: Source, choice: ColumnChoice, *, scratch: Path | None = None
) -> Iterator[TableReader]:
    """Open a table or a 2-d array.

    Parameters
    ----------
    scratch: Folder for temporary files, to read in bounded memory. By default everything is
        read at once.
    """
    kind = kind_of(path)
    if kind not in FORMATS:
        raise unsupported(path)
    if isinstance(path, Path) and not path.is_file():
        raise no_file(path)
    if kind in ARRAYS and (choice.others or choice.drop):
        raise TableError(f"{path} is an array without named columns; use a table to name columns.")
    with ExitStack() as stack:
        with reading(path):
            if isinstance(path, Frame):
                reader: TableReader = TypedReader.of_frame(path, choice.raw, path.table)
            else:
                reader = stack.enter_context(FORMATS[kind].read(path, choice.raw, scratch))
            if choice.columns is not None and kind in TABLES:
                reader = RecipeReader(reader, choice.columns, choice.others)
        yield reader


def unsupported(path: Source) -> TableError:
    """Return the error for a file of another format."""
    known = f"{path} is not in a supported format: {', '.join(FORMATS)}."
    return TableError(f"{known}{_SAVE_AS.get(kind_of(path), '')}")


def kind_of(path: Source) -> str:
    """Return the format that a file's name says, in lower case; frames are as Arrow files."""
    if isinstance(path, Frame):
        return ".arrow"
    name = path.name.lower()
    return next((ending for ending in FORMATS if name.endswith(ending)), path.suffix.lower())


def stem_of(path: Source) -> str:
    """Return a file's name without its format."""
    if isinstance(path, Frame):
        return path.name
    return path.name[: len(path.name) - len(kind_of(path))]


def kind_of_content(first: bytes) -> str:
    """Return the format that the first bytes of a file tell; anything else is .csv."""
    return next((e for e, each in FORMATS.items() if re.match(each.start, first, re.S)), ".csv")


def column_names(path: Source) -> list[str]:
    """Return the names of a table's columns."""
    if kind_of(path) not in TABLES:
        raise TableError(f"{path} is not a table: {', '.join(TABLES)}.")
    with open_table(path, ColumnChoice()) as table:
        return list(table.features)


def read_frame(path: Source) -> pl.DataFrame:
    """Read all columns of a table as they are; those of text files are text."""
    with open_table(path, ColumnChoice(others=tuple(column_names(path)))) as table:
        frame = table.read().others
    if len(frame) == 0:
        raise TableError(f"{path} has no rows.")
    return frame


@contextmanager
def open_writer(path: Path, kind: str, schema: pl.Schema) -> Iterator[TableWriter]:
    """Open a file for rows; the caller finishes it."""
    create = FORMATS[kind].write
    assert create is not None
    writer = create(path, schema)
    with always_cleaned_up(writer.close):
        yield writer


def write_frame(frame: pl.DataFrame, path: Path) -> None:
    """Write a whole table."""
    with (
        writing(path),
        atomic_write(path) as temporary,
        open_writer(temporary, kind_of(path), frame.schema) as writer,
    ):
        writer.write(frame)
        writer.finish()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of libraries into a TableError that names the file."""
    try:
        yield
    except with_arrow_errors(OSError, pl.exceptions.PolarsError) as error:
        raise TableError(f"{path} cannot be written: {first_line(error)}") from error


def check_output(
    path: Path, formats: tuple[str, ...] | None, inputs: Iterable[object] = ()
) -> None:
    """Raise TableError unless a file of one of the formats can be written, and is not an input."""
    if str(path) == STREAM and formats is not None and ".csv" in formats:
        return
    if formats is not None and path.suffix.lower() not in formats:
        raise TableError(f"{path} cannot be written in this format; use {', '.join(formats)}.")
    if formats is not None and path.suffix.lower() in ARROW:
        require_pyarrow()
    if path.is_dir():
        raise TableError(f"{path} is a folder; name a file.")
    try:
        resolved = path.resolve()
    except (OSError, RuntimeError) as error:
        raise TableError(f"{path} is not a valid path: {error}") from error
    if resolved.is_symlink():
        raise TableError(f"{path} is not a valid path: it is a link that leads to itself.")
    folder = resolved.parent
    if not folder.is_dir():
        link = f", which {path} is a link to" if path.is_symlink() else ""
        raise TableError(f"There is no folder {folder if link else path.parent}{link}.")
    if path.exists() and not path.is_file():
        raise TableError(f"{path} is a device or a pipe; name a file.")
    if not os.access(folder, os.W_OK):
        raise TableError(f"The folder {folder} is not writable.")
    files = [Path(given) for given in inputs if isinstance(given, str | os.PathLike)]
    for given in files if path.exists() else []:
        if given.exists() and path.samefile(given):
            raise TableError(f"{path} is an input; name another file to write to.")


def shown_name(source: str) -> str:
    """Return what the user wrote for a source."""
    return STREAM if Path(source).parent.name.startswith(STDIN_FOLDER) else source


class RecipeReader(TableReader):
    """A table whose columns become features in the way that a metric has learned.

    Parameters
    ----------
    source: Reads the columns unchanged.
    columns: The recipe.
    others: Other columns that are wanted.
    """

    def __init__(self, source: TableReader, columns: Columns, others: Sequence[str]) -> None:
        self.path, self._source, self._columns = source.path, source, columns
        self.features = columns.feature_names
        self.others = pl.Schema({name: source.others[name] for name in others})
        types = [source.others[kind.name] for kind in columns.kinds_]
        single = all(
            isinstance(kind, Vector) and getattr(each, "inner", None) == pl.Float32
            for kind, each in zip(columns.kinds_, types, strict=True)
        )
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def _read_batches(self) -> Iterator[Batch]:
        row = 0
        unseen: Counter[str] = Counter()
        widths = [len(kind.feature_names) for kind in self._columns.kinds_]
        starts = np.cumsum([0, *widths[:-1]])
        for batch in self._source.batches():
            frame = batch.others.select(self._columns.names)
            try:
                X = self._columns.apply(frame, first_row=row)
            except ValueError as error:
                raise TableError(f"{self.path}: {error}") from error
            row += len(X)
            for kind, start in zip(self._columns.kinds_, starts, strict=True):
                if isinstance(kind, Category):
                    own = X[:, start : start + len(kind.feature_names)]
                    unseen[kind.name] += kind.unseen(column_values(frame, kind.name), own)
            others = batch.others.select(self.others.names())
            yield Batch(X.astype(self.dtype, copy=False), others, batch.total)
        for kind in self._columns.kinds_:
            rare = kind.rare_share if isinstance(kind, Category) else 0.0
            if unseen[kind.name] > (rare + _MANY_UNSEEN) * row:
                also = f", or are rare there, as {100 * rare:.0f}% are" if rare else ""
                note(
                    f"column {kind.name}: {unseen[kind.name]} of {row} values were not in the "
                    f"training rows{also} ({self.path.name})."
                )
