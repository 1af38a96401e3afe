"""Exact search by inner product, in blocks of queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from nearfar.runtime.deadline import check_time
from nearfar.runtime.threads import Threads
from nearfar.typing import Floats, Ints

# Scores that a thread holds at a time, 8 MB: it bounds the memory.
_MAX_ELEMENTS = 1 << 20


@dataclass(frozen=True, eq=False)
class Ranking:
    """The best documents of some queries.

    Attributes
    ----------
    queries : array of int of shape (n_queries,)
        Row numbers of Q.
    documents : array of int of shape (n_queries, depth)
        Row numbers of X, best first.
    scores : array of shape (n_queries, depth)

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.retrieval import search
    >>> ranking = search(np.eye(2), np.array([[1.0, 0.5], [0.0, 1.0]]), depth=1)
    >>> ranking.documents[:, 0]
    array([0, 1])
    """

    queries: Ints
    documents: Ints
    scores: Floats

    def __len__(self) -> int:
        return len(self.queries)

    def take(self, rows: Ints) -> Ranking:
        """Return some of the queries, by their places."""
        return Ranking(self.queries[rows], self.documents[rows], self.scores[rows])


def search(Q: Floats, X: Floats, depth: int, *, queries: ArrayLike | None = None) -> Ranking:
    """Find the documents with the largest inner products.

    Documents with equal scores are ranked by row number.

    Parameters
    ----------
    Q : array of shape (n_queries, n_features)
    X : array of shape (n_documents, n_features)
    depth : int
        Number of documents to find.
    queries : array-like of int, optional
        Row numbers of the queries to search for; by default all.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.retrieval.ranking import search
    >>> search(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [2.0, 1.0], [2.0, 0.0]]), 2).documents
    array([[1, 2]])
    """
    if not 1 <= depth <= len(X):
        raise ValueError(f"Between 1 and {len(X)} documents can be found; got {depth}.")
    rows = np.arange(len(Q)) if queries is None else np.asarray(queries, dtype=np.intp)
    documents = np.empty((len(rows), depth), dtype=np.intp)
    scores = np.empty((len(rows), depth), dtype=np.result_type(Q, X))

    def rank(some: slice) -> None:
        table = Q[rows[some]] @ X.T
        if not np.isfinite(table).all():
            raise ValueError("Scores are not finite: vectors have missing or too large values.")
        documents[some] = largest(table, depth)
        scores[some] = np.take_along_axis(table, documents[some], axis=1)

    for _ in Threads().map(rank, len(rows), max(1, _MAX_ELEMENTS // len(X))):
        check_time()
    return Ranking(rows, documents, scores)


def largest(table: Floats, depth: int) -> Ints:
    """Columns of the largest values of each row, in order; of equal values, the first."""
    if 2 * depth > table.shape[1]:
        return np.argsort(-table, axis=1, kind="stable")[:, :depth]
    last = np.partition(table, -depth, axis=1)[:, -depth, None]
    columns = np.empty((len(table), depth), dtype=np.intp)
    for row, (values, least) in enumerate(zip(table, last, strict=True)):
        better = np.flatnonzero(values > least)
        tied = np.flatnonzero(values == least)[: depth - len(better)]
        candidates = np.concatenate([better, tied])
        columns[row] = candidates[np.argsort(-values[candidates], kind="stable")]
    return columns
