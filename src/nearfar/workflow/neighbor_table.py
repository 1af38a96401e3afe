"""Nearest rows by a metric, or best documents by an adapter, as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from nearfar.metrics.metric import Metric
from nearfar.neighbors import kneighbors
from nearfar.retrieval import RetrievalAdapter, search
from nearfar.runtime.option_names import option
from nearfar.runtime.quoting import named
from nearfar.tables.table import Table
from nearfar.typing import Array, Floats, Ints

# Queries between two reports of progress, so that these come every second or so.
_QUERIES_AT_ONCE = 1 << 14


@dataclass(frozen=True, eq=False)
class NeighborTable:
    """The nearest rows of some rows.

    Attributes
    ----------
    gallery, asked : Table
        Rows that were searched, and rows that were asked about.
    rows : array of int of shape (n_queries,)
        Which of `asked` were asked about.
    values : array of shape (n_queries, n_neighbors)
        Distances or scores, the nearest first.
    indices : array of int of shape (n_queries, n_neighbors)
        Rows of the gallery.
    measure : str
        What `values` are: "distance" or "score".
    cutoff : float
        Scores below it are no answers, and not in `frame`.
    """

    gallery: Table
    asked: Table
    rows: Ints
    values: Floats
    indices: Ints
    measure: str
    cutoff: float = -np.inf

    def frame(self) -> pl.DataFrame:
        """Return a row for each query and neighbour."""
        gallery, asked, number = self.gallery, self.asked, self.indices.shape[1]
        columns: dict[str, Array | list[str]] = {
            "query": asked.row_names(np.repeat(self.rows, number)),
            "rank": np.tile(np.arange(1, number + 1), len(self.rows)),
            "neighbor": gallery.row_names(self.indices.ravel()),
            self.measure: self.values.ravel(),
        }
        if asked is not gallery and asked.y is not None:
            columns["query_label"] = np.repeat(asked.y[self.rows], number)
        if asked is not gallery and asked.texts is not None:
            columns["query_text"] = [asked.texts[row] for row in self.rows for _ in range(number)]
        if gallery.y is not None:
            columns["label"] = gallery.y[self.indices.ravel()]
        if gallery.texts is not None:
            columns["text"] = [gallery.texts[row] for row in self.indices.ravel()]
        return pl.DataFrame(columns).filter(pl.Series(self.values.ravel() >= self.cutoff))


def find_rows(table: Table, names: Sequence[str] | None, *, most: int | None = None) -> Ints:
    """Return rows by name or number; without names, the first ones, or all.

    Parameters
    ----------
    table : Table
    names : sequence of str or None
        Names of rows, or their numbers in the file.
    most : int, optional
        How many of the first rows are wanted if there are no names.
    """
    if not names:
        return np.arange(len(table) if most is None else min(most, len(table)))
    numbers = {table.row_name(number): number for number in range(len(table))}
    unknown = next((name for name in names if name not in numbers), None)
    if unknown is not None:
        known = f"rows 0 to {len(table) - 1}"
        if table.ids is not None:
            known = f"{', '.join(map(named, table.ids[:3]))}, ..."
        raise ValueError(f"{table.name} has no row {unknown!r}; it has {known}.")
    return np.array([numbers[name] for name in names], dtype=np.intp)


def nearest_rows(
    model: Metric | RetrievalAdapter,
    gallery: Table,
    asked: Table,
    rows: Ints,
    n_neighbors: int,
    *,
    cosine: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> NeighborTable:
    """Find the nearest rows.

    Parameters
    ----------
    model : Metric or RetrievalAdapter
        A metric gives distances; an adapter gives scores of documents for queries.
    gallery : Table
        Rows to search.
    asked : Table
        Rows to ask about. If it is the gallery, a row is not its own neighbour.
    rows : array of int
        Which of `asked` to ask about.
    n_neighbors : int
    cosine : bool
        Whether the metric compares rows of unit length, and 1 - cosine is wanted.
    progress : callable, optional
        Called with the number of rows so far, of all rows, and "rows".
    """
    documents = gallery.X if isinstance(model, Metric) else model.transform_documents(gallery.X)
    most = len(gallery) - (asked is gallery)
    if n_neighbors > most:
        asked_for = option("neighbors", n_neighbors)
        raise ValueError(f"{asked_for} is more than the {most} rows to search.")
    parts: list[tuple[Floats, Ints]] = []
    for start in range(0, len(rows), _QUERIES_AT_ONCE):
        if progress is not None:
            progress(start, len(rows), "rows")
        some = rows[start : start + _QUERIES_AT_ONCE]
        if not isinstance(model, Metric):
            ranking = search(model.transform_queries(asked.X[some]), documents, n_neighbors)
            parts.append((ranking.scores, ranking.documents))
        elif asked is gallery:
            parts.append(kneighbors(model, gallery.X, rows=some, n_neighbors=n_neighbors))
        else:
            queries = asked.X[some]
            parts.append(kneighbors(model, gallery.X, queries, n_neighbors=n_neighbors))
    values, indices = (np.concatenate(column) for column in zip(*parts, strict=True))
    if cosine:
        # Rows of unit length: |x - y|^2 = 2 (1 - cos).
        values = values**2 / 2
    measure = "distance" if isinstance(model, Metric) else "score"
    known = None if isinstance(model, Metric) else model.cutoff_
    cutoff = -np.inf if known is None else known.value
    return NeighborTable(gallery, asked, rows, values, indices, measure, cutoff)
