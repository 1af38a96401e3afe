"""The list of table formats, and how files are opened by their ending.

Memory is bounded, whatever the size of the file, if a folder for temporary files is given. Only
.jsonl and .xlsx files are read at once, and Arrow files by record batch.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import polars as pl

from nearfar.columns import Columns
from nearfar.columns.cells import column_values
from nearfar.columns.guess import Category, Vector
from nearfar.frames.arrays import ARRAY_FORMATS
from nearfar.frames.csv import CSV_FORMATS
from nearfar.frames.frames import Frame, TableError, no_file
from nearfar.frames.reader import (
    Batch,
    ColumnChoice,
    Source,
    TableReader,
    TableWriter,
    first_line,
    reading,
    with_arrow_errors,
)
from nearfar.frames.typed import ARROW, TYPED_FORMATS, TypedReader, require_pyarrow
from nearfar.runtime.atomic_write import always_cleaned_up, atomic_write
from nearfar.runtime.messages import note

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
    path: Path, formats: tuple[str, ...] | None, inputs: Iterable[str | Path | None] = ()
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
    for given in inputs:
        if given is not None and path.exists() and Path(given).exists() and path.samefile(given):
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
            if unseen[kind.name] > _MANY_UNSEEN * row:
                rare = "are rare or " if isinstance(kind, Category) and kind.rare else ""
                note(
                    f"column {kind.name}: {unseen[kind.name]} of {row} values {rare}were not in "
                    f"the training rows ({self.path.name})."
                )
