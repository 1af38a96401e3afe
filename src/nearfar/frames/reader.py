"""What all table formats share: choice of columns, batches of rows, and checks.

A format is a `TableFormat`: its ending, a reader and a writer. `nearfar.frames.formats` lists
them. Every command reads through `TableReader`, in batches of bounded size or everything at once,
and gets the same errors.
"""

from __future__ import annotations

import gzip
import re
import sys
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from nearfar.columns import Columns
from nearfar.frames.table import Frame, NotNumbersError, TableError
from nearfar.metrics.metric import Metric
from nearfar.numerics.missing import surely_finite
from nearfar.runtime.messages import cut, did_you_mean, named, option, quoted
from nearfar.runtime.progress import stage
from nearfar.typing import Floats

_MOST_NAMES, _FEW_NAMES = 30, 10
_BATCH_BYTES = 1 << 23
_NUMBER = re.compile(r"\s*[+-]?\d*\.?\d+(?:[eE][+-]?\d+)?\s*")
_READ_ERRORS = (
    pl.exceptions.PolarsError,
    ValueError,
    EOFError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
    gzip.BadGzipFile,
    pl.exceptions.PanicException,
)


Source = Path | Frame


@dataclass(frozen=True)
class ColumnChoice:
    """Which columns of a table are wanted.

    Attributes
    ----------
    others: Columns to read unchanged: labels, names, texts, columns to copy.
    drop: Columns to leave out.
    metric: The metric whose features are wanted. Without feature names, and without a
        metric, all columns but `others` and `drop` are features.
    width: Number of features that the columns in `others` become later, if they do; then
        none are features as they are.
    """

    others: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    metric: Metric | None = None
    width: int = 0

    @property
    def columns(self) -> Columns | None:
        """What columns become features in the way that the metric has learned."""
        return None if self.metric is None else self.metric.columns

    @property
    def needed(self) -> bool:
        """Whether a metric names the features that it needs."""
        return self.metric is not None and self.metric.feature_names is not None

    @property
    def raw(self) -> ColumnChoice:
        """The same choice, with the columns that become features later unchanged."""
        if self.columns is None:
            return self
        others = tuple(dict.fromkeys([*self.others, *self.columns.names]))
        return ColumnChoice(others, self.drop, self.metric, len(self.columns.feature_names))

    def features(self, path: Source, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that are features, in order, or raise TableError."""
        if self.width and self.columns is not None:
            self._check_needed(path, columns, self.columns.names)
            self._check_names(path, columns)
            return ()
        self._check_names(path, columns)
        if self.metric is not None and self.metric.feature_names is not None:
            self._check_needed(path, columns, self.metric.feature_names)
            return self.metric.feature_names
        rest = {*self.others, *self.drop}
        features = tuple(name for name in columns if name not in rest)
        if self.metric is not None and len(features) != self.metric.n_features:
            hint = (
                f"; {option('drop')} the others" if len(features) > self.metric.n_features else ""
            )
            raise TableError(
                f"The metric needs {self.metric.n_features} features, but {path} has "
                f"{len(features)} feature columns{hint}."
            )
        return features

    def _check_names(self, path: Source, columns: Sequence[str]) -> None:
        if len(set(columns)) < len(columns):
            twice = Counter(columns).most_common(1)[0][0]
            raise TableError(
                f"{path} has several columns named {quoted(twice)}; rename all but one."
                f"{first_row_hint(columns)}"
            )
        require_columns(path, columns, [*self.others, *self.drop])
        for both in set(self.drop).intersection(self.others):
            raise TableError(f"Column {both!r} is needed and cannot be dropped.")

    def _check_needed(self, path: Source, columns: Sequence[str], names: tuple[str, ...]) -> None:
        for twice, number in Counter(names).most_common(1):
            if number > 1:
                raise TableError(
                    f"The metric has several features named {quoted(twice)}; name them apart."
                )
        known = set(columns)
        missing = [name for name in names if name not in known]
        if missing:
            raise TableError(f"{path} lacks columns that the metric needs: {listed(missing)}.")
        dropped = [name for name in names if name in self.drop]
        if dropped:
            them = columns_named(dropped)
            cause = option("drop", dropped)
            raise TableError(f"The metric needs {them}, which {cause} leaves out.")


@dataclass(frozen=True)
class Batch:
    """Some rows of a table.

    Attributes
    ----------
    others: The other columns that were asked for.
    total: Number of rows in the whole table; an estimate for text files.
    """

    X: Floats
    others: pl.DataFrame
    total: int

    def __len__(self) -> int:
        return len(self.X)

    def rows(self, start: int, stop: int) -> Batch:
        """Return the rows from `start` to `stop`."""
        return Batch(self.X[start:stop], self.others.slice(start, stop - start), self.total)


def joined(pieces: Sequence[Batch]) -> Batch:
    """Join consecutive batches."""
    if len(pieces) == 1:
        return pieces[0]
    others = pl.concat([piece.others for piece in pieces])
    return Batch(np.concatenate([piece.X for piece in pieces]), others, pieces[-1].total)


def rebatched(batches: Iterable[Batch], rows: int) -> Iterator[Batch]:
    """Cut the same rows into batches of equal length; the last may be shorter."""
    pieces: list[Batch] = []
    missing = rows
    for batch in batches:
        start = 0
        while len(batch) - start >= missing:
            yield joined([*pieces, batch.rows(start, start + missing)])
            start += missing
            pieces, missing = [], rows
        if start < len(batch):
            rest = batch.rows(start, len(batch))
            pieces.append(Batch(rest.X.copy(), rest.others, rest.total))
            missing -= len(rest)
        # Release it before the next one is read, or two are in memory.
        del batch
    if pieces:
        yield joined(pieces)


class TableReader(ABC):
    """Rows of a table in a file.

    Attributes
    ----------
    features: Names of the features; their numbers in arrays.
    others: Names and types of the other columns.
    dtype: float32 if all features are, otherwise float64.
    needed: Whether a metric needs the features, so that none can be left out.
    """

    path: Source
    features: tuple[str, ...]
    others: pl.Schema
    dtype: np.dtype[Any]
    needed: bool = False

    @abstractmethod
    def _read_batches(self) -> Iterator[Batch]:
        """Yield all rows in order, unchecked."""

    def close(self) -> None:
        """Close the file."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def batches(self) -> Iterator[Batch]:
        """Yield all rows in order; features are finite numbers."""
        source = self._read_batches()
        row = 0
        with stage("") as level:
            while True:
                with reading(self.path):
                    batch = next(source, None)
                if batch is None:
                    return
                self._check_finite(batch.X, row)
                row += len(batch)
                level.total, level.done = batch.total, row
                yield batch
                # Release it before the next one is read.
                del batch

    def read(self) -> Batch:
        """Return all rows at once; batches are written to their place as they are read."""
        source = self.batches()
        empty = Batch(np.empty((0, len(self.features)), self.dtype), self.others.to_frame(), 0)
        first = next(source, empty)
        X, others, n_rows = first.X, [first.others], len(first)
        for batch in source:
            end = n_rows + len(batch)
            if end > len(X):
                # Totals of text files are estimates. Memory that is not written to is free.
                grown = np.empty((max(batch.total, end) * 9 // 8, X.shape[1]), X.dtype)
                grown[:n_rows] = X[:n_rows]
                X = grown
            X[n_rows:end] = batch.X
            others.append(batch.others)
            n_rows = end
        return Batch(X[:n_rows], pl.concat(others), n_rows)

    def _check_finite(self, X: Floats, before: int) -> None:
        if surely_finite(X):
            return
        finite = np.isfinite(X)
        if finite.all():
            return
        row = before + int(finite.all(axis=1).argmin())
        names = [self.features[column] for column in np.flatnonzero(~finite.all(axis=0))]
        remedy = "those rows" if self.needed else "those rows or columns"
        raise NotNumbersError(
            f"{self.path} has missing or infinite values in {columns_named(names)}, first in row "
            f"{row} (counting from 0). Fill them in, or leave out {remedy}."
        )

    def not_numbers(self, names: Sequence[str]) -> TableError:
        """Return the error for columns of text."""
        if self.needed:
            return NotNumbersError(
                f"{self.path} has text in {columns_named(names)}, where the metric needs numbers. "
                "Write numbers, or learn the metric again from this table."
            )
        drop = option("drop", list(names[:_MOST_NAMES]))
        return NotNumbersError(
            f"{self.path} has text in {columns_named(names)}. Leave it out with {drop}."
        )


class TableWriter(ABC):
    """Writes a table to a file, some rows at a time.

    Parameters
    ----------
    schema: Names and types of the columns.
    """

    @abstractmethod
    def __init__(self, path: Path, schema: pl.Schema) -> None: ...

    @abstractmethod
    def write(self, table: pl.DataFrame) -> None:
        """Append rows."""

    @abstractmethod
    def finish(self) -> None:
        """Complete the file."""

    @abstractmethod
    def close(self) -> None:
        """Close the file; may be called at any time, and more than once."""


@dataclass(frozen=True)
class TableFormat:
    """A file format of tables or arrays.

    Attributes
    ----------
    ending: Ending of file names, in lower case.
    read: Opens a file: takes its path, a `ColumnChoice`, and a folder for temporary files
        or None, which means that memory need not be bounded.
    write: Creates a `TableWriter` from a path and a schema.
    start: Regular expression for how files begin, to recognise the format of stdin.
    is_array: Whether files have one array without named columns. Writers of arrays get one
        column of lists.
    has_lists: Whether files can have columns of lists.
    """

    ending: str
    read: Callable[[Path, ColumnChoice, Path | None], AbstractContextManager[TableReader]]
    write: Callable[[Path, pl.Schema], TableWriter] | None = None
    start: bytes = b"(?!)"
    is_array: bool = False
    has_lists: bool = False


def batch_rows(width: int) -> int:
    """Return how many rows of `width` numbers a batch of bounded size has."""
    return max(1, _BATCH_BYTES // (8 * max(1, width)))


@contextmanager
def reading(path: Source) -> Iterator[None]:
    """Turn errors of libraries into a TableError that names the file."""
    try:
        yield
    except TableError:
        raise
    except with_arrow_errors(*_READ_ERRORS) as error:
        raise TableError(f"{path} cannot be read: {first_line(error)}") from error
    except OSError as error:
        # Those of pyarrow about damaged files have no number.
        if error.errno is not None:
            raise
        raise TableError(f"{path} cannot be read: {first_line(error)}") from error


def with_arrow_errors(*errors: type[BaseException]) -> tuple[type[BaseException], ...]:
    """Return the errors, with those of pyarrow if anything has imported it."""
    arrow = sys.modules.get("pyarrow")
    return errors if arrow is None else (*errors, arrow.ArrowException)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, cut if it is long."""
    return cut(str(error).strip().partition("\n")[0], 200)


def listed(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    """Return names, separated by commas; the first ones if there are many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(named, names[:most])) + more


def columns_named(names: Sequence[str]) -> str:
    """Return "column a" or "columns a, b"."""
    return f"column{'s' if len(names) > 1 else ''} {listed(names)}"


def named_columns(given: Iterable[str] | None, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that an option names; several may be separated by commas."""
    names: list[str] = []
    for text in [given] if isinstance(given, str) else given or ():
        names += [text] if text in columns else [part.strip() for part in text.split(",")]
    return tuple(dict.fromkeys(names))


def require_columns(path: Source, columns: Sequence[str], names: Iterable[str]) -> None:
    """Raise TableError unless the table has these columns."""
    known = set(columns)
    missing = next((name for name in names if name not in known), None)
    if missing is not None:
        hint = did_you_mean(missing, columns)
        wrong = f"{path} has no column {missing!r}"
        if hint:
            raise TableError(f"{wrong}.{hint} It has {listed(columns, _FEW_NAMES)}.")
        hint = first_row_hint(columns)
        if len(columns) == 1:
            hint = " Its first line must name all columns, with nothing above it."
        raise TableError(f"{wrong}; it has {listed(columns)}.{hint}")


def first_row_hint(columns: Sequence[str]) -> str:
    """Return what to do if names of columns look like a row of values; "" if they do not.

    Names may be numbers, but then those are in order and all different: years, wavelengths.
    """
    numbers = [float(name) for name in columns if _NUMBER.fullmatch(name)]
    is_decimal = any("." in name and _NUMBER.fullmatch(name) for name in columns)
    ascending = sorted(set(numbers))
    # A few numbers descend by chance.
    in_order = numbers == ascending or (numbers == ascending[::-1] and len(numbers) > _FEW_NAMES)
    if in_order or not (is_decimal or len(numbers) == len(columns)):
        return ""
    return " Its first line looks like a row; write a line with the names of the columns above it."
