"""Arrays without named columns: .npy and .npz."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from nearfar.frames.frames import TableError, check_archive, no_file, unpacked_copy
from nearfar.frames.reader import (
    Batch,
    ColumnChoice,
    TableFormat,
    TableReader,
    TableWriter,
    batch_rows,
    listed,
    reading,
)
from nearfar.typing import Array


class ArrayReader(TableReader):
    """A 2-d array in an .npy file, or the array X of an .npz file, or its only one.

    Parameters
    ----------
    _: Arrays need no folder for temporary files.
    load: Returns the array; by default it is that of an .npy file, mapped to memory.
    """

    others = pl.Schema()

    def __init__(
        self,
        path: Path,
        choice: ColumnChoice,
        _: Path | None = None,
        load: Callable[[], Array] | None = None,
    ) -> None:
        self.path = path
        self._load = load or partial(np.load, path, mmap_mode="r")
        array = np.asarray(self._load())
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
        self.features = tuple(str(number) for number in range(array.shape[1]))

    def _read_batches(self) -> Iterator[Batch]:
        total, width = self._shape
        rows = batch_rows(width)
        for start in range(0, total, rows):
            # Pages count as memory until their mapping is closed, so that each batch has its own.
            mapped = self._load()
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
    if scratch is None:
        array = load_array(path, name)
        yield ArrayReader(path, choice, load=lambda: array)
        return
    with (
        zipfile.ZipFile(path) as archive,
        archive.open(f"{name}.npy") as packed,
        unpacked_copy(path, packed, scratch) as copy,
    ):
        yield ArrayReader(path, choice, load=partial(np.load, copy, mmap_mode="r"))


def load_array(path: Path, name: str | None = None) -> Array:
    """Read an array of an .npy file, or one of an .npz file; never one that runs code."""
    if not path.is_file():
        raise no_file(path)
    with reading(path), path.open("rb") as file:
        if name is not None:
            check_archive(path, f"{name}.npy")
        content = np.load(file, allow_pickle=False)
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
