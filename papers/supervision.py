"""What a method learns from: pairs or triplets, drawn from the labels of the training rows.

A kind is a function of rows, labels and the number of the run. It returns the rows to learn from
and what is known about them. Draws depend on the run alone: methods of a row get the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearfar import Pairs, RandomPairs, RandomTriplets, Triplets
from papers.task import Array

Known = Callable[[Array, Array, int], tuple[Array, Any]]

SHARE_OF_PAIRS = 0.05
SHARE_OF_TRIPLETS = 0.005
"""The subsets S of MetricBoost's tables."""
FEWEST = 2
"""A subset is drawn again if a class has fewer rows."""


def random_pairs(number: int) -> Known:
    """Random pairs, half of them similar."""

    def draw(X: Array, y: Array, run: int) -> tuple[Array, Any]:
        pairs: Pairs = RandomPairs(number)(X, y, np.random.RandomState(run))
        return X, pairs

    return draw


def all_pairs(X: Array, y: Array, _: int) -> tuple[Array, Any]:
    """All pairs of rows."""
    first, second = np.triu_indices(len(y), 1)
    return X, Pairs(np.column_stack([first, second]), y[first] == y[second])


def some_pairs(X: Array, y: Array, run: int) -> tuple[Array, Any]:
    """A random 5 % of all pairs, with at least one of each kind."""
    first, second = np.triu_indices(len(y), 1)
    similar = y[first] == y[second]
    order = np.random.RandomState(run).permutation(len(first))
    number = max(2, round(SHARE_OF_PAIRS * len(first)))
    kept = order[:number]
    for kind in (True, False):
        if not (similar[kept] == kind).any():
            kept = np.append(kept, order[similar[order] == kind][0])
    kept = np.sort(kept)
    return X, Pairs(np.column_stack([first[kept], second[kept]]), similar[kept])


def number_of_triplets(y: Array) -> int:
    """Return how many triplets labels have: anchor, another of its class, one of another class."""
    counts = np.bincount(y)
    return int((counts * (counts - 1) * (len(y) - counts)).sum())


def some_triplets(X: Array, y: Array, run: int) -> tuple[Array, Any]:
    """As many random triplets as 0.5 % of all."""
    number = max(1, round(SHARE_OF_TRIPLETS * number_of_triplets(y)))
    triplets: Triplets = RandomTriplets(number)(X, y, np.random.RandomState(run))
    return X, triplets


def some_rows(X: Array, y: Array, run: int) -> tuple[Array, Any]:
    """Random rows whose triplets are about 0.5 % of all."""
    number = round(len(y) * SHARE_OF_TRIPLETS ** (1 / 3))
    rng = np.random.RandomState(run)
    while True:
        rows = np.sort(rng.permutation(len(y))[:number])
        counts = np.bincount(y[rows], minlength=int(y.max()) + 1)
        if counts.min() >= FEWEST:
            return X[rows], y[rows]


def their_triplets(X: Array, y: Array, run: int) -> tuple[Array, Any]:
    """All triplets of `some_rows`, listed."""
    rows, labels = some_rows(X, y, run)
    same = labels[:, None] == labels
    near = same & ~np.eye(len(labels), dtype=bool)
    found = [
        np.stack(np.meshgrid([i], np.flatnonzero(near[i]), np.flatnonzero(~same[i])), -1)
        for i in range(len(labels))
    ]
    return rows, Triplets(np.concatenate([each.reshape(-1, 3) for each in found]))


KINDS: dict[str, Known] = {
    "200 pairs": random_pairs(200),
    "1000 pairs": random_pairs(1000),
    "2000 pairs": random_pairs(2000),
    "all pairs": all_pairs,
    "5 % of pairs": some_pairs,
    "0.5 % of triplets": some_triplets,
    "rows of T3": some_rows,
    "triplets of T3": their_triplets,
}
