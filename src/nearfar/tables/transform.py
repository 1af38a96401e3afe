"""`transform`: the rows of a file by the map of a metric or an adapter."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from nearfar.frames.mapping import RowMap, transform_file
from nearfar.frames.metric_files import kind_of_model, load_metric
from nearfar.runtime.messages import counted, option
from nearfar.search import RetrievalAdapter


def transform(
    metric: str | PathLike[str],
    source: object,
    target: str | PathLike[str],
    *,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    ids: str | None = None,
    as_vector: bool = False,
    documents: bool = False,
    vector: str | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Mapped:
    """Map the rows of a file so that Euclidean distance is the metric.

    With an adapter, map queries or documents so that inner products are scores. Memory is bounded,
    however large the file is.

    Parameters
    ----------
    metric: Metric file, as written by `nearfar learn`, or adapter, by `nearfar adapt`.
    source: Table or array, as for `nearfar learn`.
    target: Table or array to write: .csv, .tsv, .parquet, .feather, .arrow, .jsonl or .npy.
    keep: Column to copy, or several with commas.
    drop: Column to leave out, or several with commas.
    ids: Column of row names, which is copied.
    as_vector: Write the coordinates as one column of lists, nearfar; not for .csv and .tsv.
    documents: With an adapter: map documents, not queries.
    vector: For adapters: column of vectors [default: the only one with lists].
    progress: Called with the number of rows done, an estimate of their total, and "rows".
    """
    start = time.perf_counter()
    model, rows_from, kind = Path(metric), Path(str(source)), kind_of_model(Path(metric))
    if kind == "adapter":
        adapter = RetrievalAdapter.load(model)
        mapped = adapter.transform_documents if documents else adapter.transform_queries
        row_map = RowMap.of_vectors(mapped, adapter.n_features_in_, rows_from, vector)
    elif documents:
        raise ValueError(f"{option('documents')} is for adapters, which {metric} is not.")
    elif vector is not None:
        raise ValueError(f"{option('vector')} is for adapters; {metric} is a metric.")
    else:
        row_map = RowMap.of_metric(load_metric(model))
    rows = transform_file(
        row_map,
        rows_from,
        Path(target),
        keep=[*([] if ids is None else [ids]), *keep],
        drop=drop,
        as_vector=as_vector,
        progress=progress and (lambda done, total: progress(done, total, "rows")),
    )
    return Mapped(rows, str(target), time.perf_counter() - start)


@dataclass(frozen=True)
class Mapped:
    """How many rows were mapped, and where they were written."""

    rows: int
    written: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the same for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        rows = counted(self.rows, "row")
        return f"Mapped {rows} in {self.seconds:.2f} s; written to {self.written}"
