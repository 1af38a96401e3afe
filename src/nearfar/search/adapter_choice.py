"""A fit's path of scores, and how much of it to use: chosen on held-out queries.

Folds of the judged queries are ranked by scores learned from the others, for several numbers of
iterations and blends (1 - t) I + t W. The candidate with the largest lower bound on its mean gain
in nDCG@10 over the untouched score wins (one-sided, 95 %, paired by query). If that bound is not
above zero, the untouched score stays. Candidates that lower the mean of held-out queries for unseen
documents (`relevance.unseen_folds`) do not take part, unless only seen documents count. Folds share
the cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np
from scipy import sparse
from scipy.stats import t as student
from sklearn.model_selection import GroupKFold
from sklearn.utils import gen_batches

from nearfar.numerics.linear_algebra import cross_product
from nearfar.numerics.optimizers import lbfgs
from nearfar.runtime.history import History, Iteration, map_iterations
from nearfar.runtime.threads import Threads
from nearfar.search.ranking import JudgedRanking, search
from nearfar.search.ranking_loss import Candidates, Geometry, RankingLoss
from nearfar.search.relevance import (
    ENOUGH_UNSEEN,
    Relevance,
    Split,
    few_unseen,
    held_out_groups,
    unseen_folds,
)
from nearfar.typing import Bools, Floats, Ints, Matrix, Vector

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
    pool: Documents that all queries are ranked against.
    temperature: Differences of scores of this size matter.
    n_negatives: Hard negatives of each query.
    matched: Whether learning starts at `pair_map` instead of the untouched score.
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
    spread = (np.maximum(variances, 0.0) / average + _RIDGE) / (1 + _RIDGE)
    return (axes * spread**-0.5) @ axes.T


Finish = Callable[[Matrix], Matrix]
"""From the change of a score, W - I, to the W of the form that is asked for."""

Answers = Literal["all", "seen", "unseen"]
"""Which documents will answer searches."""

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
    finish: Sequence[Finish],
    n_folds: int,
    answers: Answers,
    random_state: np.random.RandomState,
) -> Choice:
    """Choose a number of iterations and a blend.

    Parameters
    ----------
    corpora: The tables, untouched and, optionally, whitened. All have the same judgements.
    numbers: Numbers of iterations.
    finish: One for each corpus.
    answers: Which held-out queries count. With "all", those for unseen documents must not
        lose.
    """
    relevance = corpora[0].relevance
    if len(relevance.queries) < FEWEST_QUERIES:
        return Choice(False, float("nan"), 0, 0.0)
    folds, apart = _folds(relevance, n_folds, answers, random_state)
    splits = [*folds, *apart]
    ranked = _documents(corpora[0], random_state)

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
        nothing_learned = np.zeros((corpora[0].n_features,) * 2)
        scores = [ndcg(corpora[0], test, finish[0](nothing_learned))]
        for corpus, finished in zip(corpora, finish, strict=True):
            problem = corpus.problem(train).mined(strength, max(numbers))
            for change in problem.path(strength, numbers):
                scores += [ndcg(corpus, test, finished(blend * change)) for blend in _BLENDS]
        return np.array(scores)

    before, *scores = np.hstack(list(Threads().map(trial, len(splits), 1)))
    trials = _Trials(before, np.array(scores), *_kinds(relevance, folds, apart))
    counted = {"all": ~trials.apart, "seen": trials.seen, "unseen": trials.apart}[answers]
    gains, errors = trials.gains(counted)
    n_groups = len(np.unique(trials.group[counted]))
    bounds = gains - student.ppf(_CONFIDENCE, n_groups - 1) * errors
    if answers == "all" and np.count_nonzero(trials.unseen) >= FEWEST_QUERIES:
        bounds = np.where(trials.gains(trials.unseen)[0] >= 0, bounds, -np.inf)
    best = int(np.argmax(bounds))
    candidates = list(product((False, True)[: len(corpora)], sorted(numbers), _BLENDS))
    whitened, n_iter, blend = candidates[best]
    return Choice(
        bool(bounds[best] > 0),
        strength,
        n_iter,
        blend,
        whitened,
        **vars(trials.held_out(best, counted)),
        seen=trials.held_out(best, trials.seen) if trials.seen.any() else None,
        unseen=trials.held_out(best, trials.unseen) if trials.unseen.any() else None,
    )


def _folds(
    relevance: Relevance, n_folds: int, answers: Answers, random_state: np.random.RandomState
) -> tuple[list[Split], list[Split]]:
    """Return folds of the judged queries, and folds for unseen documents if those are needed."""
    queries = relevance.queries
    if answers == "unseen":
        apart = unseen_folds(relevance, n_folds, random_state, enough=_ENOUGH_QUERIES)
        if not apart:
            raise ValueError(
                "All judged queries share documents, so none can be held out by document; "
                'use answers="seen".'
            )
        return [], apart
    shuffled = random_state.permutation(len(queries))
    splitter = GroupKFold(min(n_folds, len(queries)))
    folds = [
        (queries[train], queries[test]) for train, test in splitter.split(queries, groups=shuffled)
    ]
    held_out = np.cumsum([len(test) for _, test in folds])
    folds = folds[: 1 + int(np.searchsorted(held_out, _ENOUGH_QUERIES))]
    seen = np.concatenate([relevance.sharing(test, train) for train, test in folds])
    if answers == "seen" and not seen.any():
        raise ValueError('No document is relevant to two queries; use answers="all".')
    if answers == "seen" or not few_unseen(seen):
        return folds, []
    return folds, unseen_folds(relevance, n_folds, random_state, enough=ENOUGH_UNSEEN)


@dataclass(frozen=True, eq=False)
class _Trials:
    """nDCG@10 of held-out queries by candidate, and what the queries are."""

    before: Vector
    after: Matrix
    seen: Bools
    apart: Bools
    group: Ints

    @property
    def unseen(self) -> Bools:
        """Queries for unseen documents."""
        return self.apart if self.apart.any() else ~self.seen

    def gains(self, some: Bools) -> tuple[Vector, Vector]:
        """Return the mean gain of each candidate, and its standard error."""
        return _mean_gains((self.after - self.before)[:, some], self.group[some])

    def held_out(self, candidate: int, some: Bools) -> HeldOut:
        """Return what some of the queries saw of a candidate."""
        before, after = self.before[some], self.after[candidate, some]
        error = self.gains(some)[1][candidate]
        return HeldOut(len(before), float(before.mean()), float(after.mean()), float(error))


def _kinds(
    relevance: Relevance, folds: list[Split], apart: list[Split]
) -> tuple[Bools, Bools, Ints]:
    """Return which held-out queries are seen, which are of other folds, and their groups."""
    seen = np.concatenate([relevance.sharing(test, train) for train, test in [*folds, *apart]])
    n_queries = sum(len(test) for _, test in folds)
    groups = np.concatenate([np.arange(n_queries), n_queries + held_out_groups(relevance, apart)])
    return seen, np.arange(len(seen)) >= n_queries, groups


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
