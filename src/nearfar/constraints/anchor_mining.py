"""Exact neighbours of some rows, the anchors, among all rows, in one pass over blocks of rows.

The pass works for arrays and for rows that are not in memory. Each block gives the best candidates
of every anchor; those of two blocks are merged. Bounds and ties are those of `mining`, so that the
result is that of `class_neighbors` for the anchors. A sample of rows gives each anchor a limit, and
only rows that may be nearer are compared by explicit differences. Memory is that of the anchors, of
one block and of one tile for each thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from nearfar.numerics.edges import squared_distances
from nearfar.numerics.sorted_rows import (
    UNIT_ROUNDOFF,
    best_of_each,
    sparse_nonzero,
    tie_tolerance,
)
from nearfar.rows import Moments, Points, Rows
from nearfar.rows.base import cut
from nearfar.runtime.progress import counted
from nearfar.runtime.threads import ThreadExecutor
from nearfar.typing import Floats, Ints, Vector

# Memory of the anchors of a band; a larger band passes over the rows less often.
_BAND_BYTES = 1 << 26
# Memory of the rows of a task on threads; there should be enough tasks to share out.
_BLOCK_BYTES = 1 << 22
# Rows that give each anchor its only limit: more make it tighter, and take longer.
_SAMPLED_ROWS = 4096
# A tile as in `mining`: it should stay in the cache.
_TILE_ROWS = 512
_TILE_COLUMNS = 4096
# Candidates that are kept before they are ranked; this bounds memory.
_MAX_CANDIDATES = 1 << 19
_NO_LIMIT = np.finfo(np.float32).max

Float32s = NDArray[np.float32]


def anchor_neighbors(
    X: Points, y: NDArray[np.integer], anchors: Ints, n_targets: int, n_impostors: int
) -> tuple[Ints, Ints]:
    """Find the nearest rows of the same and of other classes for some rows.

    Parameters
    ----------
    X : array or Rows of shape (n_samples, n_features)
    y : array of shape (n_samples,)
        Class codes.
    anchors : array of int of shape (n_anchors,)
        Row numbers.
    n_targets, n_impostors : int
        How many of each to find.

    Returns
    -------
    targets : array of shape (n_anchors, n_targets)
        Row numbers, nearest first; -1 where the class has too few members.
    impostors : array of shape (n_anchors, n_impostors)
        Row numbers, nearest first; -1 where the other classes have too few members.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.constraints.anchor_mining import anchor_neighbors
    >>> X = np.array([[0.0], [1.0], [3.0], [4.0]])
    >>> anchor_neighbors(X, np.array([0, 0, 1, 1]), np.array([2]), 1, 1)
    (array([[3]]), array([[1]]))
    """
    codes = np.unique(y, return_inverse=True)[1].astype(np.int32)
    targets = np.full((len(anchors), n_targets), -1, dtype=np.intp)
    impostors = np.full((len(anchors), n_impostors), -1, dtype=np.intp)
    space = _Space.of(X)
    sample = np.arange(0, len(X), max(1, len(X) // _SAMPLED_ROWS))
    block = _Block(space, X[sample], codes[sample], sample)
    height = max(1, _BAND_BYTES // (16 * X.shape[1]))
    for band in counted(cut(0, len(anchors), height), -(-len(anchors) // height)):
        order = np.argsort(codes[anchors[band]], kind="stable")
        numbers = anchors[band][order]
        asked = _Anchors(space, X[numbers], codes[numbers], numbers, (n_targets, n_impostors))
        asked.bound(block)
        same, other = _search(X, codes, asked)
        same.fill(targets[band], order)
        other.fill(impostors[band], order)
    return targets, impostors


@dataclass(frozen=True, eq=False)
class _Space:
    """Units in which squares fit into float32, and the error of products in them.

    Attributes
    ----------
    center : array of shape (n_features,)
    shrink : float
    slack : float
        Bound of the relative error of a product.
    tolerance : float
        Relative difference below which squared distances are tied.
    """

    center: Vector
    shrink: float
    slack: float
    tolerance: float

    @classmethod
    def of(cls, X: Points) -> _Space:
        if isinstance(X, Rows):
            moments = Moments.of(X)
            center, smallest, largest = moments.mean, moments.smallest, moments.largest
        else:
            center = X.mean(axis=0, dtype=np.float64)
            smallest, largest = X.min(axis=0), X.max(axis=0)
        reach = max(float(np.max(largest - center)), float(np.max(center - smallest)))
        slack = (X.shape[1] + 8) * UNIT_ROUNDOFF
        return cls(center, 1.0 / reach if reach > 0 else 1.0, slack, tie_tolerance(X.dtype))

    def factor(self, X: Floats) -> tuple[Float32s, Vector]:
        """Return the rows with a last column for their norms, and these norms."""
        moved = (X - self.center) * self.shrink
        norms = np.einsum("ij,ij->i", moved, moved)
        points = np.empty((len(X), X.shape[1] + 1), dtype=np.float32)
        points[:, :-1] = moved
        points[:, -1] = (1 - 2 * self.slack) * norms
        return points, norms


class _Block:
    """Consecutive or sampled rows, in class order.

    Parameters
    ----------
    space : _Space
    X : array of shape (n_rows, n_features)
    codes, numbers : array of int of shape (n_rows,)
        Classes and row numbers.
    """

    def __init__(self, space: _Space, X: Floats, codes: Ints, numbers: Ints) -> None:
        order = np.argsort(codes, kind="stable")
        self.X, self.codes, self.numbers = X[order], codes[order], numbers[order]
        self.points, self.norms = space.factor(self.X)


class _Anchors:
    """Anchors in class order, and how far their neighbours can be.

    Parameters
    ----------
    space : _Space
    X : array of shape (n_anchors, n_features)
    codes, numbers : array of int of shape (n_anchors,)
        Classes, in ascending order, and row numbers.
    counts : tuple of int
        How many targets and impostors to find.
    """

    def __init__(
        self, space: _Space, X: Floats, codes: Ints, numbers: Ints, counts: tuple[int, int]
    ) -> None:
        self.space, self.X, self.codes, self.numbers = space, X, codes, numbers
        self.counts = counts
        self.left, self.norms = space.factor(X)
        self.left *= np.float32(-2)
        self.left[:, -1] = 1
        self.limits = [np.full((len(X), 1), _NO_LIMIT) for _ in counts]

    def bound(self, sample: _Block) -> None:
        """Set limits: the k-th smallest upper bound over sampled rows, in the units of G."""
        slack = self.space.slack
        for part in cut(0, len(self.X), _TILE_ROWS):
            G = (self.left[part] @ sample.points.T).astype(np.float64)
            G += 4 * slack * np.add.outer(self.norms[part], sample.norms)
            own = (1 - 2 * slack) * self.norms[part, None]
            together = self.codes[part, None] == sample.codes
            another = self.numbers[part, None] != sample.numbers
            for k, limit, fits in zip(
                self.counts, self.limits, (together & another, ~together), strict=True
            ):
                if 0 < k <= G.shape[1]:
                    upper = np.partition(np.where(fits, G, np.inf), k - 1, axis=1)[:, k - 1, None]
                    # Ties are kept, and rounding to float32 must not lower the limit.
                    upper += 2 * self.space.tolerance * (upper + own) + 1e-30
                    above = np.nextafter(upper.astype(np.float32), np.float32(np.inf))
                    limit[part] = np.minimum(above, _NO_LIMIT)

    def among(self, block: _Block) -> tuple[_Best, _Best]:
        """Return the best targets and impostors in a block."""
        same, other = (_Collected(self, k) for k in self.counts)
        for rows in cut(0, len(self.X), _TILE_ROWS):
            for columns in cut(0, len(block.X), _TILE_COLUMNS):
                G = self.left[rows] @ block.points[columns].T
                codes, others = self.codes[rows], block.codes[columns]
                for code in np.intersect1d(codes, others):
                    # Both are in class order, so that a class is a run.
                    r = slice(*np.searchsorted(codes, [code, code + 1]).tolist())
                    c = slice(*np.searchsorted(others, [code, code + 1]).tolist())
                    hits = sparse_nonzero(self.limits[0][rows][r] >= G[r, c])
                    same.add(block, hits, (rows.start + r.start, columns.start + c.start))
                    G[r, c] = np.inf
                hits = sparse_nonzero(self.limits[1][rows] >= G)
                other.add(block, hits, (rows.start, columns.start))
        return same.best(), other.best()


class _Collected:
    """Candidates of anchors, which are reduced to the best whenever there are many.

    Parameters
    ----------
    asked : _Anchors
    k : int
        How many each anchor needs.
    """

    def __init__(self, asked: _Anchors, k: int) -> None:
        nobody = np.empty(0, dtype=np.intp)
        self.asked, self.most = asked, max(_MAX_CANDIDATES, 4 * k * len(asked.X))
        self.lists = [_Best(k, asked.space.tolerance, nobody, nobody, np.empty(0))]
        self.count = 0

    def add(self, block: _Block, hits: tuple[Ints, Ints], corner: tuple[int, int]) -> None:
        """Add the entries of a tile, with their distances."""
        k, tolerance = self.lists[0].k, self.lists[0].tolerance
        if k == 0:
            return
        i, j = hits[0] + corner[0], hits[1] + corner[1]
        another = self.asked.numbers[i] != block.numbers[j]
        i, j = i[another], j[another]
        distance = squared_distances(self.asked.X, i, j, Y=block.X)
        self.lists.append(_Best(k, tolerance, i, block.numbers[j], distance))
        self.count += len(i)
        if self.count > self.most:
            self.lists = [self.best()]
            self.count = len(self.lists[0].anchor)

    def best(self) -> _Best:
        """Return the best candidates."""
        return _Best.of_all(self.lists)


@dataclass(frozen=True, eq=False)
class _Best:
    """The best candidates so far, as a list.

    Attributes
    ----------
    k : int
        How many each anchor needs.
    tolerance : float
    anchor, row : array of int of shape (n_candidates,)
        Position of the anchor, and row number.
    distance : array of shape (n_candidates,)
    """

    k: int
    tolerance: float
    anchor: Ints
    row: Ints
    distance: Vector

    @classmethod
    def of_all(cls, lists: Sequence[_Best]) -> _Best:
        """Return the best of several lists."""
        k, tolerance = lists[0].k, lists[0].tolerance
        anchor, row, distance = (
            np.concatenate([getattr(each, name) for each in lists])
            for name in ("anchor", "row", "distance")
        )
        kept, _ = best_of_each(anchor, row, distance, k, tolerance)
        return cls(k, tolerance, anchor[kept], row[kept], distance[kept])

    def fill(self, table: Ints, order: Ints) -> None:
        """Write row numbers into the rows of a table that anchors came from."""
        kept, rank = best_of_each(self.anchor, self.row, self.distance, self.k, self.tolerance)
        table[order[self.anchor[kept]], rank] = self.row[kept]


def _search(X: Points, codes: Ints, asked: _Anchors) -> tuple[_Best, _Best]:
    """Pass over all rows."""
    numbers = np.arange(len(X), dtype=np.int32 if len(X) < 2**31 else np.int64)
    if isinstance(X, Rows):
        held = X.executor.hold(asked)
        found: tuple[_Best, _Best] = X.reduce(
            _of_block, held, along=(codes, numbers), combine=_merged
        )
        return found
    size = max(1, _BLOCK_BYTES // (X.shape[1] * X.dtype.itemsize))
    tasks = [(X[part], codes[part], numbers[part], asked) for part in cut(0, len(X), size)]
    best = ThreadExecutor().map(_of_block, tasks, memory=4 * _BLOCK_BYTES)
    return reduce(_merged, counted(best, len(tasks)))


def _of_block(X: Floats, codes: Ints, numbers: Ints, asked: _Anchors) -> tuple[_Best, _Best]:
    return asked.among(_Block(asked.space, X, codes, numbers))


def _merged(left: tuple[_Best, _Best], right: tuple[_Best, _Best]) -> tuple[_Best, _Best]:
    first, second = (_Best.of_all(both) for both in zip(left, right, strict=True))
    return first, second
