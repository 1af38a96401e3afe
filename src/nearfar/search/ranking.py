"""Which documents answer which queries, exact search by inner product, and measures of a ranking.

A document that was relevant to a query which an adapter learned from is *seen*: the adapter may
have learned where this one document is, and other queries for it gain far more than queries for
documents that nobody asked for. With few of these among the held-out queries, `unseen_folds` hold
out queries together with all others for the same documents.

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
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nearfar.columns.cells import column_keys, is_frame
from nearfar.measures.retrieval import average_precision, discounts, ideal_dcg
from nearfar.metrics.points import row_digests
from nearfar.numerics.missing import as_vectors
from nearfar.runtime.progress import check_time
from nearfar.runtime.threads import Threads
from nearfar.typing import Bools, Floats, Ints, Matrix, Vector


@dataclass(frozen=True, eq=False, repr=False)
class Relevance:
    """Judgements of documents for queries, as row numbers of two tables of vectors.

    Judgements are sorted by query and then by document. A judgement that is given twice counts
    once. Documents without a judgement are taken as not relevant when a search is scored.

    Parameters
    ----------
    query : array-like of int of shape (n_judgements,)
        Row numbers of Q.
    document : array-like of int of shape (n_judgements,)
        Row numbers of X.
    grade : array-like of shape (n_judgements,), optional
        How relevant the document is: 0 is judged and not relevant, larger is better. By default
        all are 1.

    Examples
    --------
    >>> from nearfar import Relevance
    >>> relevance = Relevance(query=[0, 0, 2], document=[5, 3, 1], grade=[1, 2, 0])
    >>> relevance
    <Relevance: 3 judgements of 2 queries, 2 relevant>
    >>> relevance.queries
    array([0])
    """

    query: Ints
    document: Ints
    grade: Vector

    def __init__(
        self, query: ArrayLike, document: ArrayLike, grade: ArrayLike | None = None
    ) -> None:
        queries, documents = _row_numbers(query, "query"), _row_numbers(document, "document")
        if len(queries) != len(documents):
            raise ValueError(
                "Relevance needs one document for each query; "
                f"got {len(queries)} queries and {len(documents)} documents."
            )
        n = len(queries)
        grades = np.ones(n) if grade is None else np.array(grade, dtype=np.float64)
        if grades.shape != (n,):
            raise ValueError(f"Relevance needs one grade per judgement ({n}); got {grades.shape}.")
        if not (np.isfinite(grades).all() and (grades >= 0).all()):
            raise ValueError("Grades must be finite numbers of 0 or more; 0 means not relevant.")
        order = np.lexsort((documents, queries))
        queries, documents, grades = queries[order], documents[order], grades[order]
        again = (np.diff(queries) == 0) & (np.diff(documents) == 0)
        contradictory = np.flatnonzero(again & (np.diff(grades) != 0))
        if len(contradictory):
            i = contradictory[0]
            raise ValueError(
                f"Document {documents[i]} has two grades for query {queries[i]} "
                f"({grades[i]:g} and {grades[i + 1]:g}); keep one of them."
            )
        first = np.concatenate([np.ones(min(1, len(queries)), dtype=bool), ~again])
        queries, documents, grades = queries[first], documents[first], grades[first]
        for array in (queries, documents, grades):
            array.setflags(write=False)
        vars(self).update(query=queries, document=documents, grade=grades)

    @classmethod
    def from_labels(cls, queries: ArrayLike, documents: ArrayLike) -> Relevance:
        """Take documents as relevant to the queries that have the same label.

        Examples
        --------
        >>> from nearfar import Relevance
        >>> Relevance.from_labels(["cat", "dog"], ["dog", "cat", "dog"]).document
        array([1, 0, 2])
        """
        return cls(*np.nonzero(np.asarray(queries)[:, None] == np.asarray(documents)))

    def __len__(self) -> int:
        return len(self.query)

    def __repr__(self) -> str:
        judged, relevant = len(np.unique(self.query)), np.count_nonzero(self.relevant)
        return f"<Relevance: {len(self)} judgements of {judged} queries, {relevant} relevant>"

    @cached_property
    def relevant(self) -> NDArray[np.bool_]:
        """Which judgements say that the document is relevant: those with a grade above 0."""
        return self.grade > 0

    @cached_property
    def queries(self) -> Ints:
        """Row numbers of the queries with at least one relevant document, in order."""
        return np.unique(self.query[self.relevant])

    def check(self, n_queries: int, n_documents: int) -> None:
        """Raise ValueError unless the judgements fit the tables and say what is relevant.

        Parameters
        ----------
        n_queries, n_documents : int
            Number of rows of Q and of X.

        Examples
        --------
        >>> from nearfar import Relevance
        >>> Relevance([0], [7]).check(n_queries=1, n_documents=5)
        Traceback (most recent call last):
        ...
        ValueError: Relevance refers to document 7, but X has only 5 rows (0 to 4).
        """
        for kind, rows, n, table in (
            ("query", self.query, n_queries, "Q"),
            ("document", self.document, n_documents, "X"),
        ):
            if rows.max(initial=-1) >= n:
                raise ValueError(
                    f"Relevance refers to {kind} {rows.max()}, "
                    f"but {table} has only {n} rows (0 to {n - 1})."
                )
        if not self.relevant.any():
            raise ValueError(
                "No document is relevant to any query; judge at least one with a grade above 0."
            )

    def subset(self, queries: ArrayLike) -> Relevance:
        """Return the judgements of some queries; row numbers do not change.

        Examples
        --------
        >>> from nearfar import Relevance
        >>> Relevance([0, 1, 1], [3, 4, 5]).subset([1]).document
        array([4, 5])
        """
        some = np.isin(self.query, np.asarray(queries, dtype=np.intp))
        return Relevance(self.query[some], self.document[some], self.grade[some])

    def sharing(self, queries: ArrayLike, others: ArrayLike) -> NDArray[np.bool_]:
        """Tell which queries have a relevant document that is relevant to one of other queries.

        Examples
        --------
        >>> from nearfar import Relevance
        >>> Relevance([0, 1, 2, 2], [5, 5, 6, 7]).sharing([1, 2], others=[0])
        array([ True, False])
        """
        known = self.document[self.relevant & np.isin(self.query, others)]
        return np.isin(queries, self.query[self.relevant & np.isin(self.document, known)])

    def of(self, query: int) -> tuple[Ints, Vector]:
        """Return the documents that are judged for a query, and their grades.

        Examples
        --------
        >>> from nearfar import Relevance
        >>> Relevance([0, 1, 1], [3, 5, 4], [1, 2, 0]).of(1)
        (array([4, 5]), array([0., 2.]))
        """
        start, stop = np.searchsorted(self.query, [query, query + 1])
        return self.document[start:stop], self.grade[start:stop]


def _row_numbers(rows: ArrayLike, name: str) -> Ints:
    numbers = np.asarray(rows)
    if numbers.ndim != 1:
        raise ValueError(
            f"Relevance needs `{name}` as a list of row numbers; got shape {numbers.shape}."
        )
    if numbers.size and numbers.dtype.kind not in "iu":
        raise ValueError(f"Relevance needs integer row numbers as `{name}`; got {numbers.dtype}.")
    if numbers.size and numbers.min() < 0:
        raise ValueError(f"Row numbers of `{name}` are 0 or more; got {numbers.min()}.")
    return numbers.astype(np.intp)


ENOUGH_UNSEEN = 100
"""Held-out queries for unseen documents: the standard error of their gain is then about 0.03."""

Split = tuple[Ints, Ints]
"""Queries that are learned from, and queries that are held out."""


Answers = Literal["all", "seen", "unseen"]
"""Which documents will answer searches."""


def folds_by_answers(
    relevance: Relevance,
    folds: list[Split],
    answers: Answers,
    n_folds: int,
    random_state: np.random.RandomState,
    *,
    enough: float = np.inf,
    groups: Ints | None = None,
) -> tuple[list[Split], list[Split]]:
    """Return the folds whose queries count, and folds for unseen documents if those are needed.

    Parameters
    ----------
    folds: Of the judged queries, for all answers but "unseen".
    enough, groups: As for `unseen_folds`.
    """
    if answers != "unseen":
        seen = np.concatenate([relevance.sharing(test, train) for train, test in folds])
        if answers == "seen" and not seen.any():
            raise ValueError('No document is relevant to two queries; use answers="all".')
        few = np.count_nonzero(~seen) < min(ENOUGH_UNSEEN, len(seen) / 2)
        if answers == "seen" or not few:
            return folds, []
    apart = unseen_folds(relevance, n_folds, random_state, enough=enough, groups=groups)
    if answers == "all":
        return folds, apart
    if not apart:
        raise ValueError(
            "All judged queries share documents, so none can be held out by document; use "
            'answers="seen".'
        )
    return apart, []


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
    enough: Number of held-out queries from which no further folds are needed.
    groups: shape (n_queries,). Groups of the judged queries that also must not be on both
        sides.
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
    """Number the groups of the queries that folds hold out, one fold after the other."""
    starts = np.cumsum([0, *(len(test) for _, test in folds)])
    numbers = [document_groups(relevance.subset(test)) for _, test in folds]
    parts = [start + each for start, each in zip(starts, numbers, strict=False)]
    return np.concatenate([np.empty(0, dtype=np.intp), *parts])


def document_groups(relevance: Relevance) -> Ints:
    """Number the groups of judged queries that share relevant documents."""
    query = np.searchsorted(relevance.queries, relevance.query[relevance.relevant])
    document = relevance.document[relevance.relevant]
    shape = (len(relevance.queries), int(document.max()) + 1)
    graph = sparse.csr_array((np.ones(len(query)), (query, document)), shape=shape)
    return np.asarray(connected_components(graph @ graph.T, directed=False)[1])


def document_weights(relevance: Relevance) -> Any:
    """Return 1 / sqrt(number of its relevant documents) for each document and judged query.

    Sums of products over documents are the correlations of queries in `cutoff`.
    """
    query = np.searchsorted(relevance.queries, relevance.query[relevance.relevant])
    weight = 1 / np.sqrt(np.bincount(query))[query]
    return sparse.csr_array((weight, (relevance.document[relevance.relevant], query)))


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
