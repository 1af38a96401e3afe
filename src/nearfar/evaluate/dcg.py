"""Discounted cumulative gain: what results count at their ranks."""

from __future__ import annotations

import numpy as np

from nearfar.typing import Ints, Vector


def discounts(depth: int) -> Vector:
    """Return what a gain counts at each rank: 1 / log2(rank + 1).

    Examples
    --------
    >>> from nearfar.evaluate.dcg import discounts
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
    >>> from nearfar.evaluate.dcg import discounts, ideal_dcg
    >>> ideal_dcg(np.array([0, 0, 2]), np.array([1.0, 3.0, 2.0]), 3, discounts(1))
    array([3., 0., 2.])
    """
    first = np.searchsorted(query, np.arange(n_queries))
    rank = np.arange(len(query)) - first[query]
    best_first = gain[np.lexsort((-gain, query))]
    top = rank < len(discount)
    weights = best_first[top] * discount[rank[top]]
    return np.bincount(query[top], weights=weights, minlength=n_queries).astype(np.float64)
