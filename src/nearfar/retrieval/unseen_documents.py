"""Which held-out queries ask for documents that a fit has seen, and folds where none do.

A document that was relevant to a query which an adapter learned from is *seen*: the adapter may
have learned where this one document is, and other queries for it gain far more than queries for
documents that nobody asked for. With few of these among the held-out queries, `unseen_folds` hold
out queries together with all others for the same documents.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nearfar.retrieval.relevance import Relevance
from nearfar.typing import Bools, Ints

ENOUGH_UNSEEN = 100
"""Held-out queries for unseen documents: the standard error of their gain is then about 0.03."""

Split = tuple[Ints, Ints]
"""Queries that are learned from, and queries that are held out."""


def few_unseen(seen: Bools) -> bool:
    """Tell whether other folds are needed to judge searches for unseen documents."""
    return bool(np.count_nonzero(~seen) < min(ENOUGH_UNSEEN, len(seen) / 2))


def unseen_folds(
    relevance: Relevance,
    n_folds: int,
    random_state: np.random.RandomState,
    *,
    enough: float = np.inf,
    groups: Ints | None = None,
) -> list[Split]:
    """Return folds in which held-out queries share no relevant document with those learned from.

    Queries that share documents are in the same fold where that is possible; where they are too
    many, those in other folds are left out. A fold that leaves less than half of the other queries
    to learn from says nothing about a fit to all of them and is dropped.

    Parameters
    ----------
    relevance : Relevance
    n_folds : int
    random_state : RandomState
    enough : float, optional
        Number of held-out queries from which no further folds are needed.
    groups : array of shape (n_queries,), optional
        Groups of the judged queries that also must not be on both sides.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Relevance
    >>> from nearfar.retrieval.unseen_documents import unseen_folds
    >>> relevance = Relevance([0, 1, 2, 3], [5, 5, 6, 6])
    >>> folds = unseen_folds(relevance, 2, np.random.RandomState(0))
    >>> [sorted(part.tolist() for part in fold) for fold in folds]
    [[[0, 1], [2, 3]], [[0, 1], [2, 3]]]
    """
    queries, component = relevance.queries, document_groups(relevance)
    groups = np.arange(len(queries)) if groups is None else groups
    order = np.argsort(random_state.permutation(component.max() + 1)[component], kind="stable")
    folds: list[Split] = []
    for part in np.array_split(order, min(n_folds, len(queries))):
        held_out = np.zeros(len(queries), dtype=bool)
        held_out[part] = True
        known = relevance.sharing(queries, queries[held_out]) | np.isin(groups, groups[held_out])
        if 2 * np.count_nonzero(~known) >= np.count_nonzero(~held_out) > 0:
            folds.append((queries[~known], queries[held_out]))
        if sum(len(test) for _, test in folds) >= enough:
            break
    return folds


def held_out_groups(relevance: Relevance, folds: list[Split]) -> Ints:
    """Number the groups of the queries that folds hold out, one fold after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Relevance
    >>> from nearfar.retrieval.unseen_documents import held_out_groups
    >>> folds = [(np.array([2, 3]), np.array([0, 1])), (np.array([0, 1]), np.array([2, 3]))]
    >>> held_out_groups(Relevance([0, 1, 2, 3], [5, 5, 6, 7]), folds)
    array([0, 0, 2, 3])
    """
    starts = np.cumsum([0, *(len(test) for _, test in folds)])
    numbers = [document_groups(relevance.subset(test)) for _, test in folds]
    parts = [start + each for start, each in zip(starts, numbers, strict=False)]
    return np.concatenate([np.empty(0, dtype=np.intp), *parts])


def document_groups(relevance: Relevance) -> Ints:
    """Number the groups of judged queries that share relevant documents.

    Examples
    --------
    >>> from nearfar import Relevance
    >>> from nearfar.retrieval.unseen_documents import document_groups
    >>> document_groups(Relevance([0, 1, 1, 2], [5, 5, 6, 7]))
    array([0, 0, 1], dtype=int32)
    """
    query = np.searchsorted(relevance.queries, relevance.query[relevance.relevant])
    document = relevance.document[relevance.relevant]
    shape = (len(relevance.queries), int(document.max()) + 1)
    graph = sparse.csr_array((np.ones(len(query)), (query, document)), shape=shape)
    return np.asarray(connected_components(graph @ graph.T, directed=False)[1])


def document_weights(relevance: Relevance) -> Any:
    """Return 1 / sqrt(number of its relevant documents) for each document and judged query.

    Sums of products over documents are the correlations of queries in `retrieval.cutoff`.

    Examples
    --------
    >>> from nearfar import Relevance
    >>> from nearfar.retrieval.unseen_documents import document_weights
    >>> weights = document_weights(Relevance([0, 1, 2, 2], [0, 0, 0, 1])).toarray()
    >>> (weights.T @ weights).round(2)
    array([[1.  , 1.  , 0.71],
           [1.  , 1.  , 0.71],
           [0.71, 0.71, 1.  ]])
    """
    query = np.searchsorted(relevance.queries, relevance.query[relevance.relevant])
    weight = 1 / np.sqrt(np.bincount(query))[query]
    return sparse.csr_array((weight, (relevance.document[relevance.relevant], query)))
