"""What a fit passes through: the change of the score after some iterations, by strength."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from nearfar.numerics.lbfgs import lbfgs
from nearfar.numerics.linear_algebra import cross_product
from nearfar.retrieval.candidates import Candidates
from nearfar.retrieval.geometry import Geometry
from nearfar.retrieval.ranking_loss import RankingLoss
from nearfar.retrieval.relevance import Relevance
from nearfar.runtime.history import History, Iteration, map_iterations
from nearfar.typing import Floats, Ints, Matrix

# Relative decrease of the objective at which a search ends. Held-out queries choose among few
# numbers of iterations, so that the last digits do not matter.
_TOLERANCE = 1e-4

# Of the mean variance: half of the mean is a prior that all directions are alike.
_RIDGE = 1.0
# Documents whose differences are held at a time; it bounds the memory.
_BATCH = 10_000
# Relative variance below which queries and their documents are equal.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Corpus:
    """Two tables of vectors, and what all fits on them share.

    Attributes
    ----------
    Q : array of shape (n_queries, n_features)
    X : array of shape (n_documents, n_features)
    relevance : Relevance
    geometry : Geometry
    pool : array of int
        Documents that all queries are ranked against.
    temperature : float
        Differences of scores of this size matter.
    n_negatives : int
        Hard negatives of each query.
    matched : bool
        Whether learning starts at `pair_map` instead of the untouched score.
    """

    Q: Floats
    X: Floats
    relevance: Relevance
    geometry: Geometry
    pool: Ints
    temperature: float
    n_negatives: int
    matched: bool

    @property
    def n_features(self) -> int:
        """Number of columns of both tables."""
        return int(self.X.shape[1])

    def problem(self, queries: Ints) -> AdapterProblem:
        """Pose the problem of some queries, with negatives mined by the score it starts at."""
        start = np.eye(self.n_features)
        if self.matched:
            start = pair_map(self.Q, self.X, self.relevance.subset(queries))
        candidates = Candidates.judged(self.relevance, queries, self.pool)
        Q = self.Q[queries] @ start.astype(self.Q.dtype)
        candidates = candidates.with_negatives(Q, self.X, self.n_negatives)
        return AdapterProblem(self, start, Q, candidates)


@dataclass(frozen=True, eq=False)
class AdapterProblem:
    """The queries to learn from, with the documents that they are ranked against.

    Attributes
    ----------
    corpus : Corpus
    start : array of shape (n_features, n_features)
        The matrix of the score at which learning starts.
    Q : array of shape (n_queries, n_features)
        The queries, mapped by it.
    candidates : Candidates
    """

    corpus: Corpus
    start: Matrix
    Q: Floats
    candidates: Candidates

    def mined(self, strength: float, max_iter: int) -> AdapterProblem:
        """Add the negatives of the score that is learned with those so far."""
        if len(self.candidates.pool) == len(self.corpus.X):
            return self
        (change,) = self._changes(strength, [max_iter], History())
        V = self.Q + self.Q @ change.astype(self.Q.dtype)
        more = self.candidates.with_negatives(V, self.corpus.X, self.corpus.n_negatives)
        return AdapterProblem(self.corpus, self.start, self.Q, more)

    def path(
        self, strength: float, numbers: Sequence[int], history: History | None = None
    ) -> Iterator[Matrix]:
        """Yield the change W - I after each of some numbers of iterations, the smallest first.

        A search that ends early stands for all later numbers. `history` keeps its iterations.
        """
        history = History() if history is None else history
        beyond = self.start - np.eye(len(self.start))
        for change in self._changes(strength, numbers, history):
            yield beyond + self.start @ change

    def _changes(
        self, strength: float, numbers: Sequence[int], history: History
    ) -> Iterator[Matrix]:
        """Yield the changes of the score at the start."""
        loss = RankingLoss(
            self.Q,
            self.corpus.X,
            self.candidates,
            self.corpus.geometry.power(-0.5),
            temperature=self.corpus.temperature,
            strength=strength,
        )
        last, left = np.zeros(loss.size), sorted(numbers)
        if left[0] == 0:
            left.pop(0)
            yield loss.change(last)
        if not left:
            return
        steps = lbfgs(loss, last, max_iter=left[-1], tol=_TOLERANCE)
        iterations = map_iterations(steps, lambda step: Iteration(step[0], payload=step[1]))
        for iteration in history.record(iterations):
            last = iteration.payload
            while left and len(history) == left[0]:
                left.pop(0)
                yield loss.change(last)
        for _ in left:
            yield loss.change(last)


def score_spread(Q: Floats, X: Floats) -> float:
    """Return the mean over queries of the standard deviation of their scores.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.retrieval.adapter_path import score_spread
    >>> score_spread(np.array([[1.0], [3.0]]), np.array([[1.0], [-1.0]]))
    2.0
    """
    queries = Q[:: -(-len(Q) // 500)].astype(np.float64)
    documents = X[:: -(-len(X) // 5000)].astype(np.float64)
    return float((queries @ documents.T).std(axis=1).mean())


def pair_map(Q: Floats, X: Floats, relevance: Relevance) -> Matrix:
    """Return S^(-1/2), with S the covariance of q - x over relevant pairs, plus a ridge.

    Directions in which queries differ from their documents count less. What it learns does not
    depend on which topics the pairs are about, so that it carries over to others.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Relevance
    >>> from nearfar.retrieval.adapter_path import pair_map
    >>> X = np.array([[0.0, 0.0], [5.0, 5.0], [2.0, 8.0]])
    >>> W = pair_map(X + [[0, 3], [0, -3], [0, 0]], X, Relevance([0, 1, 2], [0, 1, 2]))
    >>> bool(W[0, 0] > W[1, 1] > 0)
    True
    """
    # The share of each relevant document in the grades of its query.
    pairs = relevance.relevant
    query = np.searchsorted(relevance.queries, relevance.query[pairs])
    documents, place = np.unique(relevance.document[pairs], return_inverse=True)
    grade = relevance.grade[pairs]
    shares = sparse.csc_array((grade / np.bincount(query, grade)[query], (query, place)))
    center = X[documents].mean(axis=0, dtype=np.float64)
    queries = Q[relevance.queries] - center
    wanted = np.zeros(queries.shape)
    square = cross_product(queries, queries)
    for rows in gen_batches(len(documents), _BATCH):
        block, part = X[documents[rows]] - center, shares[:, rows]
        wanted += part @ block
        square += cross_product(block * part.sum(axis=0)[:, None], block)
    between = cross_product(queries, wanted)
    mean = (queries - wanted).mean(axis=0)
    covariance = (square - between - between.T) / len(queries) - np.outer(mean, mean)
    variances, axes = np.linalg.eigh(covariance)
    average, most = float(variances.mean()), float(np.trace(square)) / len(queries)
    if not average > _ROUNDING * most:
        return np.eye(len(axes))
    spread = (np.maximum(variances, 0.0) / average + _RIDGE) / (1 + _RIDGE)
    return (axes * spread**-0.5) @ axes.T
