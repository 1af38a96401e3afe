"""Exact nearest-neighbour search in bounded memory.

A `Gallery` holds the rows that are searched, mapped by each part of a metric; a `Search` finds the
rows nearest to queries. Each query is searched in the space of the part that it uses. `NearestRows`
finds few of many rows by Euclidean distance. Otherwise, tables of distances are sorted.

Euclidean distances in tables come from inner products. Mapped rows are centred first, because
smaller norms lose fewer digits to cancellation. A row of the gallery that is its own query is
excluded by row number, so that it still finds its duplicates.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import euclidean_distances

from nearfar.columns.cells import is_frame
from nearfar.metrics.metric import Metric, triplet_scores
from nearfar.metrics.points import check_rows
from nearfar.numerics.nearest_rows import NearestRows
from nearfar.runtime.progress import check_time
from nearfar.typing import Array, Floats, Ints, Vector

# Distances or neighbours held at a time.
_MAX_ELEMENTS = 1 << 22
# Coordinates of pairs held at a time.
_PAIR_ELEMENTS = 1 << 20
# `NearestRows` is faster than tables if a gallery has this many times the rows that are wanted.
_FEW = 8

# Squares of larger numbers may overflow.
_LARGEST_COORDINATE = 1e150
_NOT_FINITE = "Distances are not finite: values are missing, infinite or too large."


@dataclass(frozen=True)
class Pairwise:
    """A distance between mapped rows.

    Attributes
    ----------
    table: Queries and gallery -> array of shape (n_queries, n_gallery) that orders the
        gallery.
    paired: Two arrays of the same shape -> what orders pairs of their rows.
    euclidean: Whether these are squared Euclidean distances.
    """

    table: Callable[[Floats, Floats], Array]
    paired: Callable[[Floats, Floats], Array]
    euclidean: bool = False


def _paired_squares(X: Floats, Y: Floats) -> Array:
    return ((X - Y) ** 2).sum(axis=1)


def _paired_manhattan(X: Floats, Y: Floats) -> Array:
    return np.abs(X - Y).sum(axis=1)


EUCLIDEAN = Pairwise(partial(euclidean_distances, squared=True), _paired_squares, euclidean=True)
MANHATTAN = Pairwise(partial(cdist, metric="cityblock"), _paired_manhattan)


@dataclass(frozen=True, eq=False)
class Distance:
    """A distance that is not a `Metric`: any pairwise distance after any map.

    Attributes
    ----------
    transform: Maps rows.
    pairwise: Distance between mapped rows.
    """

    transform: Callable[[Any], Any]
    pairwise: Pairwise = EUCLIDEAN

    def spaces(self, queries: ArrayLike) -> Iterator[tuple[Ints, Distance]]:
        """Yield all row numbers and this distance, as `Metric.spaces` does."""
        yield np.arange(np.shape(queries)[0]), self

    def pair_distances(self, X: ArrayLike, index: object) -> Vector:
        """Return what orders pairs of rows of X by distance, smallest for the nearest."""
        mapped = np.asarray(self.transform(X))
        i, j = check_rows(index, 2, len(mapped))
        out = np.empty(len(i))
        block = max(1, _PAIR_ELEMENTS // max(1, mapped.shape[1]))
        for start in range(0, len(i), block):
            some = slice(start, start + block)
            out[some] = self.pairwise.paired(mapped[i[some]], mapped[j[some]])
        return out

    def prefers(self, X: ArrayLike, triplets: ArrayLike) -> Vector:
        """Return 1 for each triplet whose near is nearer than its far, 0 if not, 1/2 for ties."""
        anchor, near, far = np.asarray(triplets).T
        to_far = self.pair_distances(X, np.column_stack([anchor, far]))
        return triplet_scores(to_far - self.pair_distances(X, np.column_stack([anchor, near])))


class Gallery:
    """Rows that can be searched under a metric."""

    def __init__(self, metric: Metric | Distance, X: ArrayLike) -> None:
        self.metric, self.X = metric, _points(metric, X)
        self.pairwise = metric.pairwise if isinstance(metric, Distance) else EUCLIDEAN
        self._spaces: dict[Metric | Distance, _Space] = {}

    def __getstate__(self) -> dict[str, object]:
        return {"metric": self.metric, "X": self.X}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(vars(Gallery(**state)))

    def __len__(self) -> int:
        return int(np.shape(self.X)[0])

    def search(self, queries: ArrayLike | None = None, *, rows: ArrayLike | None = None) -> Search:
        """Search for queries, or for rows of the gallery among its other rows.

        Parameters
        ----------
        queries: shape (n_queries, n_features). By default, rows of the gallery.
        rows: Which rows of the gallery; by default all.
        """
        return Search(self, queries, rows)

    def space(self, part: Metric | Distance) -> _Space:
        """Return the gallery in the space of one part of the metric."""
        if part not in self._spaces:
            self._spaces[part] = _Space(part, self.X, self.pairwise)
        return self._spaces[part]


def _points(metric: Metric | Distance, X: ArrayLike) -> ArrayLike:
    """Return rows that can be indexed: the features of a table, or X itself."""
    return metric.features_of(X) if isinstance(metric, Metric) and is_frame(X) else X


class Search:
    """Queries against a gallery; see `Gallery.search`.

    Attributes
    ----------
    own: For queries that are rows of the gallery, their row numbers: no row finds itself.
    n_candidates: Number of rows that a query can find.
    """

    def __init__(self, gallery: Gallery, queries: ArrayLike | None, rows: ArrayLike | None) -> None:
        if queries is not None and rows is not None:
            raise ValueError("Give either queries or rows, not both.")
        self.gallery = gallery
        self.own: Ints | None = None
        if queries is None:
            self.own = np.arange(len(gallery)) if rows is None else np.asarray(rows, dtype=np.intp)
            queries = gallery.X if rows is None else np.asarray(gallery.X)[self.own]
        self.queries = _points(gallery.metric, queries)
        self.n_queries = int(np.shape(queries)[0])
        self.n_candidates = len(gallery) - (self.own is not None)

    def check_depth(self, k: int, name: str) -> int:
        """Return k, or raise ValueError if a query cannot find k rows."""
        if not 1 <= k <= self.n_candidates:
            rows = "rows" if self.own is None else "rows other than the query"
            raise ValueError(
                f"{name} must be from 1 to {self.n_candidates}, as the gallery has "
                f"{self.n_candidates} {rows}; got {k}."
            )
        return operator.index(k)

    def nearest(self, n_neighbors: int) -> tuple[Vector, Ints]:
        """Find the nearest rows to each query.

        Returns
        -------
        distances, indices : array of shape (n_queries, n_neighbors)
            Nearest first.
        """
        k = self.check_depth(n_neighbors, "n_neighbors")
        distances = np.empty((self.n_queries, k))
        indices = np.empty((self.n_queries, k), dtype=np.intp)
        for part in self._parts():
            for chunk in part.chunks(np.arange(len(part.numbers)), k):
                rows = part.numbers[chunk]
                distances[rows], indices[rows] = part.nearest(chunk, k)
        return distances, indices

    def ranked(self, depth: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Yield chunks of queries and their nearest rows in order, the deepest rankings first.

        Parameters
        ----------
        depth: shape (n_queries,). Number of rows that each query wants. A chunk is as wide as
            its deepest query; queries of depth 0 are left out.
        """
        for part in self._parts():
            wanted = depth[part.numbers]
            order = np.argsort(-wanted, kind="stable")[: np.count_nonzero(wanted)]
            while len(order):
                k = int(wanted[order[0]])
                chunk = next(part.chunks(order, k))
                order = order[len(chunk) :]
                yield part.numbers[chunk], part.nearest(chunk, k)[1]

    def tables(self) -> Iterator[tuple[Ints, Floats]]:
        """Yield chunks of queries and what orders the gallery for them, smallest for the nearest.

        Squared distances for a `Metric`; infinite for the query's own row.
        """
        for part in self._parts():
            for chunk in part.chunks(np.arange(len(part.numbers)), len(self.gallery)):
                yield part.numbers[chunk], part.table(chunk)

    def _parts(self) -> Iterator[_Part]:
        for numbers, part in self.gallery.metric.spaces(self.queries):
            space = self.gallery.space(part)
            every = len(numbers) == self.n_queries
            if self.own is not None:
                own = self.own[numbers]
                same = every and len(own) == len(self.gallery)
                yield _Part(space, numbers, space.rows if same else space.rows[own], own)
            else:
                points = self.queries if every else np.asarray(self.queries)[numbers]
                yield _Part(space, numbers, space.place(points), None)


