"""Map a table by a metric, from file to file, however long it is.

Rows are mapped in batches whose length depends on the metric alone, so that the same rows get the
same bits from any kind of file. The target is replaced in one step, once it is complete.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.io.plugins import register_io_source

from nearfar.cli.batches import KINDS, Floats, Table, even, first_line, open_table
from nearfar.cli.files import SEPARATORS, check_target
from nearfar.cli.source import SourceError
from nearfar.metrics.gated import GatedMetric
from nearfar.metrics.metric import Metric
from nearfar.metrics.signed_form import SignedForm
from nearfar.runtime.atomic_write import always_cleaned_up, atomic_write

TARGETS = (*SEPARATORS, ".parquet", ".npy")
"""Kinds of files that are written."""

_BATCH_BYTES = 1 << 23
_ALIGNED = 1024
_ROW_GROUP_BYTES = 1 << 24
_WAIT = 0.1


def transform_file(
    metric: Metric | SignedForm,
    source: Path,
    target: Path,
    *,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Map every row of a table, and write the result in the same order.

    Parameters
    ----------
    metric : Metric
        With feature names, these columns are mapped; otherwise all but `keep` and `drop`.
    source : Path
        A table (.csv, .tsv, .parquet) or a 2-d array (.npy; .npz: its array X, or its only one).
    target : Path
        A table (.csv, .tsv, .parquet) or an array (.npy) of the coordinates. An existing file is
        replaced only once the new one is complete.
    keep : sequence of str
        Columns to copy, before the coordinates. Those of a .csv or .tsv stay the text they are.
    drop : sequence of str
        Columns to leave out.
    progress : callable, optional
        Called with the rows done and their total, which is a guess for .csv and .tsv.

    Returns
    -------
    int
        Number of rows.

    Raises
    ------
    SourceError
        If it can't be done; the message says what to do.
    """
    plain = _plain(metric)
    keep, drop = list(dict.fromkeys(keep)), list(dict.fromkeys(drop))
    _check_paths(source, target, keep)
    names = [f"nearfar_{i}" for i in range(plain.n_components)]
    for name in keep:
        if name in names:
            raise SourceError(f"{name!r} is the name of a coordinate; rename the column to keep.")
    with (
        atomic_write(target) as temporary,
        open_table(source, plain, keep, drop, target.resolve().parent) as table,
    ):
        writer = _writer(target, temporary, table, names)
        with always_cleaned_up(writer.close):
            rows = 0
            for kept, Y, total in _mapped(plain, source, table):
                writer.write(kept, Y)
                rows += len(Y)
                if progress is not None:
                    progress(rows, max(rows, total))
            writer.finish()
    if progress is not None:
        progress(rows, rows)
    return rows


def _plain(metric: Metric | SignedForm) -> Metric:
    if isinstance(metric, GatedMetric):
        raise SourceError(
            "A gated metric has no single map: which one a point goes by depends on the query. "
            "Use a metric of one map."
        )
    if isinstance(metric, SignedForm):
        raise SourceError("A form learned with psd=False has no map; learn it with psd=True.")
    return metric


def _check_paths(source: Path, target: Path, keep: Sequence[str]) -> None:
    if source.suffix.lower() not in KINDS:
        raise SourceError(
            f"{source} is not a kind of table that is read; those are {', '.join(KINDS)}."
        )
    check_target(target, TARGETS, [source])
    if not source.is_file():
        raise SourceError(f"There is no file {source}.")
    if keep and target.suffix.lower() == ".npy":
        raise SourceError(
            "An .npy file has the coordinates only; to --keep columns, write a table."
        )


def _mapped(
    metric: Metric, source: Path, table: Table
) -> Iterator[tuple[pl.DataFrame, Floats, int]]:
    """Columns to keep, coordinates, and how many rows there may be in all."""
    before = 0
    for batch in even(table.batches(), _rows(metric)):
        finite = np.isfinite(batch.X)
        if not finite.all():
            row, column = divmod(int(finite.argmin()), finite.shape[1])
            raise SourceError(
                f"Column {table.features[column]!r} of {source} has a missing or infinite value in "
                f"row {before + row}, from 0. Fill it in, or leave the row out."
            )
        yield batch.kept, metric.transform(batch.X), batch.total
        before += len(batch)
        # It may be a view of all that was read at once.
        del batch


