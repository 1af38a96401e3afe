"""Ranked neighbours of many queries, in chunks, with their classes."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors

from nearfar.metrics.metric import Metric
from nearfar.typing import Floats, Ints

_TILE_ELEMENTS = 1 << 23
_SHALLOW = 100


@dataclass(frozen=True, eq=False)
class Space:
    """Embedded gallery, and the queries that are searched for in this space.

    Attributes
    ----------
    rows : array of int
        Numbers of the queries.
    gallery : array of shape (n_gallery, k)
    queries : array of shape (n_rows, k)
    own : bool
        Whether query q is gallery row q and must not find itself.
    """

    rows: Ints
    gallery: Floats
    queries: Floats
    own: bool

    def ranked(self, depth: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Yield chunks (queries, their nearest gallery rows in order), deepest rankings first."""
        index = NearestNeighbors(algorithm="brute").fit(self.gallery)
        order = np.argsort(-depth, kind="stable")[: np.count_nonzero(depth)]
        start = 0
        while start < len(order):
            deepest = int(depth[order[start]])
            # scikit-learn's heaps win while few rows of many are wanted, a partition afterwards.
            shallow = deepest * _SHALLOW < len(self.gallery)
            width = deepest + self.own if shallow else len(self.gallery)
            rows = order[start : start + max(1, _TILE_ELEMENTS // width)]
            start += len(rows)
            if shallow:
                found = index.kneighbors(self.queries[rows], width, return_distance=False)
                found = _without_self(found, self.rows[rows]) if self.own else found
            else:
                found = self._partitioned(rows, deepest)
            yield self.rows[rows], found

    def _partitioned(self, rows: Ints, depth: int) -> Ints:
        tile = euclidean_distances(self.queries[rows], self.gallery, squared=True)
        if self.own:
            tile[np.arange(len(rows)), self.rows[rows]] = np.inf
        if 2 * depth > tile.shape[1]:
            return np.argsort(tile, axis=1)[:, :depth]
        found = np.argpartition(tile, depth - 1, axis=1)[:, :depth]
        order = np.argsort(np.take_along_axis(tile, found, axis=1), axis=1)
        return np.take_along_axis(found, order, axis=1)


@dataclass(frozen=True, eq=False)
class Search:
    """A gallery and queries, in one space or, for a gated metric, in several."""

    spaces: list[Space]
    n_gallery: int
    n_queries: int
    own: bool

    @classmethod
    def of(cls, metric: Metric, X: ArrayLike, X_query: ArrayLike | None) -> Search:
        """Embed the rows, centred."""
        sought = X if X_query is None else X_query
        n_gallery, n_queries = np.shape(X)[0], np.shape(sought)[0]
        if n_gallery == 0 or n_queries == 0:
            raise ValueError(f"Got {n_queries} queries against a gallery of {n_gallery} rows.")
        spaces = []
        for rows, space in metric.spaces(sought):
            gallery = space.transform(X)
            queries = gallery if X_query is None else space.transform(sought)
            # Distances come from inner products below: the smaller the norms, the less cancels.
            center = gallery.mean(axis=0)
            everyone = len(rows) == n_queries
            queries = (queries if everyone else queries[rows]) - center
            gallery = np.ascontiguousarray(gallery - center)
            spaces.append(Space(rows, gallery, queries, own=X_query is None))
        return cls(spaces, n_gallery, n_queries, own=X_query is None)

    @property
    def n_candidates(self) -> int:
        """Number of rows that a query can find."""
        return self.n_gallery - self.own

    def ranked(self, depth: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Yield chunks (queries, their nearest gallery rows in order).

        A chunk is as deep as its deepest query; queries of depth 0 are passed over.
        """
        for space in self.spaces:
            yield from space.ranked(depth[space.rows])


def others(found: Ints, rows: Ints) -> NDArray[np.bool_]:
    """Mask all but each query's own row; the last one where duplicates have crowded it out."""
    keep: NDArray[np.bool_] = found != rows[:, None]
    keep[keep.all(axis=1), -1] = False
    return keep


def _without_self(found: Ints, rows: Ints) -> Ints:
    return found[others(found, rows)].reshape(len(rows), -1)


@dataclass(frozen=True, eq=False)
class Labels:
    """Class codes of gallery and queries, and the number of rows relevant to each query."""

    y: Ints
    y_query: Ints
    relevant: Ints

    def hits(self, rows: Ints, found: Ints) -> NDArray[np.bool_]:
        """Tell which of the rows found have their query's class."""
        same: NDArray[np.bool_] = self.y[found] == self.y_query[rows, None]
        return same


def labelled(
    metric: Metric,
    X: ArrayLike,
    y: ArrayLike,
    X_query: ArrayLike | None,
    y_query: ArrayLike | None,
) -> tuple[Search, Labels]:
    """Pose a search with classes; without queries every row is one."""
    if (X_query is None) != (y_query is None):
        raise ValueError("Queries need both their rows and their classes; got only one of them.")
    search = Search.of(metric, X, X_query)
    classes = _label_array(y, search.n_gallery, "gallery")
    if y_query is None:
        _, codes = np.unique(classes, return_inverse=True)
        return search, Labels(codes, codes, np.bincount(codes)[codes] - 1)
    query_classes = _label_array(y_query, search.n_queries, "query")
    _, codes = np.unique(np.concatenate([classes, query_classes]), return_inverse=True)
    codes, query_codes = np.split(codes, [len(classes)])
    sizes = np.bincount(codes, minlength=query_codes.max(initial=0) + 1)
    return search, Labels(codes, query_codes, sizes[query_codes])


def _label_array(y: ArrayLike, n_rows: int, name: str) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise ValueError(f"The {n_rows} {name} rows need one class each; got shape {labels.shape}.")
    return labels


def check_depth(k: int, search: Search, name: str) -> int:
    """Return k, or raise ValueError if so many rows cannot be found."""
    size = search.n_candidates
    if not 1 <= k <= size:
        of = "rows other than the query" if search.own else "rows"
        raise ValueError(
            f"{name} must be from 1 to {size}, as the gallery has {size} {of}; got {k}."
        )
    return operator.index(k)
