"""`Table`: rows of features, their supervision and pictures; `Frame`: a DataFrame, read as a file.

A `TableError` says what is wrong with a table and what to do, in a sentence. Files that grow more
than those of real tables are refused before they are in memory or on the disk.
"""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoDataFrame

from nearfar.columns import Columns
from nearfar.columns.cells import column_keys, is_declared_category
from nearfar.metrics.metric import Metric
from nearfar.runtime.atomic_write import temporary_path
from nearfar.runtime.messages import Note, amount, counted, note, option, quoted
from nearfar.supervision import Pairs, Triplets
from nearfar.supervision.supervision import Kind, checked_groups
from nearfar.typing import Array, Floats, Ints, Vector


class TableError(ValueError):
    """A table, array or dataset that cannot be read as asked; the message says what to do."""


class NotNumbersError(TableError):
    """A table has text or missing values where numbers are needed."""


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


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Rows of features, with their supervision; `read_table` makes it.

    Attributes
    ----------
    name : str
        Name of the file or dataset.
    X : array of shape (n_rows, n_features)
    supervision : array of shape (n_rows,), Triplets, Pairs or None
        Labels, numbers or constraints to learn from.
    feature_names : tuple of str or None
    ids : list of str or None
        Names of the rows.
    texts : list of str or None
        What to show for the rows.
    pictures : list of Path or None
        A picture of each row; None where there is none.
    columns : Columns or None
        What the columns of the table became; None if all of them are numbers.
    cells : polars.DataFrame or None
        The columns themselves, to learn again what becomes of them from some of the rows.
    groups : array of shape (n_rows,) or None
        Number of the group of each row. A group is never both learned from and tested on.
    places : array of shape (n_rows,) or None
        Number of each row in its file, if some were left out.
    leaking : tuple of str
        Columns that leak the label.
    n_copies : int
        Number of rows that are copies of others, if these are the groups.
    kind : {"labels", "numbers", "triplets", "pairs", "nothing"}
        What `supervision` is.
    notes : tuple of Note
        What was noticed while reading.
    source : str
        Path of the file, or name of the dataset; "" for frames and arrays.
    label, id_column : str or None
        Columns of the labels and of the names of the rows.
    frame : Frame or None
        The frame that it was read from, if it was one.
    """

    name: str
    X: Floats
    supervision: Array | Triplets | Pairs | None = None
    feature_names: tuple[str, ...] | None = None
    ids: list[str] | None = None
    texts: list[str] | None = None
    pictures: list[Path | None] | None = None
    columns: Columns | None = None
    groups: Ints | None = None
    places: Ints | None = None
    leaking: tuple[str, ...] = ()
    n_copies: int = 0
    kind: Kind = "nothing"
    notes: tuple[Note, ...] = ()
    source: str = ""
    label: str | None = None
    id_column: str | None = None
    frame: Frame | None = None
    cells: pl.DataFrame | None = None

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        supervision = ""
        if isinstance(self.supervision, Triplets | Pairs):
            supervision = f", {len(self.supervision)} {self.kind}"
        elif self.kind == "labels":
            supervision = f", {counted(len(np.unique(np.asarray(self.supervision))), 'class')}"
        elif self.kind == "numbers":
            supervision = ", a number for each row"
        size = f"{counted(len(self), 'row')} x {counted(self.X.shape[1], 'feature')}"
        return f"<Table {self.name}: {size}{supervision}>"

    @property
    def y(self) -> Array | None:
        """The label or number of each row, if there are some."""
        return None if isinstance(self.supervision, Triplets | Pairs) else self.supervision

    @property
    def labels(self) -> Array:
        """Labels of at least two classes, or a TableError."""
        if self.y is None:
            where = option("label", "NAME")
            raise TableError(f"{self.name} has no labels; say where they are with {where}.")
        if self.y.shape != (len(self),):
            raise TableError(f"{len(self)} rows need one label each; got {self.y.shape}.")
        if len(np.unique(self.y)) < 2:
            raise TableError("All labels are the same; at least two classes are needed.")
        return self.y

    @property
    def numbers(self) -> Vector:
        """Labels that are different numbers, or a TableError."""
        try:
            return self.labels.astype(np.float64)
        except TableError:
            raise
        except (TypeError, ValueError):
            raise TableError("The labels are not numbers, which the method needs.") from None

    def take(self, rows: Ints) -> Table:
        """Return some rows, with their labels or numbers."""
        whole = np.arange(len(self)) if self.places is None else self.places
        return replace(
            self,
            X=self.X[rows],
            supervision=None if self.y is None else self.y[rows],
            ids=self.ids and [self.ids[row] for row in rows],
            texts=self.texts and [self.texts[row] for row in rows],
            pictures=self.pictures and [self.pictures[row] for row in rows],
            groups=None if self.groups is None else checked_groups(self.groups[rows], len(rows)),
            places=whole[rows],
            cells=None if self.cells is None else self.cells[rows],
        )

    def grouped(self, names: Array, where: str) -> Table:
        """Return the rows with groups, and say how many there are."""
        names = np.asarray(names)
        if names.shape != (len(self),):
            raise TableError(f"{len(self)} rows need one group each; {where} has {names.shape}.")
        groups = checked_groups(names, len(self))
        assert groups is not None
        number = int(groups.max(initial=-1)) + 1
        if number < 2:
            raise TableError(f"All rows are in the same group ({where}); at least two are needed.")
        note(f"{number} groups of rows ({where}); no group is both learned from and tested on.")
        return replace(self, groups=groups)

    def described(self, metric: Metric) -> Metric:
        """Return a metric with the names of these features, and the columns they are from."""
        if self.columns is not None:
            return metric.with_columns(self.columns)
        return metric.named(self.feature_names)

    def row_name(self, row: int | np.integer) -> str:
        """Return the name of a row, or its number in the file."""
        return str(self.row_names(np.array([row]))[0])

    def row_names(self, rows: Ints) -> Ints | list[str]:
        """Return the names of rows, or their numbers in the file."""
        if self.ids is not None:
            return [self.ids[row] for row in rows]
        return rows if self.places is None else self.places[rows]


PICTURES = {
    ".avif": "image/avif",
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
}
"""Media types of pictures, by the ending of the file."""


def picture_path(base: Path, name: str) -> Path:
    """Return the path of a picture inside a folder, or raise TableError.

    Parameters
    ----------
    base: The folder, resolved.
    name: Path from there; links are followed before it is checked.
    """
    path = (base / name).resolve()
    if not path.is_relative_to(base):
        raise TableError(f"{name!r} is outside the folder of pictures {base}.")
    if path.suffix.lower() not in PICTURES:
        raise TableError(f"{name!r} is not a picture: {', '.join(PICTURES)}.")
    if not path.is_file():
        raise TableError(f"There is no picture {name!r} in {base}.")
    return path


def pictures_named(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the pictures of a folder with these names, with or without the ending of the file."""
    if not folder.is_dir():
        raise TableError(f"There is no folder {folder}.")
    base = folder.resolve()
    files = sorted(file for file in base.iterdir() if file.suffix.lower() in PICTURES)
    endings = {file.stem: file.name for file in files}
    paths = []
    for name in names:
        try:
            is_file = (base / name).is_file()
        except OSError:  # longer than names of files can be
            is_file = False
        if not is_file and name not in endings:
            raise TableError(f"There is no picture {quoted(name)} in {folder}.")
        paths.append(picture_path(base, name if is_file else endings[name]))
    return paths