def _rows(metric: Metric) -> int:
    """Rows in a batch: as many as fit; whole tiles of BLAS, which rounds the rest otherwise."""
    widest = max(metric.n_features, metric.n_components, metric.L.shape[1])
    rows = max(1, _BATCH_BYTES // (8 * widest))
    return rows if rows < _ALIGNED else rows - rows % _ALIGNED


class _Writer(Protocol):
    """What takes the mapped rows; `close` may be called at any time, and more than once."""

    def write(self, kept: pl.DataFrame, Y: Floats) -> None: ...

    def finish(self) -> None: ...

    def close(self) -> None: ...


def _writer(target: Path, temporary: Path, table: Table, names: list[str]) -> _Writer:
    kind = target.suffix.lower()
    if kind == ".npy":
        return _ArrayWriter(temporary, table.dtype, len(names))
    number = pl.Float32() if table.dtype == np.float32 else pl.Float64()
    schema = {**table.kept, **dict.fromkeys(names, number)}
    if kind == ".parquet":
        return _ParquetWriter(temporary, schema, names)
    return _TextWriter(temporary, schema, names, SEPARATORS[kind])


def _frame(kept: pl.DataFrame, Y: Floats, names: list[str]) -> pl.DataFrame:
    return pl.DataFrame([*kept.get_columns(), *pl.from_numpy(Y, schema=names).get_columns()])


class _TextWriter:
    """Writes CSV; floats have as many digits as they need to be read back to the last bit."""

    def __init__(self, path: Path, schema: dict[str, Any], names: list[str], separator: str):
        self._schema, self._names, self._separator = schema, names, separator
        self._header = True
        self._file = path.open("wb")

    def write(self, kept: pl.DataFrame, Y: Floats) -> None:
        self._append(_frame(kept, Y, self._names))

    def _append(self, frame: pl.DataFrame) -> None:
        try:
            text = frame.write_csv(include_header=self._header, separator=self._separator)
        except pl.exceptions.PolarsError as error:
            raise SourceError(
                f"The columns to keep cannot be written as text: {first_line(error)}"
            ) from error
        self._file.write(text.encode())
        self._header = False

    def finish(self) -> None:
        if self._header:
            self._append(pl.DataFrame(schema=self._schema))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class _ArrayWriter:
    """Writes an .npy file; its header is written again once the rows are counted."""

    def __init__(self, path: Path, dtype: np.dtype[Any], width: int):
        self._dtype, self._width, self._rows = dtype, width, 0
        self._file = path.open("wb")
        self._header()

    def _header(self) -> None:
        # numpy leaves room for the longest number of rows, so both headers are of one length.
        np.lib.format.write_array_header_1_0(
            self._file,
            {
                "descr": np.lib.format.dtype_to_descr(self._dtype),
                "fortran_order": False,
                "shape": (self._rows, self._width),
            },
        )

    def write(self, kept: pl.DataFrame, Y: NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(Y, self._dtype).data)
        self._rows += len(Y)

    def finish(self) -> None:
        self._file.seek(0)
        self._header()
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class _Stopped(Exception):  # noqa: N818
    """Ends the sink when the rows do not come to an end."""


class _ParquetWriter:
    """Hands frames to polars' sink, which pulls, in a thread of its own."""

    def __init__(self, path: Path, schema: dict[str, Any], names: list[str]):
        self._path, self._schema, self._names = path, schema, names
        self._frames: queue.Queue[pl.DataFrame | None] = queue.Queue(maxsize=1)
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._sink, daemon=True)
        self._thread.start()

    def _sink(self) -> None:
        rows = max(1, _ROW_GROUP_BYTES // (8 * len(self._schema)))
        try:
            lazy = register_io_source(self._pull, schema=self._schema)
            lazy.sink_parquet(self._path, row_group_size=rows)
        except BaseException as error:
            self._error = error

    def _pull(self, *_: Any) -> Iterator[pl.DataFrame]:
        while not self._stopped.is_set():
            try:
                frame = self._frames.get(timeout=_WAIT)
            except queue.Empty:
                continue
            if frame is None:
                return
            yield frame
        raise _Stopped

    def write(self, kept: pl.DataFrame, Y: Floats) -> None:
        self._put(_frame(kept, Y, self._names))

    def _put(self, frame: pl.DataFrame | None) -> None:
        while True:
            self._check()
            try:
                self._frames.put(frame, timeout=_WAIT)
            except queue.Full:
                continue
            return

    def _check(self) -> None:
        if self._error is not None:
            raise SourceError(
                f"The table cannot be written: {first_line(self._error)}"
            ) from self._error

    def finish(self) -> None:
        self._put(None)
        self._thread.join()
        self._check()

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()
