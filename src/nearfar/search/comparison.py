"""`compare_retrieval`: searches with adapted and with untouched vectors, and the verdict on them.

Queries are divided into folds. An adapter learns from the queries of all folds but one, and makes
its own choices within them; the queries of that fold are then searched with its vectors. Every
figure is therefore from queries that were not used for learning or for a choice. All documents can
be found in every fold, as in an index that does not change. Adapters that were learned before are
not fitted again: they search for all queries that they were not learned from, without folds.

Queries for documents that were relevant to queries learned from (seen) are told apart from the
others (unseen). If hardly any are for unseen documents, further folds hold out queries together
with all others for the same documents (`ranking.unseen_folds`).

The verdict is on the main measure, nDCG@k. How sure it is comes from `evidence.gain`: the
probability that adapting makes a practical difference for the better and, with the roles
exchanged, for the worse. Marks in tables are the same probabilities. There is no test beside them:
a test by folds has five numbers to go by, and misses most gains that are real
(`benchmarks/search_calibration.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, astuple, dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GroupKFold, KFold

from nearfar.evidence.gain import (
    PRIOR_MEAN,
    Gain,
    Observed,
    expected_gains,
    observe_rows,
    smallest_gain,
)
from nearfar.evidence.intervals import CONFIDENCE, fit_variance, value_interval
from nearfar.evidence.verdict import EVEN, PROBABLE, Category, Verdict, categorise, search_headline
from nearfar.measures.registry import NDCG, JudgedSearches, search_measures
from nearfar.metrics.points import unit_length
from nearfar.runtime.messages import ResultsTable, note
from nearfar.runtime.parameters import check_parameters, choice, integer
from nearfar.runtime.progress import parse_seconds
from nearfar.search.adapter import RetrievalAdapter
from nearfar.search.ranking import (
    Answers,
    JudgedRanking,
    Ranking,
    Relevance,
    Split,
    checked_vectors,
    document_weights,
    folds_by_answers,
    held_out_groups,
    known_vectors,
    search,
)
from nearfar.typing import Bools, Floats, Ints, Json, Vector

UNTOUCHED = "untouched"
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
    folds: int = 5,
    results: int = 10,
    groups: ArrayLike | None = None,
    score: Literal["cosine", "dot"] | None = None,
    answers: Answers | None = None,
    query_names: Sequence[str] | None = None,
    random_state: int = 0,
    budget: float | str | None = None,
    progress: Callable[[int, int, str], None] | None = None,
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
    folds : int, default=5
        Number of folds.
    results : int, default=10
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
    random_state : int, default=0
        Seed of the folds.
    budget : float or str, optional
        Time limit: 60s, 5m or 1h, or seconds. Folds that are not expected to end in time are left
        out, and so are their queries; there is always one.
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
    check_parameters(
        {
            "folds": integer(at_least=2),
            "results": integer(at_least=1),
            "score": choice("cosine", "dot"),
            "answers": choice("all", "seen", "unseen"),
        },
        {"folds": folds, "results": results, "score": score, "answers": answers},
    )
    if results > len(X):
        raise ValueError(f"results is {results}, but there are only {len(X)} documents.")
    if query_names is not None and len(query_names) != len(Q):
        raise ValueError(f"{len(Q)} queries need one name each; got {len(query_names)}.")
    frozen = {n: a.estimator for n, a in named.items() if isinstance(a, FrozenEstimator)}
    fixed = bool(named) and len(frozen) == len(named)
    relevance = _not_learned_from(Q, relevance, frozen)
    main, apart = [(relevance.queries[:0], relevance.queries)], list[Split]()
    if not fixed:
        together = _groups(Q, relevance.queries, groups)
        main, apart = _folds(relevance, together, folds, answers, random_state)
    splits = [*main, *apart] if named else main
    depth, limit = min(len(X), max(results, _DEPTH)), parse_seconds(budget)
    searches = _search_folds(Q, X, relevance, named, splits, depth, limit, progress)
    splits = splits[: len(searches)]
    # Each query is once in the folds, and may be once more in those for unseen documents.
    queries = np.concatenate([test for _, test in splits])
    mapped = (unit_length(Q), unit_length(X)) if score == "cosine" else (Q, X)
    rankings = {UNTOUCHED: search(*mapped, depth, queries=queries)}
    for name in named:
        parts = [found[name][0] for found in searches]
        fields = zip(*((part.queries, part.documents, part.scores) for part in parts), strict=True)
        rankings[name] = Ranking(*map(np.concatenate, fields))
    seconds = {name: float(np.mean([found[name][1] for found in searches])) for name in named}
    fold = np.repeat(np.arange(len(splits)), [len(test) for _, test in splits])
    seen = np.concatenate([relevance.sharing(test, train) for train, test in splits])
    seen = _for_known_documents(X, relevance, frozen) if fixed else seen
    group = held_out_groups(relevance, splits)
    # The columns are in the order of the queries of adapters that were learned before.
    weights = document_weights(relevance) if fixed else None

    def measured(some: Bools, *, grouped: bool) -> list[SearchResult]:
        rows = np.flatnonzero(some)[np.argsort(queries[some])]
        groups, held_out = group[rows] if grouped else None, None if fixed else fold[rows]
        shared = None if weights is None or grouped else weights[:, rows]
        found = []
        for name, each in rankings.items():
            ranking = each.take(rows)
            judged = JudgedSearches(JudgedRanking(ranking, relevance), results, depth)
            values = {m.name: m.function(judged) for m in search_measures(results, depth)}
            spent = seconds.get(name, 0.0)
            found.append(SearchResult(name, ranking, values, spent, groups, held_out, shared))
        return found

    counted = (fold < len(main)) & (seen | (answers != "seen"))
    again = ~seen & ~counted
    compared = measured(counted, grouped=answers == "unseen")
    kinds = {"seen": seen & counted, "unseen": again if again.any() else ~seen}
    best_order = JudgedRanking(compared[0].ranking, relevance).best_ndcg(results)
    return SearchComparison(
        compared,
        folds=compared[0].folds,
        headroom=float(best_order.mean()),
        n_documents=len(X),
        left_out=max(0, len(main) - len(splits)),
        query_names=query_names,
        answers=answers,
        parts={
            name: measured(some, grouped=name == "unseen" and not fixed)
            for name, some in kinds.items()
            if named and some.any() and seen.any()
        },
    )


def _named(
    adapters: Adapter | Mapping[str, Adapter] | None,
    score: Literal["cosine", "dot"] | None,
    answers: Answers | None,
    random_state: int,
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


def _not_learned_from(Q: Floats, relevance: Relevance, frozen: Mapping[str, Any]) -> Relevance:
    """Leave out the queries from which adapters that are not fitted again were learned."""
    learned = {
        name: getattr(adapter, "learned_queries_", np.empty(0, dtype=np.int64))
        for name, adapter in frozen.items()
        if getattr(adapter, "learn", True)
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
    if n := np.count_nonzero(known):
        note(
            f"the adapter was learned from {n} of the {len(queries)} judged queries; they are "
            "left out.",
            warning=True,
        )
    return relevance.subset(queries[~known])


def _for_known_documents(X: Floats, relevance: Relevance, frozen: Mapping[str, Any]) -> Bools:
    """Tell which queries have a relevant document that an adapter has learned from."""
    learned = [getattr(each, "learned_documents_", np.empty(0)) for each in frozen.values()]
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
    progress: Callable[[int, int, str], None] | None,
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
    relevance: Relevance, groups: Ints, n_folds: int, answers: Answers, random_state: int
) -> tuple[list[Split], list[Split]]:
    """Return folds of the judged queries, and folds for unseen documents if those are needed."""
    queries, number = relevance.queries, int(groups.max()) + 1
    single = number == len(queries)
    if number < n_folds:
        what = "queries with a relevant document" if single else "groups of queries"
        raise ValueError(f"{n_folds} folds need at least {n_folds} {what}; got {number}.")
    splitter = (KFold if single else GroupKFold)(n_folds, shuffle=True, random_state=random_state)
    parts = splitter.split(queries, groups=None if single else groups)
    folds = [(queries[train], queries[test]) for train, test in parts]
    random = np.random.RandomState(random_state)
    return folds_by_answers(relevance, folds, answers, n_folds, random, groups=groups)


@dataclass(frozen=True, eq=False)
class SearchResult:
    """How well vectors search.

    Attributes
    ----------
    name : str
    ranking : Ranking
        What each query found.
    values : dict of str to array of shape (n_queries,)
        Measures by name, the main one first.
    seconds : float
        Mean time of a fit.
    groups : array of shape (n_queries,) or None
        Queries of a group vary together; None if they are independent.
    folds : array of shape (n_queries,) or None
        The fold in which each query was held out. None if the adapters were learned before.
    shared : sparse array of shape (n_documents, n_queries) or None
        For adapters that were learned before, `document_weights`: what queries have in common.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Relevance, compare_retrieval
    >>> rng = np.random.RandomState(0)
    >>> X = rng.normal(size=(50, 4))
    >>> found = compare_retrieval(X[:30], X, Relevance(range(30), range(30)))
    >>> len(found["untouched"].values["nDCG@10"])
    30
    """

    name: str
    ranking: Ranking
    values: dict[str, Vector]
    seconds: float = 0.0
    groups: Ints | None = None
    folds: Ints | None = None
    shared: Any = None

    @property
    def means(self) -> dict[str, float]:
        """Mean of each measure."""
        return {measure: float(values.mean()) for measure, values in self.values.items()}

    def counted(self, measure: str) -> Vector:
        """Return the values of queries or, if there are groups, the mean of each group.

        Queries for one popular document would otherwise decide on searches for unseen ones.
        """
        if self.groups is None:
            return self.values[measure]
        code = np.unique(self.groups, return_inverse=True)[1]
        return np.bincount(code, self.values[measure]) / np.bincount(code)

    @property
    def counted_folds(self) -> Ints | None:
        """The fold of each value that `counted` returns."""
        if self.folds is None or self.groups is None:
            return self.folds
        return self.folds[np.unique(self.groups, return_index=True)[1]]

    def interval(self, measure: str) -> tuple[float, float]:
        """Return the 90 % interval of the mean of a measure."""
        return value_interval(self.values[measure])


@dataclass(frozen=True)
class Change:
    """A query whose results became better or worse.

    Attributes
    ----------
    query: Row number of Q.
    text: Its text, its id, or its number.
    before, after: The main measure.
    """

    query: int
    text: str
    before: float
    after: float

    @property
    def gain(self) -> float:
        """How much the measure rises."""
        return self.after - self.before


@dataclass(frozen=True)
class SearchPart:
    """What adapting does to searches for seen or for unseen documents.

    Attributes
    ----------
    before, after: Mean of the main measure with untouched and with adapted vectors.
    gain, low, high: Gain and the 90 % interval of the gain of one adapter that is learned
        from all queries. It allows for chance in the queries, and for how much adapters
        differ from fold to fold.
    harm: Probability that the loss makes a practical difference, if neither side is
        expected to be better.
    """

    n_queries: int
    before: float
    after: float
    gain: float
    low: float
    high: float
    harm: float


@dataclass(frozen=True)
class SearchVerdict(Verdict):
    """Whether to use adapted vectors.

    Attributes
    ----------
    measure : str
        What is measured, such as "nDCG@10".
    before, after : float
        Its mean over the queries with untouched and with adapted vectors.
    harm : float
        Probability that the loss makes a practical difference, if neither side is expected to be
        better.
    seen, unseen : SearchPart or None
        The same for searches for documents that were relevant to queries which the adapter learned
        from, and for others; None if no document was relevant to two queries.

    The others are those of `Verdict`.
    """

    measure: str
    before: float
    after: float
    harm: float
    seen: SearchPart | None = None
    unseen: SearchPart | None = None

    def to_dict(self) -> dict[str, Json]:
        """Return the verdict as plain numbers and strings."""
        return asdict(self) | {"category": self.category.value}


class SearchComparison(ResultsTable[SearchResult]):
    """Untouched and adapted vectors on the same searches; prints as a table with a verdict.

    A mapping from names to results. Untouched vectors come first.

    Parameters
    ----------
    results : list of SearchResult
    folds : array of shape (n_queries,) or None
        The fold in which each query was held out. None if the adapters were learned before.
    headroom : float
        The main measure of the best order of the documents that untouched vectors find.
    n_documents : int
    left_out : int, default=0
        Number of folds for which there was no time.
    query_names : sequence of str, optional
        Texts or ids of all rows of Q.
    answers : {"all", "seen", "unseen"}, default="all"
        Which documents will answer searches. With "all", adapters that make searches for unseen
        documents worse are not recommended.
    parts : dict of str to list of SearchResult, optional
        Results of searches for "seen" and for "unseen" documents; the latter may come from other
        folds. Empty if no document was relevant to two queries.
    prior_mean : float, default=0.5
        As for `expected_gains`; 0 if neither side is expected to be better.

    Attributes
    ----------
    queries : array of int of shape (n_queries,)
        Row numbers of the queries that are compared.
    measure : str
        The main measure, such as "nDCG@10".
    gains : dict of str to Gain
        Expected gains of the main measure over untouched vectors. Their intervals are for one
        adapter that is learned from all queries, their probabilities for adapters on average.
    harms : dict of str to float
        Probabilities that adapting makes a practical difference for the worse.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Relevance, compare_retrieval
    >>> rng = np.random.RandomState(0)
    >>> X = rng.normal(size=(50, 4))
    >>> found = compare_retrieval(X[:30], X, Relevance(range(30), range(30)))
    >>> found.n_documents
    50
    """

    _compared = "vectors"

    def __init__(
        self,
        results: Sequence[SearchResult],
        *,
        folds: Ints | None,
        headroom: float,
        n_documents: int,
        left_out: int = 0,
        query_names: Sequence[str] | None = None,
        answers: Answers = "all",
        parts: Mapping[str, Sequence[SearchResult]] | None = None,
        prior_mean: float = PRIOR_MEAN,
    ) -> None:
        self.results = {result.name: result for result in results}
        self.folds, self.headroom, self.n_documents = folds, headroom, n_documents
        self.n_folds = 0 if folds is None else len(np.unique(folds))
        self.left_out = left_out
        self.query_names = query_names
        self.queries = self.untouched.ranking.queries
        self.depth = self.untouched.ranking.documents.shape[1]
        self.measure = next(iter(self.untouched.values))
        self.answers, self.parts, self.prior_mean = answers, dict(parts or {}), prior_mean
        observed = [self._observed(result, self.untouched) for result in self.adapted]
        loss = 1 - self.untouched.means[self.measure]
        gains = expected_gains(observed, loss, NDCG.spreads, prior_mean=prior_mean)
        self.gains = {
            result.name: self._of_one_fit(result, gain)
            for result, gain in zip(self.adapted, gains, strict=True)
        }
        self.harms = {result.name: self._harm(self.untouched, result) for result in self.adapted}

    def _difference(self, one: SearchResult, other: SearchResult) -> Vector:
        return one.counted(self.measure) - other.counted(self.measure)

    def _observed(self, one: SearchResult, other: SearchResult) -> Observed:
        """How much better one search is than another, on the same queries."""
        difference = self._difference(one, other)
        if one.shared is None:
            return observe_rows(difference, NDCG.gain_noise)
        m, asked = len(difference), np.asarray(one.shared.sum(axis=1))
        groups = m**2 / float(asked @ asked)
        sums = one.shared @ (difference - difference.mean())
        # Residuals are too small, as the mean is that of the same groups.
        few = max(m - 1, 1) / m / max(1 - 1 / groups, 1e-9)
        variance = max(few * float(sums @ sums) / m, NDCG.gain_noise * float(difference.var())) / m
        n = min(m, int(np.count_nonzero(asked)))
        return Observed(float(difference.mean()), variance + 1 / n**2, round(groups))

    def _of_one_fit(self, result: SearchResult, expected: Gain) -> Gain:
        """Widen the interval of an expected gain to that of one adapter learned from all
        queries.
        """
        difference, k = self._difference(result, self.untouched), self.n_folds
        if k < 2:
            return expected
        least = 1 + k / (k + self.left_out - 1) - NDCG.gain_noise
        least *= float(difference.var()) / len(difference)
        variance = max(fit_variance(difference, result.counted_folds), least)
        quantile, gain = float(ndtri((1 + CONFIDENCE) / 2)), expected.gain
        below = above = quantile * variance**0.5
        if gain > 0:
            factor = np.exp(quantile * np.log1p(variance / gain**2) ** 0.5)
            below, above = gain * (1 - 1 / factor), max(above, gain * (factor - 1))
        low = gain - float(np.hypot(gain - expected.low, below))
        high = gain + float(np.hypot(expected.high - gain, above))
        before = self.untouched.means[self.measure]
        return replace(expected, low=max(-before, low), high=min(1 - before, high))

    def _harm(self, untouched: SearchResult, result: SearchResult) -> float:
        """How sure it is that untouched vectors are better: the same with the roles exchanged."""
        observed, loss = self._observed(untouched, result), 1 - result.means[self.measure]
        return expected_gains([observed], loss, NDCG.spreads, prior_mean=0.0)[0].probability

    def part(self, documents: Literal["seen", "unseen"], name: str) -> SearchPart | None:
        """Return what an adapter does to searches for seen or for unseen documents.

        None if there are none, or if no document was relevant to two queries.

        Examples
        --------
        >>> import numpy as np
        >>> from nearfar import Relevance, compare_retrieval
        >>> X = np.random.default_rng(0).normal(size=(50, 4))
        >>> Q = X[:30] + np.random.default_rng(1).normal(size=(30, 4))
        >>> found = compare_retrieval(Q, X, Relevance(range(30), np.arange(30) // 2))
        >>> found.part("unseen", "adapted").n_queries
        30
        """
        results = {result.name: result for result in self.parts.get(documents, ())}
        if name not in results or name == self.untouched.name:
            return None
        untouched, result = results[self.untouched.name], results[name]
        before, after = (float(r.counted(self.measure).mean()) for r in (untouched, result))
        observed = self._observed(result, untouched)
        difference = self._difference(result, untouched)
        variance = observed.variance + fit_variance(difference, result.counted_folds)
        reach = float(student.ppf((1 + CONFIDENCE) / 2, max(1, observed.n - 1))) * variance**0.5
        gain, harm = after - before, self._harm(untouched, result)
        low, high = max(-before, gain - reach), min(1 - before, gain + reach)
        return SearchPart(len(result.ranking), before, after, gain, low, high, harm)

    def __getitem__(self, name: str) -> SearchResult:
        return self.results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def untouched(self) -> SearchResult:
        """The search with untouched vectors."""
        return next(iter(self.results.values()))

    @property
    def adapted(self) -> list[SearchResult]:
        """The searches with adapted vectors."""
        return list(self.results.values())[1:]

    @property
    def best(self) -> SearchResult:
        """The adapter with the largest expected gain; untouched vectors if there is none.

        Adapters that probably make searches for unseen documents worse come last.
        """
        harmless = [r for r in self.adapted if self._harm_of_unseen(r) < PROBABLE]
        among = harmless or self.adapted
        return max(among, key=lambda r: self.gains[r.name].gain, default=self.untouched)

    @property
    def verdicts(self) -> list[str]:
        """The verdict in words."""
        return [self.verdict.headline]

    @cached_property
    def verdict(self) -> SearchVerdict:
        """Whether to use adapted vectors."""
        best, measure = self.best, self.measure
        before, after = (result.means[measure] for result in (self.untouched, best))
        gain = self.gains.get(best.name, Gain(0.0, 0.0, 0.0, 0.0))
        harm, category = self.harms.get(best.name, 0.0), self.category(best)
        tried, likely = best is not self.untouched, gain.probability >= EVEN and after > before
        seen, unseen = self.part("seen", best.name), self.part("unseen", best.name)
        lowered = self._harm_of_unseen(best) >= PROBABLE
        figures = f"{measure} {before:.3f}" + (f" -> {after:.3f}" if tried else "")
        return SearchVerdict(
            recommended=(best if likely and not lowered else self.untouched).name
            if tried
            else None,
            method=best.name if tried else None,
            reference=self.untouched.name,
            category=category,
            **asdict(gain),
            headline=search_headline(
                category,
                best.name,
                figures,
                gain,
                harm,
                alone=len(self.adapted) == 1,
                unseen=self.folds is not None,
                lowered=lowered and after > before,
                old=self.untouched.name,
            )
            + "".join(
                f" For {which} documents ({part.n_queries} searches): {part.before:.3f} -> "
                f"{part.after:.3f}, gain {part.gain:z.3f} ({part.low:z.3f} to "
                f"{part.high:z.3f})."
                for which, part in (("seen", seen), ("unseen", unseen))
                if part is not None
            ),
            measure=measure,
            before=before,
            after=after,
            harm=harm,
            seen=seen,
            unseen=unseen,
        )

    def category(self, result: SearchResult) -> Category:
        """Return what the difference between vectors and untouched ones means."""
        if result is self.untouched:
            return Category.NOTHING
        before, after = (each.means[self.measure] for each in (self.untouched, result))
        gain, harm, unseen = (
            self.gains[result.name],
            self.harms[result.name],
            self._harm_of_unseen(result),
        )
        # Where one side is expected to be better, no sign of a gain is enough to keep the other.
        open_ended = self.prior_mean == 0 and not gain.at_most(smallest_gain(1 - before))
        return categorise(after - before, gain.probability, harm, unseen, open_ended=open_ended)

    def _harm_of_unseen(self, result: SearchResult) -> float:
        """How sure it is that searches for unseen documents lose; 0 if that does not matter."""
        part = self.part("unseen", result.name) if self.answers == "all" else None
        return 0.0 if part is None or part.after >= part.before else part.harm

    def difference(self, result: SearchResult) -> Vector:
        """Return how much the main measure of each query rises."""
        return result.values[self.measure] - self.untouched.values[self.measure]

    def mark(self, result: SearchResult) -> str:
        """Return "+" or "-" if vectors search clearly better or worse than untouched ones."""
        return {Category.CLEARLY_BETTER: "+", Category.WORSE: "-"}.get(self.category(result), "")

    def changes(self, n: int = 5) -> tuple[list[Change], list[Change]]:
        """Return the queries that gain most and those that lose most, the largest change first."""
        before, after = (each.values[self.measure] for each in (self.untouched, self.best))
        difference = self.difference(self.best)

        def change(place: int) -> Change:
            query = int(self.queries[place])
            name = f"query {query}" if self.query_names is None else self.query_names[query]
            return Change(query, name, float(before[place]), float(after[place]))

        order = np.argsort(-difference, kind="stable")
        gaining = [change(i) for i in order[:n] if difference[i] > 0]
        losing = [change(i) for i in order[::-1][:n] if difference[i] < 0]
        return gaining, losing

    def counts(self) -> tuple[int, int]:
        """Return how many queries gain, and how many lose."""
        difference = self.difference(self.best)
        return int((difference > 0).sum()), int((difference < 0).sum())

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict of plain numbers and strings for each search."""
        rows = []
        for result in self.results.values():
            low, high = result.interval(self.measure)
            gain = self.gains.get(result.name)
            figures = (None,) * 4 if gain is None else astuple(gain)
            names = ("gain", "gain_low", "gain_high", "gain_probability")
            rows.append(
                {
                    "name": result.name,
                    **result.means,
                    "low": low,
                    "high": high,
                    "mark": self.mark(result),
                    **dict(zip(names, figures, strict=True)),
                    "harm_probability": self.harms.get(result.name),
                    "fit_seconds": result.seconds,
                }
            )
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and strings, ready for JSON."""
        gaining, losing = self.changes()
        n_gaining, n_losing = self.counts()
        return {
            "n_queries": len(self.queries),
            "n_documents": self.n_documents,
            "n_folds": self.n_folds,
            "folds_left_out": self.left_out,
            "measure": self.measure,
            "headroom": self.headroom,
            "verdict": self.verdict.to_dict(),
            "searches": self.rows(),
            "n_gaining": n_gaining,
            "n_losing": n_losing,
            "gaining": [vars(change) for change in gaining],
            "losing": [vars(change) for change in losing],
        }

    @property
    def title(self) -> str:
        """Title of the table."""
        size = f"{len(self.queries)} queries, {self.n_documents} documents"
        if self.folds is None:
            return f"Searches: {size}"
        of = f" of {self.n_folds + self.left_out}" if self.left_out else ""
        return f"Searches that were held out: {size}, {self.n_folds}{of} folds"

    @property
    def notes(self) -> list[str]:
        """What marks and words mean, and what the best order would reach."""
        legend = "+ better, - worse than untouched vectors, at least 95 % sure."
        best = (
            f"The best order of the first {self.depth} results would have {self.measure} "
            f"{self.headroom:.3f}."
        )
        seen = "Seen documents were relevant to a search that was learned from."
        return [*[legend] * bool(self.adapted), *[seen] * bool(self.parts), best]

    @property
    def _footnotes(self) -> list[str]:
        return self.notes

    @property
    def _headings(self) -> list[str]:
        return [f"{self.measure} (90 % interval)", *list(self.untouched.values)[1:], "fit s"]

    def _groups(self) -> dict[str, list[list[str]]]:
        lines = []
        for result in self.results.values():
            low, high = result.interval(self.measure)
            first, *others = (f"{mean:.3f}" for mean in result.means.values())
            mark = f" {self.mark(result) or ' '}" if self.adapted else ""
            interval = f"({low:.3f} to {high:.3f})"
            cells = [result.name, f"{first} {interval}{mark}", *others, f"{result.seconds:.2f}"]
            lines.append(cells)
        return {"": lines}

    def __repr__(self) -> str:
        return f"<SearchComparison: {', '.join(self)}; {len(self.queries)} queries>"
