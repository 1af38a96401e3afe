"""`compare_retrieval`: searches with adapted and with untouched vectors.

Queries are divided into folds. An adapter learns from the queries of all folds but one, and makes
its own choices within them; the queries of that fold are then searched with its vectors. Every
figure is therefore from queries that were not used for learning or for a choice. All documents can
be found in every fold, as in an index that does not change. Adapters that were learned before are
not fitted again: they search for all queries, without folds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GroupKFold, KFold

from nearfar.metrics.points import unit_length
from nearfar.retrieval.adapter import RetrievalAdapter
from nearfar.retrieval.ranking import Ranking, search
from nearfar.retrieval.ranking_measures import JudgedRanking
from nearfar.retrieval.relevance import Relevance
from nearfar.retrieval.results import UNTOUCHED, SearchComparison, scored
from nearfar.retrieval.vectors import checked_vectors
from nearfar.runtime.parameters import (
    ParameterRule,
    check_parameters,
    choice,
    integer,
    number,
    optional,
)
from nearfar.typing import Floats, Ints

Progress = Callable[[int, int, str], None]
Score = Literal["cosine", "dot"]

_clock = time.perf_counter
# Results found for each query, or all documents if there are fewer. As in most published tables,
# recall and average precision count the first hundred.
_DEPTH = 100


class Adapter(Protocol):
    """What `compare_retrieval` needs of an adapter; `RetrievalAdapter` is one."""

    def fit(self, Q: Floats, X: Floats, relevance: Relevance) -> Self:
        """Learn from queries, documents and judgements."""

    def transform_queries(self, Q: Floats) -> Floats:
        """Map queries, so that inner products with mapped documents are scores."""

    def transform_documents(self, X: Floats) -> Floats:
        """Map documents."""


def compare_retrieval(
    Q: ArrayLike,
    X: ArrayLike,
    relevance: Relevance,
    adapters: Adapter | Mapping[str, Adapter] | None = None,
    *,
    cv: int = 5,
    k: int = 10,
    groups: ArrayLike | None = None,
    score: Score | None = None,
    query_names: Sequence[str] | None = None,
    random_state: int | None = 0,
    budget: float | None = None,
    progress: Progress | None = None,
) -> SearchComparison:
    """Compare searches with adapted and with untouched vectors, on queries that are held out.

    Parameters
    ----------
    Q : array-like of shape (n_queries, n_features)
        Vectors of queries. Those without a relevant document are not used.
    X : array-like of shape (n_documents, n_features)
        Vectors of documents.
    relevance : Relevance
    adapters : adapter or dict of str to adapter, optional
        What to compare with untouched vectors; by default a `RetrievalAdapter`. An empty dict only
        measures untouched vectors. An adapter in scikit-learn's `FrozenEstimator` is not fitted
        again; give it queries that it was not learned from.
    cv : int, default=5
        Number of folds.
    k : int, default=10
        Number of results that count.
    groups : array-like of shape (n_queries,), optional
        Queries of the same group are held out together: those about the same document, or by the
        same person. By default, only queries with equal vectors are.
    score : {"cosine", "dot"}, optional
        What ranks documents for untouched vectors. By default the `score` of the adapters, or inner
        products.
    query_names : sequence of str, optional
        Texts or ids of all queries, to name those that change most.
    random_state : int or None, default=0
        Seed of the folds.
    budget : float, optional
        Time limit in seconds. Folds that are not expected to end in time are left out, and so are
        their queries; there is always one.
    progress : callable, optional
        Called with the number of finished fits, their total, and what is next.

    Returns
    -------
    SearchComparison

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Relevance, compare_retrieval
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 8))
    >>> Q = X[:100] + rng.normal(size=(100, 8)) * [0, 0, 0, 0, 2, 2, 2, 2]
    >>> found = compare_retrieval(Q, X, Relevance(range(100), range(100)), score="cosine")
    >>> found.verdict.helps
    True
    >>> list(found)
    ['untouched', 'adapted']
    """
    Q, X = checked_vectors(Q, X)
    relevance.check(len(Q), len(X))
    if adapters is None:
        adapters = RetrievalAdapter(score=score or "dot", random_state=random_state)
    named = adapters if isinstance(adapters, Mapping) else {"adapted": adapters}
    if UNTOUCHED in named:
        raise ValueError(
            f"{UNTOUCHED!r} is the name of the vectors without an adapter; choose another."
        )
    if score is None:
        scores: set[Score] = {getattr(a, "score", "dot") for a in named.values()} or {"dot"}
        if len(scores) > 1:
            raise ValueError(
                "The adapters have different scores; say which is the usual one: score=."
            )
        score = scores.pop()
    rules: dict[str, ParameterRule] = {
        "cv": integer(at_least=2),
        "k": integer(at_least=1),
        "score": choice("cosine", "dot"),
        "budget": optional(number(at_least=0.0)),
    }
    check_parameters(rules, {"cv": cv, "k": k, "score": score, "budget": budget})
    if k > len(X):
        raise ValueError(f"k is {k}, but there are only {len(X)} documents.")
    if query_names is not None and len(query_names) != len(Q):
        raise ValueError(f"{len(Q)} queries need one name each; got {len(query_names)}.")
    queries, depth = relevance.queries, min(len(X), max(k, _DEPTH))
    folds, left_out = None, 0
    if named and all(isinstance(adapter, FrozenEstimator) for adapter in named.values()):
        searches = {
            name: [(_search(adapter, Q, X, queries, depth), 0.0)] for name, adapter in named.items()
        }
    else:
        folds = _folds(queries, _groups(Q, queries, groups), cv, random_state)
        searches, n_done = _search_folds(Q, X, relevance, named, folds, depth, budget, progress)
        left_out, done = int(folds.max()) + 1 - n_done, folds < n_done
        queries, folds = queries[done], folds[done]
    mapped = (unit_length(Q), unit_length(X)) if score == "cosine" else (Q, X)
    untouched = JudgedRanking(search(*mapped, depth, queries=queries), relevance)
    results = [scored(UNTOUCHED, untouched, k)]
    for name, parts in searches.items():
        ranking = _joined([ranking for ranking, _ in parts])
        seconds = sum(duration for _, duration in parts) / len(parts)
        results.append(scored(name, JudgedRanking(ranking, relevance), k, seconds))
    return SearchComparison(
        results,
        folds=folds,
        headroom=float(untouched.best_ndcg(k).mean()),
        n_documents=len(X),
        left_out=left_out,
        query_names=query_names,
    )


def _search_folds(
    Q: Floats,
    X: Floats,
    relevance: Relevance,
    adapters: Mapping[str, Adapter],
    folds: Ints,
    depth: int,
    budget: float | None,
    progress: Progress | None,
) -> tuple[dict[str, list[tuple[Ranking, float]]], int]:
    """Learn from all folds but one and search for that one, while there is time.

    Returns for each adapter what it finds in each fold and the time to learn, and the number of
    folds.
    """
    queries, start, n_folds = relevance.queries, _clock(), int(folds.max()) + 1
    searches: dict[str, list[tuple[Ranking, float]]] = {name: [] for name in adapters}
    for fold in range(n_folds):
        for place, (name, adapter) in enumerate(adapters.items()):
            if progress is not None:
                done = fold * len(adapters) + place
                progress(done, n_folds * len(adapters), f"{name}, fold {fold + 1}")
            # The adapter does not even get the vectors of the queries that are held out.
            seen, unseen = queries[folds != fold], queries[folds == fold]
            judged = relevance.subset(seen)
            places = np.searchsorted(seen, judged.query)
            known = Relevance(places, judged.document, judged.grade)
            begin = _clock()
            fitted = clone(adapter).fit(Q[seen], X, known)
            seconds = _clock() - begin
            searches[name].append((_search(fitted, Q, X, unseen, depth), seconds))
        spent = _clock() - start
        if budget is not None and spent * (fold + 2) / (fold + 1) > budget:
            return searches, fold + 1
    return searches, n_folds


def _search(adapter: Adapter, Q: Floats, X: Floats, queries: Ints, depth: int) -> Ranking:
    mapped = adapter.transform_queries(Q[queries]), adapter.transform_documents(X)
    return replace(search(*mapped, depth), queries=queries)


def _groups(Q: Floats, queries: Ints, groups: ArrayLike | None) -> Ints:
    """Return the group of each query; by default, queries with equal vectors are one."""
    if groups is None:
        return np.unique(Q[queries], axis=0, return_inverse=True)[1].ravel()
    names = np.asarray(groups)
    if names.shape != (len(Q),):
        raise ValueError(f"{len(Q)} queries need one group each; got shape {names.shape}.")
    return np.unique(names[queries], return_inverse=True)[1]


def _folds(queries: Ints, groups: Ints, cv: int, random_state: int | None) -> Ints:
    """Return the fold in which each query is held out."""
    number = int(groups.max()) + 1
    single = number == len(queries)
    if number < cv:
        what = "queries with a relevant document" if single else "groups of queries"
        raise ValueError(f"{cv} folds need at least {cv} {what}; got {number}.")
    splitter = (KFold if single else GroupKFold)(cv, shuffle=True, random_state=random_state)
    folds = np.empty(len(queries), dtype=np.intp)
    for fold, (_, held_out) in enumerate(
        splitter.split(queries, groups=None if single else groups)
    ):
        folds[held_out] = fold
    return folds


def _joined(parts: Sequence[Ranking]) -> Ranking:
    """Return the rankings of all folds, in the order of the queries."""
    queries = np.concatenate([part.queries for part in parts])
    order = np.argsort(queries)
    documents = np.concatenate([part.documents for part in parts])[order]
    scores = np.concatenate([part.scores for part in parts])[order]
    return Ranking(queries[order], documents, scores)
