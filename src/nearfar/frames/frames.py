"""What is wrong with a table, in one sentence that says what to do.

DataFrames of pandas, polars and others, read as files are.

Compressed files: copies of what is inside, and how much they may grow.

A few bytes can become many gigabytes. Files that grow more than those of real tables are refused
before they are in memory or on the disk.
"""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoDataFrame

from nearfar.columns.cells import column_keys, is_declared_category
from nearfar.runtime.atomic_write import temporary_path
from nearfar.runtime.messages import amount
from nearfar.typing import Array


class TableError(ValueError):
    """A table, array or dataset that cannot be read as asked; the message says what to do."""


class NotNumbersError(TableError):
    """A table has text or missing values where numbers are needed."""


class NotClassesError(TableError):
    """Labels are decimal numbers where classes are needed."""


class NotUniqueError(TableError):
    """Ids that do not tell rows apart."""


def no_file(path: str | Path) -> TableError:
    """Return the error for a file that does not exist, or for a link or a folder."""
    if Path(path).is_symlink():
        return TableError(f"{path} is a link to {Path(path).readlink()}, which does not exist.")
    if Path(path).is_dir():
        return TableError(f"{path} is a folder; name a file.")
    return TableError(f"There is no file {path}.")


@dataclass(frozen=True, eq=False)
class Frame:
    """A table in memory, which is read as a file is.

    Attributes
    ----------
    name: What messages call it.
    declared: Columns that pandas declares categories.
    """

    name: str
    table: pl.DataFrame
    declared: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    @classmethod
    def of(cls, frame: IntoDataFrame, name: str) -> Frame:
        """Return a DataFrame under a name; cells of a column with several types become text."""
        columns, declared = {}, []
        for text, key in column_keys(frame).items():
            cells = nw.from_native(frame, eager_only=True).get_column(key)
            try:
                column = cells.to_polars()
            except (ImportError, ValueError, TypeError, NotImplementedError) as error:
                # polars reads the objects of pandas with pyarrow, which wants one type.
                rows = zip(cells.to_list(), cells.is_null().to_list(), strict=True)
                values = [None if gap else cell for cell, gap in rows]
                if (
                    not isinstance(error, ImportError)
                    or len({*map(type, values)} - {type(None)}) > 1
                ):
                    values = [None if cell is None else str(cell) for cell in values]
                column = pl.Series(values)
            if column.dtype in (pl.Categorical, pl.Enum):
                column = column.cast(pl.String)
            columns[text] = column
            if is_declared_category(frame, key):
                declared.append(text)
        return cls(name, pl.DataFrame(columns), tuple(declared))

    def with_column(self, role: str, value: str | Array | None) -> tuple[Frame, str | None]:
        """Return the frame and the name of a column; an array becomes a column first.

        Parameters
        ----------
        role: What the column is, and its name if the array has none.
        """
        if value is None or isinstance(value, str):
            return self, value
        name = str(getattr(value, "name", None) or role)
        if name in self.table.columns:
            raise TableError(f"{self} has a column {name!r}; give its name instead of an array.")
        if np.shape(value) != (len(self.table),):
            raise TableError(f"{len(self.table)} rows need one {role} each; got {np.shape(value)}.")
        table = self.table.with_columns(pl.Series(name, np.asarray(value)))
        return replace(self, table=table), name


_CHUNK_BYTES = 1 << 20
# What is no larger than this may be compressed as well as it can be.
_ALWAYS_BYTES = 1 << 28
# Real numbers and text grow less, even if most of them are zeros.
_MOST_GROWTH = 300


def check_growth(path: object, packed: int, unpacked: int) -> None:
    """Raise TableError if a file would grow too much; sizes are in bytes."""
    if unpacked > max(_ALWAYS_BYTES, _MOST_GROWTH * packed):
        raise TableError(
            f"{path} has {amount(unpacked)} or more in {amount(packed)}, as only damaged or "
            "malicious files do. If the data are real, save them uncompressed."
        )


def check_archive(path: Path, name: str) -> None:
    """Raise TableError if a file in a .zip or .npz file would grow too much."""
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(name)
        check_growth(path, member.compress_size, member.file_size)


@contextmanager
def unpacked_copy(
    path: Path, source: IO[bytes] | gzip.GzipFile, folder: Path | None
) -> Iterator[Path]:
    """Copy what is in a file to a temporary one, which can be read from the middle."""
    packed, unpacked = path.stat().st_size, 0
    with temporary_path(folder) as target:
        with target.open("wb") as file:
            while chunk := source.read(_CHUNK_BYTES):
                unpacked += len(chunk)
                check_growth(path, packed, unpacked)
                file.write(chunk)
        yield target
