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

# Bytes that are decoded at once, and of the buffer of a column.
_BATCH_BYTES, _BUFFER_BYTES = 1 << 22, 1 << 16


class ParquetRows(GroupedRows):
    """Rows of a Parquet file, or of the files of a folder in the order of their names.

    Parameters
    ----------
    path : path
    columns : sequence of str, optional
        The features: numbers, or lists of numbers of one length. By default the only column of
        lists, if there is one; otherwise all columns, which must be numbers. They are float32 if
        all columns are.

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
        is_list = (types.is_list, types.is_large_list, types.is_fixed_size_list)

        def number_of(kind: Any) -> Any:
            return kind.value_type if any(each(kind) for each in is_list) else kind

        lists = [field.name for field in schema if number_of(field.type) is not field.type]
        if columns is None and len(lists) > 1:
            raise ValueError(
                f"{files[0]} has several columns of lists: {', '.join(lists)}. Choose with "
                "nearfar.rows.parquet.ParquetRows(path, columns=[...])."
            )
        names = [str(name) for name in (columns or lists or schema.names)]
        self.groups: list[tuple[str, int]] = []
        sizes = []
        for file in files:
            with pq.ParquetFile(file) as opened:
                for name in names:
                    if name not in opened.schema_arrow.names:
                        raise ValueError(f"{file} has no column {name!r}.")
                    kind = opened.schema_arrow.field(name).type
                    number = number_of(kind)
                    if not (types.is_floating(number) or types.is_integer(number)):
                        raise ValueError(f"Column {name!r} of {file} has no numbers, but {kind}.")
                for group in range(opened.metadata.num_row_groups):
                    self.groups.append((str(file.resolve()), group))
                    sizes.append(opened.metadata.row_group(group).num_rows)
        self.columns = names
        # Lists have as many numbers as the first one.
        self.widths: dict[str, int] = {}
        with pq.ParquetFile(files[0]) as opened:
            for name in set(lists).intersection(names):
                for batch in opened.iter_batches(1, columns=[name]):
                    self.widths[name] = len(batch.column(0)[0].as_py() or ())
                    break
        self.bounds = np.concatenate([[0], np.cumsum(sizes, dtype=np.intp)]).astype(np.intp)
        self.feature_names = tuple(
            f"{name}[{entry}]" if name in lists else name
            for name in names
            for entry in range(self.widths.get(name, 1))
        )
        self.shape = (int(self.bounds[-1]), len(self.feature_names))
        narrow = all(str(number_of(schema.field(name).type)) == "float" for name in names)
        self.dtype = np.dtype(np.float32 if narrow else np.float64)
        self._stamps = {file: stamp_of(Path(file).stat()) for file, _ in self.groups}

    def load(self, group: int) -> Floats:
        """Read a row group."""
        from pyarrow import compute as pc

        file, number = self.groups[group]
        opened = self.__dict__.get("_stamps", {}).get(file)
        check_unchanged(file, stamp_of(Path(file).stat()), opened)
        start, stop = self.bounds[group : group + 2]
        rows = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        # A few rows at a time, so that a group is not in memory twice.
        options = {"pre_buffer": False, "buffer_size": _BUFFER_BYTES}
        with _pyarrow_parquet().ParquetFile(file, **options) as source:
            top = 0
            size = max(1, _BATCH_BYTES // max(1, rows.itemsize * rows.shape[1]))
            for batch in source.iter_batches(size, [number], self.columns, use_threads=False):
                part, left = rows[top : top + len(batch)], 0
                top += len(batch)
                for name in self.columns:
                    column, width = batch.column(name), self.widths.get(name)
                    if width is None:
                        part[:, left] = column.to_numpy(zero_copy_only=False)
                        left += 1
                        continue
                    if pc.list_value_length(column).unique().to_pylist() != [width]:
                        raise ValueError(
                            f"Column {name!r} of {file} has missing lists or lists of several "
                            f"lengths; the first has {width} numbers."
                        )
                    numbers = column.flatten().to_numpy(zero_copy_only=False)
                    part[:, left : left + width] = numbers.reshape(-1, width)
                    left += width
        return rows


def _pyarrow_parquet() -> Any:
    return optional_package("pyarrow.parquet", "A Parquet file", "nearfar[parquet]")
