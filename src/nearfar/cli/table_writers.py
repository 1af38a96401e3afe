"""The formats of tables that are written: .csv, .tsv, .parquet and .npy."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from nearfar.cli.csv_reader import SEPARATORS
from nearfar.cli.errors import UserError
from nearfar.cli.streams import STREAM
from nearfar.cli.tables import first_line, polars_frame
from nearfar.cli.terminal import copy_to_stdout
from nearfar.runtime.atomic_write import atomic_write
from nearfar.typing import Floats

WRITTEN_TABLES = (*SEPARATORS, ".parquet")
WRITTEN_FORMATS = (*WRITTEN_TABLES, ".npy")
VECTOR = "nearfar"
"""Name of the column of lists that has all coordinates."""

_ROW_GROUP_BYTES = 1 << 24


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of libraries into a UserError that names the file."""
    try:
        yield
    except (OSError, pa.ArrowException, pl.exceptions.PolarsError) as error:
        raise UserError(f"{path} cannot be written: {first_line(error)}") from error


@contextmanager
def stdout_file(path: Path) -> Iterator[Path]:
    """Give a path to write to; if it is ``-``, that of a .csv file that then goes to stdout."""
    if str(path) != STREAM:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / "stdout.csv"
        yield temporary
        with temporary.open("rb") as file:
            copy_to_stdout(file)


def write_frame(frame: pl.DataFrame, path: Path) -> None:
    """Write a whole table; ``-`` is .csv to stdout."""
    if str(path) == STREAM:
        copy_to_stdout(io.BytesIO(frame.write_csv().encode()))
        return
    with writing(path), atomic_write(path) as temporary:
        if path.suffix.lower() == ".parquet":
            pa.parquet.write_table(frame.to_arrow(), temporary)
        else:
            frame.write_csv(temporary, separator=SEPARATORS[path.suffix.lower()])


class TableWriter(Protocol):
    """Takes rows: columns that are copied, and coordinates."""

    def write(self, others: pa.Table, Y: Floats) -> None:
        """Append rows."""
        ...

    def finish(self) -> None:
        """Complete the file."""
        ...

    def close(self) -> None:
        """Close the file; may be called at any time, and more than once."""
        ...


def open_writer(
    temporary: Path,
    kind: str,
    others: pa.Schema,
    names: Sequence[str],
    dtype: np.dtype[Any],
    *,
    as_vector: bool = False,
) -> TableWriter:
    """Open a file for rows.

    Parameters
    ----------
    temporary : Path
        Where to write.
    kind : str
        One of `WRITTEN_FORMATS`.
    others : pyarrow.Schema
        Columns that are copied; they come first.
    names : sequence of str
        Names of the coordinates.
    dtype : dtype
        Type of the coordinates.
    as_vector : bool, default=False
        Whether a Parquet file has all coordinates in one column of lists.
    """
    if kind == ".npy":
        return _ArrayWriter(temporary, dtype, len(names))
    number = pa.from_numpy_dtype(dtype)
    schema = others
    for name in () if as_vector else names:
        schema = schema.append(pa.field(name, number))
    if as_vector:
        schema = schema.append(pa.field(VECTOR, pa.list_(number, len(names))))
    if kind == ".parquet":
        return _ParquetWriter(temporary, schema, others.names, len(names))
    return _CsvWriter(temporary, schema, SEPARATORS[kind])


def _joined(others: pa.Table, Y: Floats, schema: pa.Schema) -> pa.Table:
    if len(schema) == len(others.columns) + 1 and pa.types.is_fixed_size_list(schema[-1].type):
        flat = pa.array(np.ascontiguousarray(Y).ravel())
        coordinates = [pa.FixedSizeListArray.from_arrays(flat, Y.shape[1])]
    else:
        coordinates = [pa.array(np.ascontiguousarray(column)) for column in Y.T]
    return pa.Table.from_arrays([*others.columns, *coordinates], schema=schema)


class _CsvWriter:
    """Writes text; floats have as many digits as needed to read them back exactly."""

    def __init__(self, path: Path, schema: pa.Schema, separator: str) -> None:
        self._schema, self._separator = schema, separator
        self._header = True
        self._file = path.open("wb")

    def write(self, others: pa.Table, Y: Floats) -> None:
        self._append(_joined(others, Y, self._schema))

    def _append(self, table: pa.Table) -> None:
        text = polars_frame(table).write_csv(include_header=self._header, separator=self._separator)
        self._file.write(text.encode())
        self._header = False

    def finish(self) -> None:
        if self._header:
            self._append(self._schema.empty_table())
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class _ParquetWriter:
    """Writes row groups of bounded size."""

    def __init__(
        self, path: Path, schema: pa.Schema, copied: Sequence[str], n_coordinates: int
    ) -> None:
        self._schema = schema
        self._rows = max(1, _ROW_GROUP_BYTES // (8 * (len(copied) + n_coordinates)))
        self._waiting: list[pa.Table] = []
        # Coordinates hardly repeat, so that a dictionary of them is no use.
        encoding: dict[str, Any] = {"compression": "zstd", "use_dictionary": list(copied)}
        self._writer = pa.parquet.ParquetWriter(path, schema, **encoding)

    def write(self, others: pa.Table, Y: Floats) -> None:
        self._waiting.append(_joined(others, Y, self._schema))
        if sum(map(len, self._waiting)) >= self._rows:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting), self._rows)
        self._waiting = []

    def finish(self) -> None:
        self._flush()
        self._writer.close()

    def close(self) -> None:
        self._writer.close()


class _ArrayWriter:
    """Writes an .npy file; its header is written again once the rows are counted."""

    def __init__(self, path: Path, dtype: np.dtype[Any], width: int) -> None:
        self._dtype, self._width, self._rows = dtype, width, 0
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

    def write(self, others: pa.Table, Y: NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(Y, self._dtype).data)
        self._rows += len(Y)

    def finish(self) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.flush()

    def close(self) -> None:
        self._file.close()
