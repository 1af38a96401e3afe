"""How much of a learned score to use: chosen on held-out queries.

Folds of the judged queries are ranked by scores learned from the others, for several numbers of
iterations and blends (1 - t) I + t W. The candidate with the largest lower bound on its mean gain
in nDCG@10 over the untouched score wins (one-sided, 95 %, paired by query). If that bound is not
above zero, the untouched score stays. Folds share the cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.stats import t as student
from sklearn.model_selection import GroupKFold

from nearfar.retrieval.adapter_path import Corpus
from nearfar.retrieval.ranking import search
from nearfar.retrieval.ranking_measures import JudgedRanking
from nearfar.retrieval.relevance import Relevance
from nearfar.runtime.threads import Threads
from nearfar.typing import Ints, Matrix, Vector

Finish = Callable[[Matrix], Matrix]
"""From the change of a score, W - I, to the W of the form that is asked for."""

DEPTH = 10
"""Results that count, as in the verdict on a search."""
FEWEST_QUERIES = 4
"""With fewer judged queries, nothing can be chosen on held-out ones."""

# Half of what was learned is often safer than all of it, where few queries are judged.
_BLENDS = (0.5, 1.0)
# One in twenty adapters that change nothing may be chosen by chance.
_CONFIDENCE = 0.95
# Further folds are not held out if so many queries are: a standard error is then about 0.02, and
# each fold is one more fit.
_ENOUGH_QUERIES = 200
# Of more, the judged, the best and a sample are ranked: it bounds the time of a trial.
_MAX_DOCUMENTS = 20_000


@dataclass(frozen=True)
class Choice:
    """What held-out queries chose, and what they saw.

    Attributes
    ----------
    helps : bool
        Whether a learned score is better than the untouched one beyond noise.
    strength : float
        Strength of the penalty.
    n_iter : int
        Number of iterations.
    blend : float
        Share t of the learned change.
    whitened : bool
        Whether both tables are whitened first.
    n_queries : int
        Number of held-out queries; 0 if nothing was held out.
    before, after : float
        Mean nDCG@10 of held-out queries, untouched and with the best candidate.
    error : float
        Standard error of the difference.
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

    @property
    def gain(self) -> float:
        """Gain in nDCG@10; the best of several candidates, so that it is a little too large."""
        return self.after - self.before

    def __str__(self) -> str:
        if self.n_queries == 0:
            return (
                "Adapted without a check on held-out queries."
                if self.helps
                else f"Unchanged: fewer than {FEWEST_QUERIES} judged queries are too few to learn."
            )
        seen = f"{self.n_queries} held-out queries"
        if not self.helps:
            return (
                f"Unchanged: no adapter raises nDCG@{DEPTH} on {seen} beyond noise "
                f"({self.before:.3f} untouched, {self.after:.3f} with the best adapter)."
            )
        return (
            f"Adapted: nDCG@{DEPTH} on {seen} rises from {self.before:.3f} to {self.after:.3f} "
            f"(gain {self.gain:.3f}, standard error {self.error:.3f})."
        )


def choose(
    corpora: Sequence[Corpus],
    *,
    strength: float,
    numbers: Sequence[int],
    finish: Sequence[Finish],
    n_folds: int,
    by_document: bool,
    random_state: np.random.RandomState,
) -> Choice:
    """Choose a number of iterations and a blend.

    Parameters
    ----------
    corpora : sequence of Corpus
        The tables, untouched and, optionally, whitened. All have the same judgements.
    strength : float
    numbers : sequence of int
        Numbers of iterations.
    finish : sequence of callables
        One for each corpus.
    n_folds : int
    by_document : bool
        Keep queries that share a relevant document in the same fold.
    random_state : RandomState
    """
    relevance = corpora[0].relevance
    if len(relevance.queries) < FEWEST_QUERIES:
        return Choice(False, float("nan"), 0, 0.0)
    n_queries = len(relevance.queries)
    groups = document_groups(relevance) if by_document else np.arange(n_queries)
    pairs = _folds(relevance.queries, groups, n_folds, random_state)
    documents = _documents(corpora[0], random_state)

    def ndcg(corpus: Corpus, queries: Ints, W: Matrix) -> Vector:
        every = len(documents) == len(corpus.X)
        X = corpus.X if every else corpus.X[documents]
        V = corpus.Q[queries] @ W.astype(corpus.Q.dtype)
        ranking = search(V, X, min(DEPTH, len(X)))
        ranking = replace(ranking, queries=queries, documents=documents[ranking.documents])
        return JudgedRanking(ranking, relevance).ndcg(DEPTH)

    def trial(fold: slice) -> Matrix:
        """Learn from some queries and score the others: untouched, and by candidate."""
        train, test = pairs[fold.start]
        nothing_learned = np.zeros((corpora[0].n_features,) * 2)
        scores = [ndcg(corpora[0], test, finish[0](nothing_learned))]
        for corpus, finished in zip(corpora, finish, strict=True):
            problem = corpus.problem(train).mined(strength, max(numbers))
            for change in problem.path(strength, numbers):
                scores += [ndcg(corpus, test, finished(blend * change)) for blend in _BLENDS]
        return np.array(scores)

    before, *scores = np.hstack(list(Threads().map(trial, len(pairs), 1)))
    after = np.array(scores)
    held_out = np.concatenate([test for _, test in pairs])
    group = groups[np.searchsorted(relevance.queries, held_out)]
    gains, errors = _mean_gains(after - before, group)
    bounds = gains - student.ppf(_CONFIDENCE, len(np.unique(group)) - 1) * errors
    best = int(np.argmax(bounds))
    candidates = list(product((False, True)[: len(corpora)], sorted(numbers), _BLENDS))
    whitened, n_iter, blend = candidates[best]
    return Choice(
        bool(bounds[best] > 0),
        strength,
        n_iter,
        blend,
        whitened,
        n_queries=len(before),
        before=float(before.mean()),
        after=float(after[best].mean()),
        error=float(errors[best]),
    )


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
    spread = n_groups / (n_groups - 1) * np.sum(sums**2, axis=1)
    return means, np.sqrt(spread) / len(group)


def _folds(
    queries: Ints, groups: Ints, n_folds: int, random_state: np.random.RandomState
) -> list[tuple[Ints, Ints]]:
    """Split the judged queries by group, and return the folds that hold out enough of them."""
    n_groups = int(groups.max()) + 1
    if n_groups < 2:
        raise ValueError(
            "All judged queries share documents, so none can be held out by document; "
            'use groups="query".'
        )
    shuffled = random_state.permutation(n_groups)[groups]
    splitter = GroupKFold(min(n_folds, n_groups))
    folds = [
        (queries[train], queries[test]) for train, test in splitter.split(queries, groups=shuffled)
    ]
    held_out = np.cumsum([len(test) for _, test in folds])
    return folds[: 1 + int(np.searchsorted(held_out, _ENOUGH_QUERIES))]


def document_groups(relevance: Relevance) -> Ints:
    """Number the groups of judged queries that share relevant documents.

    Examples
    --------
    >>> from nearfar import Relevance
    >>> from nearfar.retrieval.adapter_choice import document_groups
    >>> document_groups(Relevance([0, 1, 1, 2], [5, 5, 6, 7]))
    array([0, 0, 1], dtype=int32)
    """
    query = np.searchsorted(relevance.queries, relevance.query[relevance.relevant])
    document = relevance.document[relevance.relevant]
    shape = (len(relevance.queries), int(document.max()) + 1)
    graph = sparse.csr_array((np.ones(len(query)), (query, document)), shape=shape)
    return np.asarray(connected_components(graph @ graph.T, directed=False)[1])
