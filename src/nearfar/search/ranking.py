"""Vectors of queries and documents, exact search by inner product, and measures of a ranking.

With g_i the grade of the i-th document found (0 if it is not judged), rel_i = 1 if g_i > 0, and R
the number of relevant documents of the query:

    nDCG@k       DCG / (largest DCG of any ranking),  DCG = sum_{i<=k} g_i / log2(i + 1)
    MRR@k        1 / (first i <= k with rel_i = 1), or 0
    recall@k     1/R sum_{i<=k} rel_i
    AP@k         1/R sum_{i<=k} rel_i (precision at i)

These are nDCG, RR, R and AP of trec_eval and ir_measures. Documents are ranked by score, and those
with equal scores by row number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from nearfar.columns.cells import column_keys, is_frame
from nearfar.measures.retrieval import average_precision, discounts, ideal_dcg
from nearfar.metrics.points import row_digests
from nearfar.numerics.missing import as_vectors
from nearfar.runtime.progress import check_time
from nearfar.runtime.threads import Threads
from nearfar.search.relevance import Relevance
from nearfar.typing import Bools, Floats, Ints, Matrix, Vector


def checked_vectors(Q: ArrayLike, X: ArrayLike) -> tuple[Floats, Floats]:
    """Return queries and documents as finite arrays of the same width, or raise ValueError."""
    queries, documents = as_vectors(Q, "Q"), as_vectors(X, "X")
    if is_frame(Q) and is_frame(X) and list(column_keys(Q)) != list(column_keys(X)):
        raise ValueError("Q and X have different columns, or in another order.")
    if queries.shape[1] != documents.shape[1]:
        raise ValueError(
            f"Q has {queries.shape[1]} columns and X has {documents.shape[1]}; "
            "both must come from the same model."
        )
    return queries, documents


def vector_digests(vectors: Floats) -> Ints:
    """Return a number for each vector, rounded to float32, as most indexes have them."""
    with np.errstate(over="ignore"):
        return row_digests(vectors.astype(np.float32))


def known_vectors(vectors: Floats, digests: Ints) -> Bools:
    """Tell which vectors have one of some digests; a vector of zeros is no other one."""
    return np.isin(vector_digests(vectors), digests) & vectors.any(axis=1)


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
    >>> from nearfar.search import search
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
    >>> from nearfar.search.ranking import search
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


@dataclass(frozen=True, eq=False)
class JudgedRanking:
    """A ranking with the grades of what it found; methods return one value for each query.

    Attributes
    ----------
    ranking : Ranking
        Of queries with at least one relevant document.
    relevance : Relevance

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Relevance
    >>> from nearfar.search import JudgedRanking, search
    >>> ranking = search(np.array([[1.0]]), np.array([[3.0], [1.0], [2.0]]), depth=3)
    >>> judged = JudgedRanking(ranking, Relevance([0, 0], [1, 2], [2, 1]))
    >>> judged.grades, judged.mrr(3), judged.recall(2)
    (array([[0., 1., 2.]]), array([0.5]), array([0.5]))
    """

    ranking: Ranking
    relevance: Relevance

    def __post_init__(self) -> None:
        if not np.isin(self.ranking.queries, self.relevance.queries).all():
            raise ValueError("A query without a relevant document cannot be scored; leave it out.")

    @cached_property
    def grades(self) -> Matrix:
        """Grade of each document found, best first; 0 if it is not judged."""
        documents, judged = self.ranking.documents, self.relevance
        if not len(judged):
            return np.zeros(documents.shape)
        width = int(max(documents.max(initial=0), judged.document.max())) + 1
        keys = judged.query * width + judged.document
        wanted = self.ranking.queries[:, None] * width + documents
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[place] == wanted, judged.grade[place], 0.0)

    @cached_property
    def n_relevant(self) -> Ints:
        """Number of relevant documents of each query."""
        return np.bincount(self.relevance.query[self.relevance.relevant])[self.ranking.queries]

    def ndcg(self, k: int) -> Vector:
        """Normalised discounted cumulative gain of the first k, with the grade as the gain."""
        discount = discounts(self._depth(k))
        return self.grades[:, : len(discount)] @ discount / self._ideal(k)

    def best_ndcg(self, k: int) -> Vector:
        """nDCG@k of the best order of all documents that were found."""
        discount = discounts(self._depth(k))
        best = -np.sort(-self.grades, axis=1)[:, : len(discount)]
        return best @ discount / self._ideal(k)

    def mrr(self, k: int) -> Vector:
        """Reciprocal rank of the first relevant document, 0 if it is not among the first k."""
        hits = self.grades[:, : self._depth(k)] > 0
        return np.where(hits.any(axis=1), 1.0 / (1 + hits.argmax(axis=1)), 0.0)

    def recall(self, k: int) -> Vector:
        """Share of the relevant documents that are among the first k."""
        return (self.grades[:, : self._depth(k)] > 0).sum(axis=1) / self.n_relevant

    def average_precision(self, k: int) -> Vector:
        """Mean over relevant documents of the precision at their rank, 0 beyond the first k."""
        hits = self.grades[:, : self._depth(k)] > 0
        return average_precision(hits, self.n_relevant)

    def _ideal(self, k: int) -> Vector:
        """Largest DCG of each query, which may need documents that were not found."""
        judged = self.relevance
        n = int(judged.query.max(initial=-1)) + 1
        return ideal_dcg(judged.query, judged.grade, n, discounts(k))[self.ranking.queries]

    def _depth(self, k: int) -> int:
        if k < 1:
            raise ValueError(f"k must be at least 1; got {k}.")
        return min(k, self.ranking.documents.shape[1])
