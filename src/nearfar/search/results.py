"""The result of a comparison of searches: figures, intervals, a verdict and what changed.

The verdict is on the main measure, nDCG@k. How sure it is comes from `evidence.gain`: the
probability that adapting makes a practical difference for the better and, with the roles
exchanged, for the worse. Marks in tables are the same probabilities. There is no test beside them:
a test by folds has five numbers to go by, and misses most gains that are real
(`benchmarks/search_calibration.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri
from scipy.stats import t as student

from nearfar.comparison.table import GAIN_NAMES, ResultsTable
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
from nearfar.runtime.messages import optional_package
from nearfar.search.adapter_choice import Answers
from nearfar.search.ranking import JudgedRanking, Ranking
from nearfar.typing import Ints, Json, Vector

UNTOUCHED = "untouched"


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
            rows.append(
                {
                    "name": result.name,
                    **result.means,
                    "low": low,
                    "high": high,
                    "mark": self.mark(result),
                    **dict(zip(GAIN_NAMES, figures, strict=True)),
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

    def to_pandas(self) -> Any:
        """Return the measures of every query as a pandas DataFrame; needs pandas.

        Its columns are pairs of a search and a measure.
        """
        pandas = optional_package("pandas", "A DataFrame", "pandas")
        columns = {
            (result.name, measure): values
            for result in self.results.values()
            for measure, values in result.values.items()
        }
        return pandas.DataFrame(columns, index=pandas.Index(self.queries, name="query"))

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


def scored(
    name: str,
    judged: JudgedRanking,
    k: int,
    seconds: float = 0.0,
    groups: Ints | None = None,
    folds: Ints | None = None,
    shared: Any = None,
) -> SearchResult:
    """Measure a search; the main measure is nDCG@k."""
    depth = judged.ranking.documents.shape[1]
    searches = JudgedSearches(judged, k, depth)
    values = {measure.name: measure.function(searches) for measure in search_measures(k, depth)}
    return SearchResult(name, judged.ranking, values, seconds, groups, folds, shared)