class _Space:
    """A gallery, mapped by one part of a metric and centred."""

    def __init__(self, part: Metric | Distance, X: ArrayLike, pairwise: Pairwise) -> None:
        self.part, self.pairwise = part, pairwise
        mapped = np.asarray(part.transform(X))
        self.center = mapped.mean(axis=0) if pairwise.euclidean else None
        self.rows = self._centred(mapped)

    @cached_property
    def nearest_rows(self) -> NearestRows:
        return NearestRows(self.rows)

    def place(self, X: ArrayLike) -> Floats:
        """Map and centre other rows."""
        return self._centred(np.asarray(self.part.transform(X)))

    def _centred(self, mapped: Floats) -> Floats:
        points = mapped if self.center is None else mapped - self.center
        # "not <=" instead of ">" because it is true for nan.
        if not float(np.abs(points).max(initial=0.0)) <= _LARGEST_COORDINATE:
            raise ValueError(_NOT_FINITE)
        return points


@dataclass(frozen=True, eq=False)
class _Part:
    """Queries that use one part of a metric."""

    space: _Space
    numbers: Ints
    points: Floats
    own: Ints | None

    def _is_fast(self, k: int) -> bool:
        return self.space.pairwise.euclidean and k * _FEW <= len(self.space.rows)

    def chunks(self, order: Ints, k: int) -> Iterator[Ints]:
        """Cut positions of queries into chunks of bounded memory, checking the deadline."""
        size = max(1, _MAX_ELEMENTS // (k if self._is_fast(k) else len(self.space.rows)))
        for start in range(0, len(order), size):
            check_time()
            yield order[start : start + size]

    def nearest(self, chunk: Ints, k: int) -> tuple[Floats, Ints]:
        """Distances and rows, nearest first."""
        queries, rows = self.points[chunk], self.space.nearest_rows if self._is_fast(k) else None
        if rows is not None and rows.reaches(queries):
            return rows.nearest(queries, k, None if self.own is None else self.own[chunk])
        table = self.table(chunk)
        found = smallest(table, k)
        distances = np.take_along_axis(table, found, axis=1)
        return np.sqrt(distances) if self.space.pairwise.euclidean else distances, found

    def table(self, chunk: Ints) -> Floats:
        """Return what orders the gallery for each query."""
        table = np.asarray(self.space.pairwise.table(self.points[chunk], self.space.rows))
        if not np.isfinite(table).all():
            raise ValueError(_NOT_FINITE)
        if self.own is not None:
            table[np.arange(len(chunk)), self.own[chunk]] = np.inf
        return table


def smallest(table: Floats, k: int) -> Ints:
    """Columns of the k smallest values of each row, in order."""
    if 2 * k > table.shape[1]:
        return np.argsort(table, axis=1)[:, :k]
    found = np.argpartition(table, k - 1, axis=1)[:, :k]
    order = np.argsort(np.take_along_axis(table, found, axis=1), axis=1)
    return np.take_along_axis(found, order, axis=1)
