"""From what a user passes as X to `Rows`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nearfar.rows.base import Rows
from nearfar.rows.npy import NpyRows

# Memory-mapped arrays up to this size are read whole, as arrays.
_SMALL_BYTES = 1 << 26


def open_rows(X: object) -> Rows:
    """Open a file, a folder or a Dask array as rows that are read in blocks.

    Parameters
    ----------
    X : path, memory-mapped array, Dask array or Rows
        A ``.npy`` file, a Parquet file, or a folder of Parquet files in the order of their names.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from nearfar.rows import open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "X.npy")
    ...     np.save(path, np.ones((1000, 3), dtype=np.float32))
    ...     rows = open_rows(path)
    ...     rows.shape, rows.project(np.ones(3))[:2]
    ((1000, 3), array([3., 3.], dtype=float32))
    """
    rows = _opened(X, small=0)
    if rows is None:
        raise TypeError(
            "Rows are a .npy file, Parquet files, a memory-mapped or a Dask array; "
            f"got {type(X).__name__}."
        )
    return rows


def as_rows(X: object) -> Rows | None:
    """Return X as rows that are read in blocks, or None if it belongs in memory."""
    return _opened(X, small=_SMALL_BYTES)


def _opened(X: object, *, small: int) -> Rows | None:
    if isinstance(X, Rows):
        return X
    if isinstance(X, str | Path):
        path = Path(X)
        if path.suffix == ".npy":
            return NpyRows.open(path)
        if path.is_dir() or path.suffix in (".parquet", ".pq"):
            from nearfar.rows.parquet import ParquetRows

            return ParquetRows(path)
        raise ValueError(f"X must be a .npy file, a Parquet file or a folder of them; got {path}.")
    if isinstance(X, np.memmap):
        return NpyRows.of_memmap(X) if X.nbytes > small else None
    if type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "chunks"):
        from nearfar.rows.dask_rows import DaskRows

        return DaskRows(X)
    return None
