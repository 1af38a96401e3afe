"""How an adapter learns: the loss of a bilinear score q' W x, and what held-out queries choose.

With W = I + t T B T (t is the temperature), query i ranks its candidates by

    s_ij = q_i' W x_j / t,     p_ij = exp(s_ij) / sum_k exp(s_ik)

and with y_ij the share of document j in the grades of query i, sum_j y_ij = 1, the objective is

    F(B) = 1/n sum_i sum_j y_ij (-log p_ij) + strength/2 ||B||_F^2

which is convex. Its gradient weighs edges between queries and documents by S = P - Y:

    dF/dB = 1/n T Q' S X T + strength B

Y X does not change. P is sparse but for the pool of documents that queries share, which is
processed in tiles of queries, on all cores. Only the part of B in the span of the queries matters:
B = U C with U an orthonormal basis of the span of T Q', and C is what is searched for.

Candidates: each query is ranked against its judged documents, against hard negatives, and against a
pool that all queries share. The pool is the whole corpus if that is small. Otherwise it has
documents that are judged for other queries (in-batch negatives) and documents drawn at random, and
hard negatives are what the current score ranks highest among the documents that are not judged.

Units: with C the covariance of the documents and c its mean eigenvalue,

    R = C + 0.3 c I,      T = R^(-1/2)

maps the documents to rows whose coordinates are almost uncorrelated, with a variance of almost
one. A change of the score q' T B T x then has a mean square of about ||B||_F^2 over pairs of
documents, whatever the number of features and their scale. Penalising ||B||_F^2 keeps
the scores of ordinary pairs close to the untouched ones. Penalising the change of W itself would
forbid changes along directions in which vectors hardly differ, although these often tell documents
apart.

Held-out queries choose how much of a fit's path to use: several numbers of iterations, and blends
(1 - t) I + t W. The candidate with the largest lower bound on its mean gain in nDCG@10 over the
untouched score wins (one-sided, 95 %, paired by query). If that bound is not above zero, the
untouched score stays. Candidates that lower the mean of held-out queries for unseen documents
(`ranking.unseen_folds`) do not take part, unless only seen documents count. Folds share the
cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from scipy import sparse
from scipy.stats import t as student
from sklearn.model_selection import GroupKFold
from sklearn.utils import gen_batches

from nearfar.metrics.points import unit_length
from nearfar.numerics.linear_algebra import cross_product
from nearfar.numerics.optimizers import lbfgs
from nearfar.runtime.history import History, Iteration, map_iterations
from nearfar.runtime.threads import Threads
from nearfar.search.ranking import (
    ENOUGH_UNSEEN,
    Answers,
    JudgedRanking,
    Relevance,
    Split,
    folds_by_answers,
    held_out_groups,
    search,
)
from nearfar.typing import Bools, Floats, Ints, Matrix, Vector

WHOLE_CORPUS = 4096
"""If there are at most this many documents, all of them are in the pool: the loss is then exact."""
# Documents in the pool of a larger corpus. Time and memory of an iteration are in proportion.
_POOL = 2048
# Hard negatives of each query in a larger corpus.
_NEGATIVES = 50


@dataclass(frozen=True, eq=False)
class Candidates:
    """Documents that queries are ranked against.

    Attributes
    ----------
    query, document: shape (n_edges,). The queries' own documents, sorted by query:
        positions among the queries, and row numbers of X.
    target: shape (n_edges,). Share of the document in the grades of its query, 0 if it is
        not relevant.
    pool: shape (n_pool,). Row numbers of the documents that all queries share.
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

    def with_negatives(self, V: Floats, X: Floats) -> Candidates:
        """Add the documents that rank highest for mapped queries V and are not their own."""
        if len(self.pool) == len(X):
            return self
        own = np.diff(self.start)
        depth = min(len(X), _NEGATIVES + int(own.max(initial=0)))
        best = search(V, X, depth).documents
        rows = np.repeat(np.arange(self.n_queries), depth)
        keys, own_keys = rows * len(X) + best.ravel(), self.query * len(X) + self.document
        new = ~np.isin(keys, own_keys).reshape(best.shape)
        new &= np.cumsum(new, axis=1) <= _NEGATIVES
        query = np.concatenate([self.query, rows[new.ravel()]])
        document = np.concatenate([self.document, best[new]])
        target = np.concatenate([self.target, np.zeros(np.count_nonzero(new))])
        order = np.lexsort((document, query))
        return Candidates(self.n_queries, query[order], document[order], target[order], self.pool)


