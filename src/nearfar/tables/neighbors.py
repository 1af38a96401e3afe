"""`neighbors`: nearest rows by a metric, or best documents by an adapter, as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from nearfar.frames.formats import (
    WRITTEN_TABLES,
    check_output,
    stem_of,
    write_frame,
)
from nearfar.frames.metric_files import kind_of_model, load_metric, load_model
from nearfar.frames.reading import read_new, read_table
from nearfar.frames.table import Table
from nearfar.frames.vectors import Kind, read_vectors
from nearfar.metrics.metric import Metric
from nearfar.neighbors import kneighbors
from nearfar.runtime.messages import counted, forwards, named, note, option, plain, text_table
from nearfar.typing import Array, Floats, Ints

# Queries between two reports of progress, so that these come every second or so.
_QUERIES_AT_ONCE = 1 << 14
_ROWS_SHOWN = 5
_TEXT_WIDTH = 60


@forwards(read_vectors, "vector")
@forwards(read_table, "label drop ids show")
def neighbors(
    *source: object,
    distance: Literal["euclidean", "cosine"] | None = None,
    row: Sequence[str] = (),
    queries: object = None,
    neighbors: int = 5,
    out: str | PathLike[str] | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    **reading: Any,
) -> Neighbors:
    """Find the nearest rows of some rows, of all rows, or of the rows of another file.

    With an adapter, find the documents with the best scores for queries.

    Parameters
    ----------
    source: File of a metric or an adapter, unless `distance` is given; then a table, an
        array, or the name of a dataset.
    distance: Search by this distance on unscaled rows, without a metric.
    row: Query row, by number (from 0) or by `ids`; by default the first five.
    queries: Take the query rows from another file.
    neighbors: Number of neighbours.
    out: Table to write. It has all rows unless `row` is given, as has JSON.
    progress: Called with the number of rows so far, of all rows, and "rows".
    **reading: How rows and vectors are read.
    """
    if len(source) != 1 + (distance is None):
        if distance is None:
            given = f"a table and {option('distance')}"
            raise ValueError(f"Give a metric file and a table, or {given}.")
        raise ValueError(f"With {option('distance', distance)}, give a table and no metric file.")
    if neighbors < 1:
        raise ValueError(f"{option('neighbors')} must be 1 or more; got {neighbors}.")
    if out is not None:
        check_output(Path(out), WRITTEN_TABLES, [*source, queries])
    path = None if distance is not None else Path(str(source[0]))
    vector = reading.pop("vector", None)
    if path is not None and kind_of_model(path) == "adapter":
        if reading.keys() & {"label", "drop"}:
            ways = f"{option('label')} and {option('drop')}"
            raise ValueError(f"{ways} are for metrics; an adapter takes vectors.")
        sides = _with_adapter(path, source[-1], queries, vector=vector, **reading)
    elif vector is not None:
        raise ValueError(f"{option('vector')} is for adapters.")
    else:
        sides = _with_metric(path, source[-1], queries, distance, reading)
    found = Neighbors(*sides, list(row), neighbors, distance == "cosine", progress, str(out or ""))
    if out is not None:
        write_frame(found.search().frame(), Path(out))
    return found


_Searched = tuple[Any, Table, Table]
"""A metric or an adapter, rows to search, and rows to ask about."""


def _with_metric(
    path: Path | None, source: object, queries: object, distance: str | None, columns: Any
) -> _Searched:
    """Read a metric, or make that of a plain distance, and the rows."""
    metric = None if path is None else load_metric(path)
    gallery = read_table(source, metric=metric, keep_unlabelled=True, **columns)
    if metric is None:
        plain_metric = Metric(np.eye(gallery.X.shape[1]), unit_rows=distance == "cosine")
        metric = gallery.described(plain_metric)
    if queries is None:
        return metric, gallery, gallery
    return metric, gallery, read_new(queries, metric, **columns)


def _with_adapter(
    path: Path, source: object, queries: object, *, show: str | None = None, **columns: Any
) -> _Searched:
    """Read an adapter, documents and queries."""
    if queries is None:
        needed = option("queries", "FILE")
        raise ValueError(f"An adapter searches documents for queries; give them with {needed}.")
    sides: dict[Kind, object] = {"document": source, "query": queries}
    tables = []
    for kind, file in sides.items():
        vectors = read_vectors(file, kind, text=show, **columns)
        name = str(file) if isinstance(file, str | PathLike) else kind
        tables.append(
            Table(stem_of(Path(name)), vectors.vectors, ids=vectors.ids, texts=vectors.texts)
        )
    gallery, asked = tables
    return load_model(path), gallery, asked


@dataclass(frozen=True, eq=False)
class Neighbors:
    """What `neighbors` searches; prints as the nearest rows of the first ones.

    Attributes
    ----------
    gallery, asked: Rows to search, and rows to ask about.
    row: Which rows to ask about; empty: all.
    out: The file that has them, if any.
    """

    model: Any
    gallery: Table
    asked: Table
    row: list[str]
    neighbors: int
    cosine: bool = False
    progress: Callable[[int, int, str], None] | None = None
    out: str = ""

    def search(self, most: int | None = None) -> NeighborTable:
        """Find the nearest rows of the rows that are named, or of the first ones."""
        number = self.neighbors
        rows = find_rows(self.asked, self.row, most=most)
        sides = self.model, self.gallery, self.asked
        nearest = nearest_rows(*sides, rows, number, cosine=self.cosine, progress=self.progress)
        if np.isfinite(nearest.cutoff):
            n_answers = np.count_nonzero(nearest.values >= nearest.cutoff, axis=1)
            none, full = (np.count_nonzero(n_answers == each) for each in (0, number))
            of_all = f"of {len(rows)} queries get"
            if none:
                note(f"{none} {of_all} no answer: no score is {nearest.cutoff:.4g} or more.")
            if full:
                wanted = f"{number} answers ({option('neighbors')})"
                note(f"{full} {of_all} {wanted}, and may have more.")
        return nearest

    def to_dict(self) -> list[dict[str, Any]]:
        """Return all of them, for JSON."""
        return self.search().frame().to_dicts()

    def __str__(self) -> str:
        if self.out:
            n_rows = counted(len(find_rows(self.asked, self.row)), "row")
            few = not isinstance(self.model, Metric) and self.model.cutoff_ is not None
            each = f"{'at most ' * few}{self.neighbors} each"
            return f"Neighbours of {n_rows}, {each}, written to {self.out}"
        nearest = self.search(_ROWS_SHOWN)
        if not self.row and len(nearest.rows) < len(self.asked):
            first = f"the first {len(nearest.rows)} of {len(self.asked)} rows"
            note(f"these are {first}; {option('out')} has all.")
        return str(nearest)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_WIDTH else f"{line[: _TEXT_WIDTH - 1]}…"


@dataclass(frozen=True, eq=False)
class NeighborTable:
    """The nearest rows of some rows.

    Attributes
    ----------
    gallery, asked: Rows that were searched, and rows that were asked about.
    rows: shape (n_queries,). Which of `asked` were asked about.
    values: shape (n_queries, n_neighbors). Distances or scores, the nearest first.
    indices: shape (n_queries, n_neighbors). Rows of the gallery.
    measure: What `values` are: "distance" or "score".
    cutoff: Scores below it are no answers, and not in `frame`.
    """

    gallery: Table
    asked: Table
    rows: Ints
    values: Floats
    indices: Ints
    measure: str
    cutoff: float = -np.inf

    def __str__(self) -> str:
        gallery, asked = self.gallery, self.asked
        headings = ["neighbour", self.measure]
        headings += [] if gallery.y is None else ["label"]
        headings += [] if gallery.texts is None else ["text"]
        tables = []
        for row, values, indices in zip(self.rows, self.values, self.indices, strict=True):
            lines = []
            for value, neighbor in zip(values, indices[values >= self.cutoff], strict=False):
                line = [gallery.row_name(neighbor), plain(value)]
                line += [] if gallery.y is None else [str(gallery.y[neighbor])]
                line += [] if gallery.texts is None else [_short(gallery.texts[neighbor])]
                lines.append(line)
            title = f"{asked.name}, row {asked.row_name(row)}"
            title += "" if asked.y is None or asked.y[row] == "" else f", {asked.y[row]}"
            title += "" if asked.texts is None else f": {_short(asked.texts[row])}"
            nothing = [["no answer", *[""] * (len(headings) - 1)]]
            tables.append(f"{title}\n{text_table(headings, lines or nothing)}")
        return "\n".join(tables)

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
    names: Names of rows, or their numbers in the file.
    most: How many of the first rows are wanted if there are no names.
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
    model: Any,
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
    model: A metric gives distances; an adapter gives scores of documents for queries.
    gallery: Rows to search.
    asked: Rows to ask about. If it is the gallery, a row is not its own neighbour.
    rows: Which of `asked` to ask about.
    cosine: Whether the metric compares rows of unit length, and 1 - cosine is wanted.
    progress: Called with the number of rows so far, of all rows, and "rows".
    """
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
            parts.append(model.kneighbors(asked.X[some], gallery.X, n_neighbors))
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
