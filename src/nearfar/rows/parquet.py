"""`ParquetRows`: rows of Parquet files, read one row group at a time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from nearfar.rows.base import check_unchanged, stamp_of
from nearfar.rows.grouped import GroupedRows
from nearfar.runtime.optional_package import optional_package
from nearfar.typing import Floats


class ParquetRows(GroupedRows):
    """Rows of a Parquet file, or of the files of a folder in the order of their names.

    Parameters
    ----------
    path : path
    columns : sequence of str, optional
        The features; by default all columns, which must be numbers. They are float32 if all
        columns are.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from nearfar.rows.parquet import ParquetRows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "X.parquet")
    ...     pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "b": [4, 5, 6]}), path)
    ...     rows = ParquetRows(path)
    ...     rows.feature_names, rows[1:]
    (('a', 'b'), array([[2., 5.],
                        [3., 6.]]))
    """

    def __init__(self, path: str | Path, columns: Iterable[str] | None = None) -> None:
        pq = _pyarrow_parquet()
        from pyarrow import types

        files = [Path(path)]
        if files[0].is_dir():
            files = sorted([*files[0].glob("*.parquet"), *files[0].glob("*.pq")])
            if not files:
                raise ValueError(f"{path} has no Parquet files.")
        schema = pq.read_schema(files[0])
        names = [str(name) for name in (schema.names if columns is None else columns)]
        self.groups: list[tuple[str, int]] = []
        sizes = []
        for file in files:
            with pq.ParquetFile(file) as opened:
                for name in names:
                    if name not in opened.schema_arrow.names:
                        raise ValueError(f"{file} has no column {name!r}.")
                    kind = opened.schema_arrow.field(name).type
                    if not (types.is_floating(kind) or types.is_integer(kind)):
                        raise ValueError(f"Column {name!r} of {file} has no numbers, but {kind}.")
                for number in range(opened.metadata.num_row_groups):
                    self.groups.append((str(file.resolve()), number))
                    sizes.append(opened.metadata.row_group(number).num_rows)
        self.columns = names
        self.bounds = np.concatenate([[0], np.cumsum(sizes, dtype=np.intp)]).astype(np.intp)
        self.shape = (int(self.bounds[-1]), len(names))
        narrow = all(str(schema.field(name).type) == "float" for name in names)
        self.dtype = np.dtype(np.float32 if narrow else np.float64)
        self.feature_names = tuple(names)
        self._stamps = {file: stamp_of(Path(file).stat()) for file, _ in self.groups}

    def load(self, group: int) -> Floats:
        """Read a row group."""
        file, number = self.groups[group]
        opened = self.__dict__.get("_stamps", {}).get(file)
        check_unchanged(file, stamp_of(Path(file).stat()), opened)
        with _pyarrow_parquet().ParquetFile(file) as source:
            table = source.read_row_group(number, columns=self.columns, use_threads=False)
        rows = np.empty((len(table), len(self.columns)), dtype=self.dtype)
        for k, name in enumerate(self.columns):
            rows[:, k] = table.column(name).to_numpy()
        return rows


def _pyarrow_parquet() -> Any:
    return optional_package("pyarrow.parquet", "A Parquet file", "nearfar[cli]")
