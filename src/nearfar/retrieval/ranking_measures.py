"""Measures of a search, for each query.

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

from nearfar.evaluate.rankings import average_precision, discounts, ideal_dcg
from nearfar.retrieval.ranking import Ranking
from nearfar.retrieval.relevance import Relevance
from nearfar.typing import Ints, Matrix, Vector


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
    >>> from nearfar.retrieval import JudgedRanking, search
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
