"""`compare_retrieval`: searches with adapted and with untouched vectors.

Queries are divided into folds. An adapter learns from the queries of all folds but one, and makes
its own choices within them; the queries of that fold are then searched with its vectors. Every
figure is therefore from queries that were not used for learning or for a choice. All documents can
be found in every fold, as in an index that does not change. Adapters that were learned before are
not fitted again: they search for all queries that they were not learned from, without folds.

Queries for documents that were relevant to queries learned from (seen) are told apart from the
others (unseen). If hardly any are for unseen documents, further folds hold out queries together
with all others for the same documents (`relevance.unseen_folds`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GroupKFold, KFold

from nearfar.metrics.points import unit_length
from nearfar.runtime.messages import note
from nearfar.runtime.parameters import (
    ParameterRule,
    check_parameters,
    choice,
    integer,
    number,
    optional,
)
from nearfar.search.adapter import RetrievalAdapter
from nearfar.search.adapter_choice import Answers
from nearfar.search.ranking import JudgedRanking, Ranking, checked_vectors, known_vectors, search
from nearfar.search.relevance import (
    Relevance,
    Split,
    document_weights,
    few_unseen,
    held_out_groups,
    unseen_folds,
)
from nearfar.search.results import UNTOUCHED, SearchComparison, SearchResult, scored
from nearfar.typing import Bools, Floats, Ints

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
    answers: Answers | None = None,
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
        again; queries that it was learned from are left out.
    cv : int, default=5
        Number of folds.
    k : int, default=10
        Number of results that count.
    groups : array-like of shape (n_queries,), optional
        Queries of the same group are held out together: those about the same document, or by the
        same person. By default, only queries with equal vectors are.
    score : {"cosine", "dot"}, optional
        What ranks documents for untouched vectors. By default the `score` of the adapters, or
        cosines.
    answers : {"all", "seen", "unseen"}, optional
        Which documents will answer searches. With "all", all held-out queries count, and an adapter
        that makes those for unseen documents worse is not recommended. With "seen" or "unseen",
        only such queries count. By default the `answers` of the adapters, or "all".
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
    named = _named(adapters, score, answers, random_state)
    score = _common(named, "score", "cosine") if score is None else score
    answers = _common(named, "answers", "all") if answers is None else answers
    rules: dict[str, ParameterRule] = {
        "cv": integer(at_least=2),
        "k": integer(at_least=1),
        "score": choice("cosine", "dot"),
        "answers": choice("all", "seen", "unseen"),
        "budget": optional(number(at_least=0.0)),
    }
    given = {"cv": cv, "k": k, "score": score, "answers": answers, "budget": budget}
    check_parameters(rules, given)
    if k > len(X):
        raise ValueError(f"k is {k}, but there are only {len(X)} documents.")
    if query_names is not None and len(query_names) != len(Q):
        raise ValueError(f"{len(Q)} queries need one name each; got {len(query_names)}.")
    relevance, depth = _not_learned_from(Q, relevance, named), min(len(X), max(k, _DEPTH))
    folds, apart = [(relevance.queries[:0], relevance.queries)], list[Split]()
    fixed = bool(named) and all(isinstance(a, FrozenEstimator) for a in named.values())
    if not fixed:
        together = _groups(Q, relevance.queries, groups)
        folds, apart = _folds(relevance, together, cv, answers, random_state)
    splits = [*folds, *apart] if named else folds
    searches = _search_folds(Q, X, relevance, named, splits, depth, budget, progress)
    splits = splits[: len(searches)]
    # Each query is once in the folds, and may be once more in those for unseen documents.
    queries = np.concatenate([test for _, test in splits])
    mapped = (unit_length(Q), unit_length(X)) if score == "cosine" else (Q, X)
    rankings = {UNTOUCHED: search(*mapped, depth, queries=queries)}
    rankings |= {name: _joined([found[name][0] for found in searches]) for name in named}
    seconds = {name: float(np.mean([found[name][1] for found in searches])) for name in named}
    fold = np.repeat(np.arange(len(splits)), [len(test) for _, test in splits])
    seen = np.concatenate([relevance.sharing(test, train) for train, test in splits])
    seen = _for_known_documents(X, relevance, named) if fixed else seen
    group = held_out_groups(relevance, splits)
    # The columns are in the order of the queries of adapters that were learned before.
    weights = document_weights(relevance) if fixed else None

    def results(some: Bools, *, grouped: bool) -> list[SearchResult]:
        rows = np.flatnonzero(some)[np.argsort(queries[some])]
        groups = group[rows] if grouped else None
        held_out = None if fixed else fold[rows]
        shared = None if weights is None or grouped else weights[:, rows]
        return [
            scored(
                name,
                JudgedRanking(each.take(rows), relevance),
                k,
                seconds.get(name, 0.0),
                groups,
                held_out,
                shared,
            )
            for name, each in rankings.items()
        ]

    counted = (fold < len(folds)) & (seen | (answers != "seen"))
    again = ~seen & ~counted
    main = results(counted, grouped=answers == "unseen")
    parts = {"seen": seen & counted, "unseen": again if again.any() else ~seen}
    return SearchComparison(
        main,
        folds=main[0].folds,
        headroom=float(JudgedRanking(main[0].ranking, relevance).best_ndcg(k).mean()),
        n_documents=len(X),
        left_out=max(0, len(folds) - len(splits)),
        query_names=query_names,
        answers=answers,
        parts={
            name: results(some, grouped=name == "unseen" and not fixed)
            for name, some in parts.items()
            if named and some.any() and seen.any()
        },
    )


def _named(
    adapters: Adapter | Mapping[str, Adapter] | None,
    score: Score | None,
    answers: Answers | None,
    random_state: int | None,
) -> Mapping[str, Adapter]:
    """Return the adapters by name."""
    if adapters is None:
        adapters = RetrievalAdapter(
            score=score or "cosine", answers=answers or "all", random_state=random_state
        )
    if isinstance(adapters, Mapping):
        named = adapters
    elif isinstance(adapters, Sequence | Set):
        raise TypeError(
            "Several adapters need names: give a dict such as "
            '{"queries": RetrievalAdapter(), "both": RetrievalAdapter(side="both")}, not a '
            f"{type(adapters).__name__}."
        )
    else:
        named = {"adapted": adapters}
    wrong = [name for name, each in named.items() if not hasattr(each, "transform_queries")]
    wrong = [name for name in wrong if not isinstance(named[name], FrozenEstimator)]
    if wrong:
        raise TypeError(
            f"{wrong[0]!r} is no adapter but a {type(named[wrong[0]]).__name__}; an adapter has "
            "fit, transform_queries and transform_documents."
        )
    if UNTOUCHED in named:
        raise ValueError(
            f"{UNTOUCHED!r} is the name of the vectors without an adapter; choose another."
        )
    return named


def _common(named: Mapping[str, Adapter], parameter: str, default: Any) -> Any:
    """Return the value that all adapters have of a parameter."""
    values = {getattr(adapter, parameter, default) for adapter in named.values()} or {default}
    if len(values) > 1:
        raise ValueError(
            f"The adapters have different values of {parameter}; say which one to compare by: "
            f"{parameter}=."
        )
    return values.pop()


def _not_learned_from(Q: Floats, relevance: Relevance, named: Mapping[str, Adapter]) -> Relevance:
    """Leave out the queries that adapters were learned from which are not fitted again."""
    learned = {
        name: getattr(adapter.estimator, "learned_queries_", np.empty(0, dtype=np.int64))
        for name, adapter in named.items()
        if isinstance(adapter, FrozenEstimator) and getattr(adapter.estimator, "learn", True)
    }
    if not learned:
        return relevance
    if unknown := [name for name, digests in learned.items() if not len(digests)]:
        who = "the adapter" if len(learned) == 1 else " and ".join(unknown)
        note(f"it is not known which queries {who} learned from.", warning=True)
    queries = relevance.queries
    known = known_vectors(Q[queries], np.concatenate(list(learned.values())))
    if known.all():
        raise ValueError(
            "The adapter was learned from all of these queries, so that they cannot tell whether "
            "it helps; give it other judged queries."
        )
    if known.any():
        n = np.count_nonzero(known)
        note(
            f"the adapter was learned from {n} of the {len(queries)} judged queries; they are "
            "left out.",
            warning=True,
        )
    return relevance.subset(queries[~known])


def _for_known_documents(X: Floats, relevance: Relevance, named: Mapping[str, Adapter]) -> Bools:
    """Tell which queries have a relevant document that an adapter has learned from."""
    learned = [
        getattr(adapter.estimator, "learned_documents_", np.empty(0))
        for adapter in named.values()
        if isinstance(adapter, FrozenEstimator)
    ]
    documents = np.unique(relevance.document[relevance.relevant])
    known = documents[known_vectors(X[documents], np.concatenate(learned))]
    seen = relevance.query[relevance.relevant & np.isin(relevance.document, known)]
    return np.isin(relevance.queries, seen)


def _search_folds(
    Q: Floats,
    X: Floats,
    relevance: Relevance,
    adapters: Mapping[str, Adapter],
    splits: Sequence[Split],
    depth: int,
    budget: float | None,
    progress: Progress | None,
) -> list[dict[str, tuple[Ranking, float]]]:
    """Learn from all folds but one and search for that one, while there is time."""
    start, searches = _clock(), list[dict[str, tuple[Ranking, float]]]()
    for seen, unseen in splits:
        found: dict[str, tuple[Ranking, float]] = {}
        for place, (name, adapter) in enumerate(adapters.items()):
            if progress is not None:
                done = len(searches) * len(adapters) + place
                progress(done, len(splits) * len(adapters), f"{name}, fold {len(searches) + 1}")
            fitted, begin = adapter, _clock()
            if not isinstance(adapter, FrozenEstimator):
                # The adapter does not even get the vectors of the queries that are held out.
                judged = relevance.subset(seen)
                places = np.searchsorted(seen, judged.query)
                known = Relevance(places, judged.document, judged.grade)
                fitted = clone(adapter).fit(Q[seen], X, known)
            mapped = fitted.transform_queries(Q[unseen]), fitted.transform_documents(X)
            found[name] = replace(search(*mapped, depth), queries=unseen), _clock() - begin
        searches.append(found)
        spent = _clock() - start
        if budget is not None and spent * (len(searches) + 1) / len(searches) > budget:
            break
    return searches


def _groups(Q: Floats, queries: Ints, groups: ArrayLike | None) -> Ints:
    """Return the group of each query; by default, queries with equal vectors are one."""
    if groups is None:
        return np.unique(Q[queries], axis=0, return_inverse=True)[1].ravel()
    names = np.asarray(groups)
    if names.shape != (len(Q),):
        raise ValueError(f"{len(Q)} queries need one group each; got shape {names.shape}.")
    return np.unique(names[queries], return_inverse=True)[1]


def _folds(
    relevance: Relevance, groups: Ints, cv: int, answers: Answers, random_state: int | None
) -> tuple[list[Split], list[Split]]:
    """Return folds of the judged queries, and folds for unseen documents if those are needed."""
    queries, number = relevance.queries, int(groups.max()) + 1
    single = number == len(queries)
    if number < cv:
        what = "queries with a relevant document" if single else "groups of queries"
        raise ValueError(f"{cv} folds need at least {cv} {what}; got {number}.")
    apart = unseen_folds(relevance, cv, np.random.RandomState(random_state), groups=groups)
    if answers == "unseen":
        if not apart:
            raise ValueError(
                "All judged queries share documents, so none can be held out by document; "
                'use answers="seen".'
            )
        return apart, []
    splitter = (KFold if single else GroupKFold)(cv, shuffle=True, random_state=random_state)
    parts = splitter.split(queries, groups=None if single else groups)
    folds = [(queries[train], queries[test]) for train, test in parts]
    seen = np.concatenate([relevance.sharing(test, train) for train, test in folds])
    if answers == "seen" and not seen.any():
        raise ValueError('No document is relevant to two queries; use answers="all".')
    needed = answers == "all" and few_unseen(seen)
    return folds, apart if needed else []


def _joined(parts: Sequence[Ranking]) -> Ranking:
    """Return the rankings of all folds, one after the other."""
    fields = ((part.queries, part.documents, part.scores) for part in parts)
    return Ranking(*map(np.concatenate, zip(*fields, strict=True)))
