"""`Candidates`: the documents that each query is ranked against while a score is learned.

A query has documents of its own, the judged ones and hard negatives, and shares a pool with all
other queries. The pool is the whole corpus if that is small. Otherwise it has documents that are
judged for other queries (in-batch negatives) and documents drawn at random, and hard negatives are
what the current score ranks highest among the documents that are not judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from nearfar.retrieval.ranking import search
from nearfar.retrieval.relevance import Relevance
from nearfar.typing import Floats, Ints, Vector

WHOLE_CORPUS = 4096
"""If there are at most this many documents, all of them are in the pool: the loss is then exact."""
# Documents in the pool of a larger corpus. Time and memory of an iteration are in proportion.
_POOL = 2048


@dataclass(frozen=True, eq=False)
class Candidates:
    """Documents that queries are ranked against.

    Attributes
    ----------
    n_queries : int
    query, document : array of shape (n_edges,)
        The queries' own documents, sorted by query: positions among the queries, and row numbers
        of X.
    target : array of shape (n_edges,)
        Share of the document in the grades of its query, 0 if it is not relevant.
    pool : array of shape (n_pool,)
        Row numbers of the documents that all queries share.

    Examples
    --------
    >>> from nearfar import Relevance
    >>> from nearfar.retrieval.candidates import Candidates
    >>> own = Candidates.judged(Relevance([4, 4, 7], [0, 2, 1], [3, 1, 1]), [4, 7], range(3))
    >>> own.query, own.target
    (array([0, 0, 1]), array([0.75, 0.25, 1.  ]))
    """

    n_queries: int
    query: Ints
    document: Ints
    target: Vector
    pool: Ints

    @classmethod
    def judged(cls, relevance: Relevance, queries: Ints, pool: Ints) -> Candidates:
        """Take the judged documents of some queries as their own documents."""
        queries = np.asarray(queries, dtype=np.intp)
        some = relevance.subset(queries)
        place = np.searchsorted(queries, some.query)
        total = np.bincount(place, some.grade, minlength=len(queries))
        target = some.grade / total[place]
        return cls(len(queries), place, some.document, target, np.asarray(pool, dtype=np.intp))

    @cached_property
    def start(self) -> Ints:
        """Where the documents of each query begin; one more entry than queries."""
        return np.searchsorted(self.query, np.arange(self.n_queries + 1))

    @cached_property
    def apart(self) -> tuple[Ints, Ints]:
        """Queries and documents of the edges whose document is not in the pool."""
        apart = ~np.isin(self.document, self.pool)
        return self.query[apart], self.document[apart]

    def wanted(self, X: Floats) -> Floats:
        """Return the mean of the documents of each query, weighted by their share in its grades."""
        relevant = self.target > 0
        edges = self.query[relevant], self.document[relevant]
        shares = self.target[relevant].astype(X.dtype)
        return np.asarray(sparse.csr_array((shares, edges), (self.n_queries, len(X))) @ X)

    def with_negatives(self, V: Floats, X: Floats, n_negatives: int) -> Candidates:
        """Add the documents that rank highest and are not among the queries' own.

        Parameters
        ----------
        V : array of shape (n_queries, n_features)
            Queries as the current score maps them.
        X : array of shape (n_documents, n_features)
        n_negatives : int
            How many documents are added to each query, at most.
        """
        if len(self.pool) == len(X):
            return self
        own = np.diff(self.start)
        depth = min(len(X), n_negatives + int(own.max(initial=0)))
        best = search(V, X, depth).documents
        rows = np.repeat(np.arange(self.n_queries), depth)
        keys, own_keys = rows * len(X) + best.ravel(), self.query * len(X) + self.document
        new = ~np.isin(keys, own_keys).reshape(best.shape)
        new &= np.cumsum(new, axis=1) <= n_negatives
        query = np.concatenate([self.query, rows[new.ravel()]])
        document = np.concatenate([self.document, best[new]])
        target = np.concatenate([self.target, np.zeros(np.count_nonzero(new))])
        order = np.lexsort((document, query))
        return Candidates(self.n_queries, query[order], document[order], target[order], self.pool)


def shared_pool(
    relevance: Relevance, n_documents: int, random_state: np.random.RandomState
) -> Ints:
    """Choose the documents that all queries share.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Relevance
    >>> from nearfar.retrieval.candidates import shared_pool
    >>> shared_pool(Relevance([0], [1]), 4, np.random.RandomState(0))
    array([0, 1, 2, 3])
    """
    if n_documents <= WHOLE_CORPUS:
        return np.arange(n_documents)
    judged = np.unique(relevance.document)
    judged = random_state.permutation(judged)[: _POOL // 2]
    others = random_state.choice(n_documents, _POOL, replace=False)
    return np.sort(np.concatenate([judged, others[~np.isin(others, judged)]])[:_POOL])
