"""Approximate neighbours of the same and of other classes, with an index of faiss.

The index (IVF) divides the rows into cells by k-means, and looks at the cells nearest to a row.
Rows are numbered in class order, so that a class is a range of numbers: targets are searched for
inside the range, impostors outside. How many cells to look at is doubled until a sample of rows
finds enough of its exact neighbours; another sample measures the recall. The index keeps a float32
copy of the rows and 8 bytes for each of them.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.constraints.anchor_mining import anchor_neighbors
from nearfar.numerics.edges import squared_distances
from nearfar.numerics.sorted_rows import ClassOrder
from nearfar.runtime.progress import counted, stage
from nearfar.runtime.threads import Threads
from nearfar.typing import Floats, Ints

RECALL = 0.95
"""Share of exact neighbours that a sample of rows must find."""

# Rows that recalls are measured on: their standard error is then below 2 points.
_SAMPLE = 256
# Cells that are looked at first; a search is then doubled, so that it should start low.
_FIRST_PROBES = 4
# Cells for each root of the number of rows: a search looks at about as many cells as rows in one.
_CELLS_PER_ROOT = 2
# Rows that k-means sees for each cell: more make it slower.
_TRAINING_ROWS_PER_CELL = 64
# Rows that are searched for at once: enough for all threads, and few enough to be interrupted.
_QUERIES = 1 << 9
# The index has float32 distances; a neighbour at the same distance is as good.
_FLOAT32_TOLERANCE = 1e-5


def has_faiss() -> bool:
    """Return whether faiss is installed."""
    return importlib.util.find_spec("faiss") is not None


@dataclass(frozen=True, eq=False)
class ApproximateNeighbors:
    """Neighbours, and how good they are.

    Attributes
    ----------
    targets : array of shape (n_samples, n_targets)
        Row numbers, nearest first; -1 where none was found.
    impostors : array of shape (n_samples, n_impostors)
    target_recall, impostor_recall : float
        Share of the exact ones that were found, for `n_measured` rows.
    n_measured : int
    """

    targets: Ints
    impostors: Ints
    target_recall: float
    impostor_recall: float
    n_measured: int


def approximate_neighbors(
    X: Floats,
    y: NDArray[np.integer],
    n_targets: int,
    n_impostors: int,
    random_state: np.random.RandomState,
) -> ApproximateNeighbors:
    """Find the nearest rows of the same and of other classes for all rows, or most of them.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    y : array of shape (n_samples,)
        Class codes.
    n_targets, n_impostors : int
        How many of each to find.
    random_state : RandomState
        Draws the samples, and the seed of k-means.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.constraints.approximate_mining import approximate_neighbors
    >>> rng = np.random.RandomState(0)
    >>> X, y = rng.standard_normal((500, 2)), np.arange(500) % 2
    >>> found = approximate_neighbors(X, y, 3, 3, rng)
    >>> found.targets.shape, found.target_recall > 0.9
    ((500, 3), True)
    """
    index = _Index(X, np.unique(y, return_inverse=True)[1], random_state.randint(1 << 30))
    tried, measured = np.array_split(random_state.permutation(len(X))[: 2 * _SAMPLE], 2)
    sample = np.concatenate([tried, measured])
    exact = anchor_neighbors(X, y, sample, n_targets, n_impostors)
    neighbors, recalls = [], []
    with _threads():
        for wanted, same in zip(exact, (True, False), strict=True):
            k, probes = wanted.shape[1], _FIRST_PROBES
            # As many cells as a sample needs; another sample measures the recall.
            with stage("choosing how many cells to look at"):
                while probes < index.n_cells:
                    found = index.search(tried, k, same=same, probes=probes)
                    if _recall(X, tried, found, wanted[: len(tried)]) >= RECALL:
                        break
                    probes *= 2
            with stage("targets" if same else "impostors"):
                found = index.search(np.arange(len(X)), k, same=same, probes=probes)
            neighbors.append(found)
            recalls.append(_recall(X, measured, found[measured], wanted[len(tried) :]))
    (targets, impostors), (target_recall, impostor_recall) = neighbors, recalls
    return ApproximateNeighbors(targets, impostors, target_recall, impostor_recall, len(measured))


class _Index(ClassOrder):
    """An index of rows in class order.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    y : array of shape (n_samples,)
        Class codes from 0.
    seed : int
        Seed of k-means.
    """

    def __init__(self, X: Floats, y: Ints, seed: int) -> None:
        super().__init__(y)
        self.X, self.center, self.seed = X, X.mean(axis=0, dtype=np.float64), int(seed)
        self.place = np.empty(self.n, dtype=np.intp)
        self.place[self.order] = np.arange(self.n)
        self.n_cells = max(1, min(self.n // 8, int(_CELLS_PER_ROOT * np.sqrt(self.n))))

    @cached_property
    def _index(self) -> Any:
        faiss, n_features = _faiss(), self.X.shape[1]
        self._coarse = faiss.IndexFlatL2(n_features)
        index = faiss.IndexIVFFlat(self._coarse, n_features, self.n_cells)
        index.cp.seed = self.seed
        index.cp.min_points_per_centroid = 1
        index.cp.max_points_per_centroid = _TRAINING_ROWS_PER_CELL
        with _threads(), stage("making an index"):
            most = self.n_cells * _TRAINING_ROWS_PER_CELL
            index.train(self._points(np.arange(0, self.n, max(1, self.n // most))))
            for top in range(0, self.n, 1 << 16):
                index.add(self._points(np.arange(top, min(top + (1 << 16), self.n))))
        return index

    def search(self, rows: Ints, k: int, *, same: bool, probes: int) -> Ints:
        """Return the nearest rows of the same or of other classes, -1 where none was found."""
        faiss = _faiss()
        found = np.full((len(rows), k), -1, dtype=np.intp)
        place = self.place[rows]
        order = np.argsort(place, kind="stable")
        ends = np.searchsorted(place[order], self.edges)
        labels = np.flatnonzero(np.diff(ends))
        for label in counted(labels, len(labels)):
            members = order[ends[label] : ends[label + 1]]
            inside = faiss.IDSelectorRange(int(self.edges[label]), int(self.edges[label + 1]))
            selector = inside if same else faiss.IDSelectorNot(inside)
            options = faiss.SearchParametersIVF(sel=selector, nprobe=min(probes, self.n_cells))
            for top in counted(range(0, len(members), _QUERIES), -(-len(members) // _QUERIES)):
                some = members[top : top + _QUERIES]
                points = self._points(place[some])
                near = self._index.search(points, k + same, params=options)[1]
                if same:
                    # Drop each row from its own neighbours, or the last if it is not among them.
                    is_own = near == place[some, None]
                    is_own[~is_own.any(axis=1), -1] = True
                    near = near[~is_own].reshape(len(near), -1)
                found[some] = np.where(near >= 0, self.order[near], -1)
        return found

    def _points(self, place: Ints) -> NDArray[np.float32]:
        """Return centred rows by their place in class order."""
        return np.ascontiguousarray(self.X[self.order[place]] - self.center, dtype=np.float32)


def _recall(X: Floats, rows: Ints, found: Ints, exact: Ints) -> float:
    """Return the share of exact neighbours that were found, or others at their distance."""
    if not (exact >= 0).any():
        return 1.0
    k = exact.shape[1]
    anchor = np.repeat(rows, k)

    def distances(neighbors: Ints) -> Floats:
        distance = squared_distances(X, anchor, np.maximum(neighbors.ravel(), 0))
        return np.where(neighbors >= 0, distance.reshape(neighbors.shape), np.inf)

    wanted = np.where(exact >= 0, distances(exact), -1.0)
    farthest = wanted.max(axis=1, keepdims=True)
    hits = (distances(found) <= farthest * (1 + _FLOAT32_TOLERANCE)).sum(axis=1)
    return float(np.minimum(hits, (exact >= 0).sum(axis=1)).sum() / (exact >= 0).sum())


def _faiss() -> Any:
    """Import faiss; the types that it declares lack keywords of its own functions."""
    return importlib.import_module("faiss")


@contextmanager
def _threads() -> Iterator[None]:
    """Let faiss use as many threads as the fit may."""
    faiss = _faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(Threads().n_threads)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
