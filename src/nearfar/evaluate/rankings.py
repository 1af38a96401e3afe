"""Scores of rankings, one for each query; every measure of neighbours uses these."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from nearfar.typing import Floats, Ints, Vector


def average_precision(hits: NDArray[np.bool_], relevant: Ints) -> Vector:
    """Return the sum of the precisions at the ranks of hits, divided by the relevant rows.

    Parameters
    ----------
    hits : array of bool of shape (n_queries, depth)
        Whether each row of a ranking, nearest first, is relevant.
    relevant : array of int of shape (n_queries,)
        Number of relevant rows of each query, at least 1; some may not be in the ranking.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.evaluate.rankings import average_precision
    >>> average_precision(np.array([[True, False, False, True]]), np.array([2]))
    array([0.75])
    """
    precision = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
    return np.asarray(np.sum(precision, axis=1, where=hits) / relevant)


def average_precision_at_r(hits: NDArray[np.bool_], relevant: Ints) -> Vector:
    """Average precision of the first R rows of each ranking; its mean is MAP@R.

    Parameters
    ----------
    hits : array of bool of shape (n_queries, depth)
        Whether each row of a ranking, nearest first, is relevant; depth is at least R.
    relevant : array of int of shape (n_queries,)
        R of each query, at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.evaluate import average_precision_at_r
    >>> average_precision_at_r(np.array([[True, False, True]]), np.array([2]))
    array([0.5])
    """
    rank = np.arange(1, hits.shape[1] + 1)
    return average_precision(hits & (rank <= relevant[:, None]), relevant)


def triplet_shares(table: Floats, relevant: NDArray[np.bool_], order: Ints) -> Vector:
    """Return the share of each query's triplets in the right order, where a tie counts half.

    Parameters
    ----------
    table : array of shape (n_queries, n_gallery)
        What orders the gallery, smallest first.
    relevant : array of bool of shape (n_queries, n_gallery)
        Some rows of a query are relevant, and some are not.
    order : array of int of shape (n_queries, n_gallery)
        The gallery, nearest first.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.evaluate.rankings import triplet_shares
    >>> table, relevant = np.array([[2.0, 1.0, 2.0]]), np.array([[True, False, False]])
    >>> triplet_shares(table, relevant, np.argsort(table))
    array([0.25])
    """
    n_near = relevant.sum(axis=1)
    n_far = relevant.shape[1] - n_near
    hits = np.take_along_axis(relevant, order, axis=1)
    ordered = np.take_along_axis(table, order, axis=1)
    right = np.sum(np.cumsum(hits, axis=1), axis=1, where=~hits) / (n_near * n_far)
    tied = ((ordered[:, 1:] == ordered[:, :-1]) & (hits[:, 1:] != hits[:, :-1])).any(axis=1)
    if tied.any():
        # Ranks are slower than counts, and ties of rows that differ in relevance are rare.
        far = n_far[tied]
        ranks = np.sum(rankdata(table[tied], axis=1), axis=1, where=~relevant[tied])
        right[tied] = (ranks - far * (far + 1) / 2) / (far * n_near[tied])
    return np.asarray(right)


def discounts(depth: int) -> Vector:
    """Return what a gain counts at each rank: 1 / log2(rank + 1).

    Examples
    --------
    >>> from nearfar.evaluate.rankings import discounts
    >>> discounts(3).round(2)
    array([1.  , 0.63, 0.5 ])
    """
    return np.asarray(1.0 / np.log2(np.arange(2, depth + 2)))


def ideal_dcg(query: Ints, gain: Vector, n_queries: int, discount: Vector) -> Vector:
    """Return the largest discounted cumulative gain of each query.

    Parameters
    ----------
    query : array of int of shape (n,)
        Numbers of queries in ascending order.
    gain : array of shape (n,)
        Gains of their relevant rows.
    n_queries : int
    discount : array of shape (depth,)

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.evaluate.rankings import discounts, ideal_dcg
    >>> ideal_dcg(np.array([0, 0, 2]), np.array([1.0, 3.0, 2.0]), 3, discounts(1))
    array([3., 0., 2.])
    """
    first = np.searchsorted(query, np.arange(n_queries))
    rank = np.arange(len(query)) - first[query]
    best_first = gain[np.lexsort((-gain, query))]
    top = rank < len(discount)
    weights = best_first[top] * discount[rank[top]]
    return np.bincount(query[top], weights=weights, minlength=n_queries).astype(np.float64)