def shared_pool(
    relevance: Relevance, n_documents: int, random_state: np.random.RandomState
) -> Ints:
    """Choose the documents that all queries share."""
    if n_documents <= WHOLE_CORPUS:
        return np.arange(n_documents)
    judged = np.unique(relevance.document)
    judged = random_state.permutation(judged)[: _POOL // 2]
    others = random_state.choice(n_documents, _POOL, replace=False)
    return np.sort(np.concatenate([judged, others[~np.isin(others, judged)]])[:_POOL])


# In units of the mean variance: less lets directions in which documents hardly differ change most,
# more penalises changes of W itself.
_RIDGE = 0.3
# More documents hardly change a covariance, and it takes time in proportion.
_MAX_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Geometry:
    """Axes and variances of a corpus.

    Attributes
    ----------
    center: shape (n_features,). Mean of the documents.
    axes: shape (n_features, n_features). Eigenvectors of R, in columns.
    variances: shape (n_features,). Its eigenvalues.
    """

    center: Vector
    axes: Matrix
    variances: Vector

    @classmethod
    def of(cls, X: Floats) -> Geometry:
        """Measure a corpus, on at most 20,000 evenly spaced documents."""
        rows = X[:: -(-len(X) // _MAX_ROWS)].astype(np.float64)
        center = rows.mean(axis=0)
        covariance = (rows - center).T @ (rows - center) / len(rows)
        mean = float(np.trace(covariance)) / X.shape[1]
        if not mean > 0:
            raise ValueError("All documents have the same vector, so no score can tell them apart.")
        variances, axes = np.linalg.eigh(covariance)
        return cls(center, axes, np.maximum(variances, 0.0) + _RIDGE * mean)

    def power(self, exponent: float) -> Matrix:
        """Return a power of R."""
        return (self.axes * self.variances**exponent) @ self.axes.T

    @property
    def whitening(self) -> Whitening:
        """The map of rows that makes the documents rounder; see `Whitening`."""
        return Whitening(self.center, self.power(-0.25))


@dataclass(frozen=True, eq=False)
class Whitening:
    """x -> R^(-1/4) (x - center), divided by its length."""

    center: Vector
    map: Matrix

    def __call__(self, X: Floats) -> Floats:
        """Map rows."""
        center, matrix = self.center.astype(X.dtype), self.map.astype(X.dtype)
        return unit_length((X - center) @ matrix)


# Scores and coordinates that a thread holds at a time; it bounds the memory.
_TILE_ELEMENTS = 1 << 20


class RankingLoss:
    """Value and gradient of the objective; see the module's docstring.

    Parameters
    ----------
    Q: shape (n_queries, n_features). The queries to learn from.

    Attributes
    ----------
    basis: shape (n_features, rank). U.
    """

    def __init__(
        self,
        Q: Floats,
        X: Floats,
        candidates: Candidates,
        T: Matrix,
        *,
        temperature: float,
        strength: float,
    ) -> None:
        self.candidates, self.strength = candidates, strength
        self.dtype = np.result_type(Q, X)
        mapped = Q @ T
        # An orthonormal basis of the space that the queries span.
        self.basis = np.eye(len(T))
        if len(mapped) < len(T):
            self.basis = np.linalg.qr(mapped.T.astype(np.float64))[0]
        self.T, self.temperature = T, temperature
        self._coordinates = (mapped @ self.basis).astype(self.dtype)
        self._logit_queries = (Q / temperature).astype(self.dtype)
        self._pool = X if len(candidates.pool) == len(X) else X[candidates.pool]
        self._wanted = candidates.wanted(X)
        self._apart = candidates.apart
        self._X = X
        self._threads = Threads()

    @property
    def size(self) -> int:
        """Number of entries of C."""
        return int(self.basis.shape[1] * len(self.T))

    def change(self, c: Vector) -> Matrix:
        """Return the change of the score W - I that C, as a vector, stands for."""
        return self.temperature * self.T @ self.basis @ c.reshape(-1, len(self.T)) @ self.T

    def __call__(self, c: Vector) -> tuple[float, Vector]:
        """Return the objective and its gradient by C, as a vector."""
        C = c.reshape(-1, len(self.T))
        step = (C @ self.T).astype(self.dtype)
        query, document = self._apart

        def tile(rows: slice) -> tuple[float, Floats]:
            """Return the loss of some queries, summed, and their part of U' T Q' S X."""
            V = self._coordinates[rows] @ step + self._logit_queries[rows]
            table = V @ self._pool.T
            top = table.max(axis=1)
            # Documents of these queries that are not in the pool, and whose they are.
            edges = slice(*np.searchsorted(query, [rows.start, rows.stop]))
            row, documents = query[edges] - rows.start, self._X[document[edges]]
            own = np.einsum("ed,ed->e", V[row], documents)
            np.maximum.at(top, row, own)

            # The largest score of a query is subtracted, so that no exponential overflows.
            table -= top[:, None]
            np.exp(table, out=table)
            chance = np.exp(own - top[row])
            total = table.sum(axis=1) + np.bincount(row, chance, minlength=len(V))
            wanted = self._wanted[rows]
            gained = np.einsum("ij,ij->i", V, wanted).sum(dtype=np.float64)
            loss = np.sum(top + np.log(total)) - gained

            pulled = table @ self._pool
            pulled /= total[:, None]
            pulled -= wanted
            if len(row):
                weight = (chance / total[row]).astype(self.dtype)
                places, shape = (row, np.arange(len(row))), (len(V), len(row))
                pulled += sparse.csr_array((weight, places), shape) @ documents
            return float(loss), self._coordinates[rows].T @ pulled

        n, value, gradient = self.candidates.n_queries, 0.0, np.zeros(C.shape)
        # Queries whose scores and gathered documents a thread may hold, in tiles of equal size.
        held = len(self._pool) + len(query) / n * len(self.T)
        most = max(1, int(_TILE_ELEMENTS / held))
        for loss, pulled in self._threads.map(tile, n, -(-n // -(-n // most))):
            value += loss
            gradient += pulled
        value = value / n + self.strength / 2 * float(c @ c)
        return value, (gradient @ self.T / n + self.strength * C).ravel()


# Relative decrease of the objective at which a search ends. Held-out queries choose among few
# numbers of iterations, so that the last digits do not matter.
_TOLERANCE = 1e-4
# In standard deviations of a query's scores: lower temperatures count only the first results,
# higher ones also documents that nobody would see.
_TEMPERATURE = 0.5
# Of the mean variance: half of the mean is a prior that all directions are alike.
_PAIR_RIDGE = 1.0
# Documents whose differences are held at a time; it bounds the memory.
_BATCH = 10_000
# Relative variance below which queries and their documents are equal.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Corpus:
    """Two tables of vectors, and what all fits on them share.

    Attributes
    ----------
    pool: Documents that all queries are ranked against.
    temperature: Differences of scores of this size matter.
    """

    Q: Floats
    X: Floats
    relevance: Relevance
    geometry: Geometry
    pool: Ints
    temperature: float

    @classmethod
    def of(cls, Q: Floats, X: Floats, relevance: Relevance, pool: Ints) -> Corpus:
        """Measure the vectors."""
        temperature = _TEMPERATURE * score_spread(Q[relevance.queries], X)
        if not temperature > 0:
            raise ValueError(
                "All scores of judged queries are equal; check the vectors in Q, and with "
                'n_features = 1, use score="dot".'
            )
        return cls(Q, X, relevance, Geometry.of(X), pool, temperature)

    def problem(self, queries: Ints) -> AdapterProblem:
        """Pose the problem of some queries, with negatives mined by the score it starts at."""
        start = pair_map(self.Q, self.X, self.relevance.subset(queries))
        Q = self.Q[queries] @ start.astype(self.Q.dtype)
        candidates = Candidates.judged(self.relevance, queries, self.pool)
        return AdapterProblem(self, start, Q, candidates.with_negatives(Q, self.X))


@dataclass(frozen=True, eq=False)
class AdapterProblem:
    """The queries to learn from, with the documents that they are ranked against.

    Attributes
    ----------
    start: shape (n_features, n_features). The matrix of the score at which learning starts.
    Q: shape (n_queries, n_features). The queries, mapped by it.
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
        return replace(self, candidates=self.candidates.with_negatives(V, self.corpus.X))

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
    """Return the mean over queries of the standard deviation of their scores."""
    queries = Q[:: -(-len(Q) // 500)].astype(np.float64)
    documents = X[:: -(-len(X) // 5000)].astype(np.float64)
    return float((queries @ documents.T).std(axis=1).mean())


def pair_map(Q: Floats, X: Floats, relevance: Relevance) -> Matrix:
    """Return S^(-1/2), with S the covariance of q - x over relevant pairs, plus a ridge.

    Directions in which queries differ from their documents count less. What it learns does not
    depend on which topics the pairs are about, so that it carries over to others.
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
    spread = (np.maximum(variances, 0.0) / average + _PAIR_RIDGE) / (1 + _PAIR_RIDGE)
    return (axes * spread**-0.5) @ axes.T


DEPTH = 10
"""Results that count, as in the verdict on a search."""
FEWEST_QUERIES = 4
"""With fewer judged queries, nothing can be chosen on held-out ones."""

# Part of what was learned is often safer than all of it: where few queries are judged, and for
# unseen documents. On SciFact, 0.4 gains two thirds of what 1.0 does without a loss for those.
_BLENDS = (0.2, 0.4, 0.6, 0.8, 1.0)
# One in twenty adapters that change nothing may be chosen by chance.
_CONFIDENCE = 0.95
# Further folds are not held out if so many queries are: a standard error is then about 0.02, and
# each fold is one more fit.
_ENOUGH_QUERIES = 200
# Of more, the judged, the best and a sample are ranked: it bounds the time of a trial.
_MAX_DOCUMENTS = 20_000


@dataclass(frozen=True)
class HeldOut:
    """What held-out queries saw.

    Attributes
    ----------
    before, after: Mean nDCG@10, untouched and with the best candidate.
    error: Standard error of the difference.
    """

    n_queries: int
    before: float
    after: float
    error: float


@dataclass(frozen=True)
class Choice:
    """What held-out queries chose, and what they saw.

    Attributes
    ----------
    helps: Whether a learned score is better than the untouched one beyond noise.
    strength: Strength of the penalty; 0 if nothing was to be learned.
    n_iter: Number of iterations.
    blend: Share t of the learned change.
    whitened: Whether both tables are whitened first.
    n_queries: Number of held-out queries; 0 if nothing was held out.
    before, after: Mean nDCG@10 of held-out queries, untouched and with the best candidate.
    error: Standard error of the difference.
    seen, unseen: The same for queries with a relevant document that was relevant to a query
        learned from, and for those without; None if there are none.
    """

    helps: bool
    strength: float
    n_iter: int
    blend: float
    whitened: bool = False
    n_queries: int = 0
    before: float = float("nan")
    after: float = float("nan")
    error: float = float("nan")
    seen: HeldOut | None = None
    unseen: HeldOut | None = None

    @property
    def gain(self) -> float:
        """Gain in nDCG@10; the best of several candidates, so that it is a little too large."""
        return self.after - self.before

    def __str__(self) -> str:
        if self.strength == 0:
            return "Unchanged: nothing was learned."
        if self.n_queries == 0:
            return (
                "Adapted without a check on held-out queries."
                if self.helps
                else f"Unchanged: fewer than {FEWEST_QUERIES} judged queries are too few to learn."
            )
        held_out = f"{self.n_queries} held-out queries"
        parts = ""
        if self.seen is not None and self.unseen is not None:
            known, new = self.seen, self.unseen
            parts = (
                f" With documents that were relevant to queries learned from, it goes from "
                f"{known.before:.3f} to {known.after:.3f} ({known.n_queries} queries), with others "
                f"from {new.before:.3f} to {new.after:.3f} ({new.n_queries})."
            )
        if not self.helps:
            return (
                f"Unchanged: no adapter raises nDCG@{DEPTH} on {held_out} beyond noise "
                f"({self.before:.3f} untouched, {self.after:.3f} with the best adapter).{parts}"
            )
        return (
            f"Adapted: nDCG@{DEPTH} on {held_out} rises from {self.before:.3f} to {self.after:.3f} "
            f"(gain {self.gain:.3f}, standard error {self.error:.3f}).{parts}"
        )


def choose(
    corpora: Sequence[Corpus],
    *,
    strength: float,
    numbers: Sequence[int],
    n_folds: int,
    answers: Answers,
    random_state: np.random.RandomState,
) -> Choice:
    """Choose a number of iterations and a blend.

    Parameters
    ----------
    corpora: The tables, untouched and, optionally, whitened. All have the same judgements.
    numbers: Numbers of iterations.
    answers: Which held-out queries count. With "all", those for unseen documents must not
        lose.
    """
    relevance = corpora[0].relevance
    if len(relevance.queries) < FEWEST_QUERIES:
        return Choice(False, float("nan"), 0, 0.0)
    folds, apart = trial_folds(relevance, n_folds, answers, random_state)
    splits = [*folds, *apart]
    ranked = _documents(corpora[0], random_state)
    nothing = np.eye(corpora[0].X.shape[1])

    def ndcg(corpus: Corpus, queries: Ints, W: Matrix) -> Vector:
        every = len(ranked) == len(corpus.X)
        X = corpus.X if every else corpus.X[ranked]
        V = corpus.Q[queries] @ W.astype(corpus.Q.dtype)
        ranking = search(V, X, min(DEPTH, len(X)))
        ranking = replace(ranking, queries=queries, documents=ranked[ranking.documents])
        return JudgedRanking(ranking, relevance).ndcg(DEPTH)

    def trial(fold: slice) -> Matrix:
        """Learn from some queries and score the others: untouched, and by candidate."""
        train, test = splits[fold.start]
        scores = [ndcg(corpora[0], test, nothing)]
        for corpus in corpora:
            problem = corpus.problem(train).mined(strength, max(numbers))
            for change in problem.path(strength, numbers):
                scores += [ndcg(corpus, test, nothing + blend * change) for blend in _BLENDS]
        return np.array(scores)

    before, *rest = np.hstack(list(Threads().map(trial, len(splits), 1)))
    gain, n = np.array(rest) - before, sum(len(test) for _, test in folds)
    other = np.arange(len(before)) >= n
    seen = np.concatenate([relevance.sharing(test, train) for train, test in splits])
    unseen = other if other.any() else ~seen
    group = np.concatenate([np.arange(n), n + held_out_groups(relevance, apart)])
    counted = {"all": ~other, "seen": seen, "unseen": other}[answers]
    gains, errors = _mean_gains(gain[:, counted], group[counted])
    bounds = gains - student.ppf(_CONFIDENCE, len(np.unique(group[counted])) - 1) * errors
    if answers == "all" and np.count_nonzero(unseen) >= FEWEST_QUERIES:
        bounds = np.where(gain[:, unseen].mean(axis=1) >= 0, bounds, -np.inf)
    best = int(np.argmax(bounds))

    def held_out(some: Bools) -> HeldOut:
        error = _mean_gains(gain[[best]][:, some], group[some])[1]
        old = float(before[some].mean())
        return HeldOut(int(some.sum()), old, float(rest[best][some].mean()), float(error[0]))

    candidates = list(product((False, True)[: len(corpora)], sorted(numbers), _BLENDS))
    whitened, n_iter, blend = candidates[best]
    return Choice(
        bool(bounds[best] > 0),
        strength,
        n_iter,
        blend,
        whitened,
        **vars(held_out(counted)),
        seen=held_out(seen) if seen.any() else None,
        unseen=held_out(unseen) if unseen.any() else None,
    )


def trial_folds(
    relevance: Relevance, n_folds: int, answers: Answers, random_state: np.random.RandomState
) -> tuple[list[Split], list[Split]]:
    """Return folds of the judged queries, and folds for unseen documents if those are needed."""
    folds: list[Split] = []
    if answers != "unseen":
        queries = relevance.queries
        shuffled = random_state.permutation(len(queries))
        parts = GroupKFold(min(n_folds, len(queries))).split(queries, groups=shuffled)
        folds = [(queries[train], queries[test]) for train, test in parts]
        held_out = np.cumsum([len(test) for _, test in folds])
        folds = folds[: 1 + int(np.searchsorted(held_out, _ENOUGH_QUERIES))]
    enough = _ENOUGH_QUERIES if answers == "unseen" else ENOUGH_UNSEEN
    found = folds_by_answers(relevance, folds, answers, n_folds, random_state, enough=enough)
    return ([], found[0]) if answers == "unseen" else found


def _documents(corpus: Corpus, random_state: np.random.RandomState) -> Ints:
    """Return the documents to rank: all, or the judged ones, the best ones and a sample."""
    n = len(corpus.X)
    if n <= _MAX_DOCUMENTS:
        return np.arange(n)
    queries = corpus.relevance.queries
    best = search(corpus.Q[queries], corpus.X, DEPTH * 10).documents
    likely = np.union1d(corpus.relevance.document, best)
    rest = np.setdiff1d(np.arange(n), likely)
    sample = random_state.permutation(rest)[: max(0, _MAX_DOCUMENTS - len(likely))]
    return np.union1d(likely, sample)


def _mean_gains(differences: Matrix, group: Ints) -> tuple[Vector, Vector]:
    """Return the mean of each row and its standard error; columns of a group vary together."""
    means = differences.mean(axis=1)
    code = np.unique(group, return_inverse=True)[1]
    n_groups = int(code.max()) + 1
    member = sparse.csr_array((np.ones(len(code)), (np.arange(len(code)), code)))
    sums = (differences - means[:, None]) @ member
    spread = n_groups / max(1, n_groups - 1) * np.sum(sums**2, axis=1)
    return means, np.sqrt(spread) / len(group)
