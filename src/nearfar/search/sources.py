"""`SourceWeights`: how much each source of a search counts, learned from judged queries.

    score(q, x) = sum_b w_b s_b(q, x)

Squared distances of parts add, and so do scores: s_b is the cosine of one pair of vectors, BM25, a
score that another program gives, or a number of the document. What a source is follows from where
its name occurs and from what it holds:

    queries and documents, vectors      their cosine, or their inner product
    queries and documents, texts        BM25 of the texts, as Lucene computes it
    queries only                        given scores: a row for each query, a column for each
                                        document
    documents only                      a number of each document, such as a price or a date

BM25 has k1 = 1.2 and b = 0.75. Words are lower-case, of two or more letters or digits, and are
neither stemmed nor left out.

Weights are learned from judged queries and chosen on held-out ones. A query i scores its candidates
j by s_ij = sum_b w_b z_ijb. z are the scores of the sources in units of their own: how far the ten
best documents of a query are above its mean document, on average over queries (for numbers, which
do not depend on the query, their standard deviation). With y_ij the share of
document j in the grades of query i, the weights minimise

    1/n sum_i sum_j y_ij (-log p_ij) + strength/2 ||w/t - c||^2        w_b >= 0 unless b is a number

with p_ij = exp(s_ij) / sum_k exp(s_ik). c is 1, and 0 for numbers, whose sign is learned: without
evidence, sources have equal weights, and numbers none. t is the size of weights: the largest of
those that minimise the loss of equal weights and of single sources. (That of equal weights alone is
almost 0 if one source is noise, and would hold all weights there.) Candidates are the documents
that stand first by some source: these compete for the first results.

Held-out queries choose between equal weights, several strengths, and each source alone, by nDCG@10.
Of those within half a standard error of the best, the simplest is taken, in this order.
What weights reach is measured on queries that took no part in learning or choosing: folds of the
judged queries are held out, and everything is learned and chosen from the others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize
from scipy.stats import t as student
from sklearn.base import BaseEstimator
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted

from nearfar.evidence.intervals import CONFIDENCE
from nearfar.measures.retrieval import discounts, ideal_dcg
from nearfar.metrics.points import row_digests, unit_length
from nearfar.numerics.missing import as_vectors
from nearfar.runtime.messages import counted, note, optional_package
from nearfar.runtime.parameters import ParameterRule, check_parameters, choice, integer
from nearfar.runtime.tensor_file import Provenance, open_tensors, write_tensors
from nearfar.search.learning import DEPTH, FEWEST_QUERIES
from nearfar.search.ranking import JudgedRanking, Ranking, Relevance, checked_vectors, largest
from nearfar.typing import Array, Bools, Floats, Ints, Matrix, Vector

Kind = Literal["vectors", "texts", "scores", "numbers"]


class Source(NamedTuple):
    """A source: what it is, and its scores.

    Attributes
    ----------
    scores: Row numbers of queries -> scores, a row for each query and a column for each
        document.
    """

    kind: Kind
    scores: Callable[[Ints], Floats]


def read_sources(
    queries: Mapping[str, Any], documents: Mapping[str, Any], score: str
) -> dict[str, Source]:
    """Return the sources by name, documents' first; see the module's docstring."""
    if not queries:
        raise ValueError("Numbers alone are no search; add vectors, texts or scores of queries.")
    sources: dict[str, Source] = {}
    for name in dict.fromkeys([*documents, *queries]):
        if name not in queries:
            every = np.ones((len(next(iter(queries.values()))), 1))
            numbers = as_vectors(np.reshape(documents[name], (-1, 1)), name)
            sources[name] = Source("numbers", _products(every, numbers))
        elif name not in documents:
            sources[name] = Source("scores", as_vectors(queries[name], name).__getitem__)
        elif isinstance(next(iter(documents[name])), str):
            sources[name] = Source("texts", _bm25(queries[name], documents[name]))
        else:
            Q, X = (scored(V, score) for V in checked_vectors(queries[name], documents[name]))
            sources[name] = Source("vectors", _products(Q, X))
    first = np.zeros(1, dtype=np.intp)
    sizes = {name: source.scores(first).shape[1] for name, source in sources.items()}
    if len({len(queries[name]) for name in queries}) > 1 or len({*sizes.values()}) > 1:
        raise ValueError(
            "All sources need the same queries and the same documents; the sources have "
            f"{sizes} documents. Vectors need the same name in queries and documents."
        )
    return sources


def _products(Q: Floats, X: Floats) -> Callable[[Ints], Floats]:
    return lambda rows: Q[rows] @ X.T


def scored(vectors: Floats, score: str) -> Floats:
    """Return vectors whose inner products are the score."""
    return unit_length(vectors) if score == "cosine" else vectors


def _bm25(queries: Sequence[str], documents: Sequence[str]) -> Callable[[Ints], Floats]:
    bm25s = optional_package("bm25s", "BM25", "nearfar[search]")
    asked, words = (
        bm25s.tokenize(list(texts), stopwords=None, return_ids=False, show_progress=False)
        for texts in (queries, documents)
    )
    index = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    index.index(words, show_progress=False)
    # bm25s does not take a query without words.
    none = np.zeros(len(words), dtype=np.float32)
    return lambda rows: np.array([index.get_scores(asked[r]) if asked[r] else none for r in rows])


EQUAL, ALONE = "equal weights", " alone"
"""Name of a candidate, and the end of the names of single sources."""

# Documents of each query that are ranked, and those of them that the loss counts. More in the loss
# make weights worse for the first ten results: on Cranfield, CLINC150 and newsgroups, 20 to 50 were
# best, and 200 lost up to 0.01.
_RANKED, _COMPETING = 300, 50
# From almost equal weights to free ones.
_STRENGTHS = (0.3, 0.1, 0.03, 0.01, 0.001)
# In standard errors. With 1, useless sources keep weight too often; with 0, 20 queries choose by
# chance (benchmarks/sources.py).
_WITHIN = 0.5
# Scores that are held at a time; it bounds the memory.
_MAX_ELEMENTS = 1 << 24


@dataclass(frozen=True, eq=False)
class JudgedScores:
    """Scores of the sources for judged queries and their candidates.

    Attributes
    ----------
    scores: shape (n_queries, n_candidates, n_sources). Candidates that stand first by some
        source come first.
    places: shape (n_queries, n_candidates). Of the documents in a random order, by which
        those with equal scores are ranked: in tables that are sorted by popularity, the
        order of rows would be the best source.
    gains: shape (n_queries, n_candidates). Grades divided by the largest DCG of the query.
    heights: shape (n_queries, n_sources). How far the best documents are above the mean
        one.
    """

    names: list[str]
    is_number: Bools
    scores: Array
    places: Ints
    gains: Matrix
    heights: Matrix

    @classmethod
    def of(cls, sources: Mapping[str, Source], relevance: Relevance, queries: Ints) -> JudgedScores:
        """Score all documents for some judged queries, a few queries at a time."""
        is_number = np.array([source.kind == "numbers" for source in sources.values()])
        n_documents = next(iter(sources.values())).scores(queries[:1]).shape[1]
        step = max(1, _MAX_ELEMENTS // (n_documents * len(sources)))
        depth = min(_RANKED, n_documents)
        n_rows = int(relevance.query.max()) + 1
        ideal = ideal_dcg(relevance.query, relevance.grade, n_rows, discounts(DEPTH))
        order, parts = np.random.RandomState(0).permutation(n_documents), []
        for rows in np.split(queries, range(step, len(queries), step)):
            S = np.stack([source.scores(rows)[:, order] for source in sources.values()])
            S = S.astype(np.float64)
            top = np.stack([largest(table, depth) for table in S])
            best = np.take_along_axis(S, top[..., :DEPTH], axis=2).mean(axis=2) - S.mean(axis=2)
            heights = np.where(is_number[:, None], S.std(axis=2), best).T
            first = top[~is_number].transpose(1, 2, 0).reshape(len(rows), -1).tolist()
            places = np.array([list(islice(dict.fromkeys(row), depth)) for row in first])
            scores = np.take_along_axis(S, places[None], axis=2).transpose(1, 2, 0)
            grades = JudgedRanking(Ranking(rows, order[places], scores), relevance).grades
            parts.append((scores, places, grades / ideal[rows, None], heights))
        return cls(list(sources), is_number, *map(np.concatenate, zip(*parts, strict=True)))

    def take(self, rows: Ints, without: str = "") -> JudgedScores:
        """Return some of the queries; a source that is left out has scores of 0."""
        scores = self.scores[rows]
        scores[..., [name == without for name in self.names]] = 0.0
        places, gains, heights = self.places[rows], self.gains[rows], self.heights[rows]
        return replace(self, scores=scores, places=places, gains=gains, heights=heights)

    @property
    def units(self) -> Vector:
        """What the scores of each source are divided by."""
        units = self.heights.mean(axis=0)
        return np.where(units > 0, units, 1.0)

    def ndcg(self, weights: Vector) -> Vector:
        """Return nDCG@10 of each query."""
        first = np.lexsort((self.places, -(self.scores @ weights)))[:, :DEPTH]
        return np.take_along_axis(self.gains, first, axis=1) @ discounts(first.shape[1])

    def candidates(self) -> dict[str, Vector]:
        """Return weights of the scores by name, from the simplest on."""
        Z, Y = self.scores[:, :_COMPETING] / self.units, self.gains[:, :_COMPETING]
        found = Y.sum(axis=1) > 0
        Z, Y = Z[found], Y[found] / Y[found].sum(axis=1, keepdims=True)
        equal = np.where(self.is_number, 0.0, 1.0)
        scale, one = 1e-3, np.zeros(1, dtype=bool)
        for way in (equal, *np.diag(equal)):
            size = _minimized((Z @ way)[..., None], Y, np.ones(1), 0.0, one)[0]
            scale = max(scale, size * way.sum() / equal.sum())
        weights = {EQUAL: equal}
        for strength in _STRENGTHS:
            learned = _minimized(Z, Y, scale * equal, strength, self.is_number)
            weights[f"learned weights ({strength:g})"] = learned
        alone = zip(self.names, np.diag(equal), strict=True)
        weights |= {name + ALONE: row for name, row in alone if row.any()}
        return {name: row / self.units for name, row in weights.items()}

    def choose(self, n_folds: int, seed: int) -> tuple[str, Vector]:
        """Return the candidate that held-out queries choose, learned from all queries."""
        trials = []
        for train, test in folds(len(self.gains), n_folds, seed):
            learned, held_out = self.take(train).candidates(), self.take(test)
            trials.append([held_out.ndcg(weights) for weights in learned.values()])
        values, candidates = np.hstack(trials), self.candidates()
        behind = values[values.mean(axis=1).argmax()] - values
        error = behind.std(axis=1, ddof=1) / np.sqrt(len(self.gains))
        place = int(np.argmax(behind.mean(axis=1) <= _WITHIN * error))
        return list(candidates.items())[place]


def folds(n: int, n_folds: int, seed: int) -> list[tuple[Ints, Ints]]:
    """Return rows to learn from and rows to test on."""
    return list(KFold(min(n, n_folds), shuffle=True, random_state=seed).split(np.arange(n)))


def _minimized(Z: Array, Y: Matrix, start: Vector, strength: float, is_number: Bools) -> Vector:
    """Return the weights with the smallest objective; `start` is t c."""
    penalty = strength / start.max() ** 2

    def objective(w: Vector) -> tuple[float, Vector]:
        scores = Z @ w
        scores -= scores.max(axis=1, keepdims=True)
        P = np.exp(scores)
        total = P.sum(axis=1, keepdims=True)
        loss = (np.log(total).sum() - np.sum(Y * scores)) / len(Z)
        slope = np.tensordot(P / total - Y, Z, 2) / len(Z)
        return loss + penalty / 2 * np.sum((w - start) ** 2), slope + penalty * (w - start)

    if not len(Z):
        return start
    bounds = [(None if free else 0.0, None) for free in is_number]
    return np.asarray(minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds).x)


# Weights are few, and more queries hardly change them.
_MOST_QUERIES = 1000
# The smallest gain in nDCG@10 that matters.
_SMALL = 0.01
# Equal results of all queries do not prove that there is no difference: that of one more query.
_UNSEEN = 0.1
_SINGLE = "the best single source"
# Scores that differ by less are equal but for rounding.
_FLAT = 1e-9


@dataclass(frozen=True)
class HeldOutGain:
    """How much better weights search than something else, on held-out queries.

    Attributes
    ----------
    other: Mean nDCG@10 of the other.
    gain, low, high: Difference, and its 90 % interval.
    """

    other: float
    gain: float
    low: float
    high: float

    @classmethod
    def between(cls, one: Vector, other: Vector, n_folds: int) -> HeldOutGain:
        """Compare nDCG@10 of the same queries.

        Fits to other queries have other gains: the variance is that of cross-validation (Nadeau,
        Bengio 2003).
        """
        n, gain = len(one), float(np.mean(one - other))
        variance = (1 + n_folds / (n_folds - 1)) * float(np.var(one - other, ddof=1)) / n
        error = (variance + (_UNSEEN / n) ** 2) ** 0.5
        reach = float(student.ppf((1 + CONFIDENCE) / 2, n - 1)) * error
        return cls(float(other.mean()), gain, gain - reach, gain + reach)

    @property
    def verdict(self) -> Literal["helps", "does not help", "harms", "cannot tell"]:
        """Whether there is a gain; "does not help" if it is at most 0.01."""
        if self.low > 0 or self.high < 0:
            return "helps" if self.low > 0 else "harms"
        return "does not help" if self.high <= _SMALL else "cannot tell"

    def __str__(self) -> str:
        return f"{self.gain:z.3f} ({self.low:z.3f} to {self.high:z.3f})"


@dataclass(frozen=True)
class WeighedSources:
    """What was chosen, and what it reaches on held-out queries; prints as a table.

    Attributes
    ----------
    name: "equal weights", "learned weights (STRENGTH)" or "SOURCE alone".
    n_queries: Judged queries that were learned from.
    ndcg: Mean nDCG@10 of held-out queries. All judged queries make the choice; this and the
        gains are of queries that took no part in it.
    weights, shares: Of each source.
    adds: For each source, the gain over weights of all others, learned and chosen in the
        same way.
    over: Gain over "the best single source" and over "equal weights"; queries learned from
        choose that source.
    """

    name: str
    n_queries: int
    ndcg: float
    weights: dict[str, float]
    shares: dict[str, float]
    adds: dict[str, HeldOutGain]
    over: dict[str, HeldOutGain]

    @property
    def outcome(self) -> Literal["better", "same", "worse"]:
        """Whether weights are better than equal ones and than the best single source."""
        verdicts = {gain.verdict for gain in self.over.values()}
        return "better" if verdicts == {"helps"} else "worse" if "harms" in verdicts else "same"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and strings, ready for JSON."""
        verdicts = {name: gain.verdict for name, gain in self.adds.items()}
        return asdict(self) | {"verdicts": verdicts, "outcome": self.outcome}

    def __str__(self) -> str:
        width = max(map(len, ["source", *self.adds]))
        lines = [f"{'source':<{width}}      weight  share  it adds (90 % interval)"]
        for name, gain in self.adds.items():
            figures = f"{self.weights[name]:10.4g}  {self.shares[name]:5.0%}  {gain!s:<24}"
            lines.append(f"{name:<{width}}  {figures} {gain.verdict}")
        lines.append(f"Chosen from {self.n_queries} judged queries: {self.name}.")
        lines.append(f"nDCG@10 of queries that took no part in this: {self.ndcg:.3f}.")
        lines += [f"Gain over {k} ({gain.other:.3f}): {gain}." for k, gain in self.over.items()]
        worse = [name for name, gain in self.over.items() if gain.verdict == "harms"]
        unclear = [
            name
            for name, gain in self.over.items()
            if gain.verdict not in ("helps", "harms")
            and self.name != name
            and not (name == _SINGLE and self.name.endswith(ALONE))
        ]
        if worse:
            lines.append(f"This choice is worse than {' and '.join(worse)}: use that instead.")
        elif unclear:
            lines.append(
                f"This choice is not shown to be better than {' and '.join(unclear)}: keep the "
                "search that you have, or judge more queries."
            )
        return "\n".join(lines)


class SourceWeights(BaseEstimator):
    """Learn how much each source of a search counts, from 20 or more judged queries.

    The score of a document is a weighted sum of the scores of its sources: cosines of several
    vectors, BM25 of texts, scores of another program, and numbers such as a price or a date.
    Without evidence, sources have equal weights. Held-out queries choose how far to go from there,
    or take one source alone.

    Parameters
    ----------
    score : {"cosine", "dot"}, default="cosine"
        How vectors are compared.
    cv : int, default=5
        Number of folds of the judged queries.
    random_state : int, default=0
        Seed of the folds.

    Attributes
    ----------
    weights_ : dict of str to float
        What the score of each source is multiplied by. Only those of numbers may be negative.
    shares_ : dict of str to float
        The part of each source in the score; they sum to 1.
    chosen_ : WeighedSources
        What was chosen, what it reaches on held-out queries, and whether each source helps.
        ``print(chosen_)`` writes a table.
    provenance_ : Provenance
        When they were learned, by which version and from which judgements.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Relevance, SourceWeights
    >>> rng = np.random.default_rng(0)
    >>> title, picture = rng.normal(size=(200, 8)), rng.normal(size=(200, 8))
    >>> documents = {"title": title, "picture": picture, "price": rng.uniform(1, 9, size=200)}
    >>> queries = {"title": title[:40] + rng.normal(size=(40, 8)), "picture": picture[40:80]}
    >>> weights = SourceWeights().fit(queries, documents, Relevance(range(40), range(40)))
    >>> weights.chosen_.adds["title"].verdict, weights.shares_["picture"] < 0.1
    ('helps', True)
    """

    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "score": choice("cosine", "dot"),
        "cv": integer(at_least=2),
        "random_state": integer(at_least=0),
    }

    def __init__(
        self, *, score: Literal["cosine", "dot"] = "cosine", cv: int = 5, random_state: int = 0
    ) -> None:
        self.score = score
        self.cv = cv
        self.random_state = random_state

    def fit(
        self, queries: Mapping[str, Any], documents: Mapping[str, Any], relevance: Relevance
    ) -> Self:
        """Learn from judged queries.

        Parameters
        ----------
        queries, documents : mapping of str to array or sequence of str
            Sources by name. A name in both has vectors, or texts for BM25 (needs bm25s). One in
            documents only has a number for each document. One in queries only has scores that
            another program gave, a column for each document.
        relevance : Relevance
            Which documents answer which queries, as row numbers. No query should be one of the
            documents.

        Returns
        -------
        self
        """
        check_parameters(self.parameter_rules, self.get_params())
        sources = read_sources(queries, documents, self.score)
        n_documents = next(iter(sources.values())).scores(np.zeros(1, dtype=np.intp)).shape[1]
        relevance.check(len(next(iter(queries.values()))), n_documents)
        shuffled = np.random.default_rng(self.random_state).permutation(relevance.queries)
        rows = shuffled[:_MOST_QUERIES]
        if len(rows) < FEWEST_QUERIES:
            raise ValueError(f"Weights need {FEWEST_QUERIES} judged queries; got {len(rows)}.")
        judged = JudgedScores.of(sources, relevance, rows)
        spreads = np.ptp(judged.scores, axis=1).max(axis=0)
        for each, spread in zip(sources, spreads, strict=True):
            if spread <= _FLAT:
                raise ValueError(f"{each} gives all documents of a query the same score; drop it.")
        name, weights = judged.choose(self.cv, self.random_state)
        shares = np.abs(weights) * judged.units
        total = shares.sum() or 1.0
        self.kinds_: dict[str, Kind] = {each: source.kind for each, source in sources.items()}
        self.weights_ = dict(zip(sources, (weights / total).tolist(), strict=True))
        self.shares_ = dict(zip(sources, (shares / total).tolist(), strict=True))
        # The mean and the standard deviation: raw dates are too large for float32.
        self.numbers_ = {
            each: (float(np.mean(documents[each])), float(np.std(documents[each])) or 1.0)
            for each in sources
            if each not in queries
        }
        seen, n_folds = self._held_out(judged), min(self.cv, len(rows))
        learned = seen.pop("")
        gains = {way: HeldOutGain.between(learned, seen[way], n_folds) for way in seen}
        over = {other: gains.pop(other) for other in (_SINGLE, EQUAL)}
        self.chosen_ = WeighedSources(
            name, len(rows), float(learned.mean()), self.weights_, self.shares_, gains, over
        )
        judgements = np.column_stack([relevance.query, relevance.document, relevance.grade])
        numbers = {"queries": len(rows), "documents": n_documents}
        self.provenance_ = Provenance.now(numbers, row_digests(judgements), self.chosen_.outcome)
        return self

    def _held_out(self, judged: JudgedScores) -> dict[str, Vector]:
        """Return nDCG@10 of held-out queries with all sources, without each, and of the others."""
        found: dict[str, list[Vector]] = {}
        for train, test in folds(len(judged.gains), self.cv, self.random_state):
            known, tested = judged.take(train), judged.take(test)
            ways = known.candidates()
            alone = [way for way in ways if way.endswith(ALONE)]
            single = max(alone, key=lambda way: float(known.ndcg(ways[way]).mean()))
            found.setdefault(EQUAL, []).append(tested.ndcg(ways[EQUAL]))
            found.setdefault(_SINGLE, []).append(tested.ndcg(ways[single]))
            for name in [*judged.names, ""]:
                weights = judged.take(train, name).choose(self.cv, self.random_state)[1]
                found.setdefault(name, []).append(judged.take(test, name).ndcg(weights))
        return {way: np.concatenate(values) for way, values in found.items()}

    def scores(self, queries: Mapping[str, Any], documents: Mapping[str, Any]) -> Floats:
        """Return the score of each document for each query.

        Parameters
        ----------
        queries, documents : mapping of str to array or sequence of str
            The sources that have weight, as in `fit`.

        Returns
        -------
        array of shape (n_queries, n_documents)
        """
        check_is_fitted(self)
        used = {name: weight for name, weight in self.weights_.items() if weight}
        asked, given = ({n: side[n] for n in used if n in side} for side in (queries, documents))
        sources = read_sources(asked, given, self.score)
        rows = np.arange(len(next(iter(asked.values()))))
        return np.add.reduce([weight * sources[n].scores(rows) for n, weight in used.items()])

    def transform_queries(self, queries: Mapping[str, Any]) -> Floats:
        """Return one vector per query; inner products with `transform_documents` are the score.

        Numbers add a constant to the score. Weights are in the queries only, so that documents stay
        as indexed if weights change. Sources without weight are left out. Texts and scores cannot
        be in a vector: add ``weights_`` times their scores.
        """
        vectors, numbers = self._indexed()
        blocks = [w * scored(as_vectors(queries[n], n), self.score) for n, w in vectors.items()]
        sizes = np.array([w * self.numbers_[n][1] for n, w in numbers.items()])
        return np.hstack([*blocks, np.tile(sizes, (len(blocks[0]), 1))]).astype(blocks[0].dtype)

    def transform_documents(self, documents: Mapping[str, Any]) -> Floats:
        """Return one vector per document; see `transform_queries`."""
        vectors, numbers = self._indexed()
        blocks = [scored(as_vectors(documents[n], n), self.score) for n in vectors]
        for n in numbers:
            mean, spread = self.numbers_[n]
            blocks.append((np.reshape(documents[n], (-1, 1)) - mean) / spread)
        return np.hstack(blocks).astype(blocks[0].dtype)

    def _indexed(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return weights of vectors and of numbers, and note what cannot be in a vector."""
        check_is_fitted(self)
        kinds = ("vectors", "numbers", "texts", "scores")
        used: dict[str, dict[str, float]] = {kind: {} for kind in kinds}
        for name, weight in self.weights_.items():
            if weight:
                used[self.kinds_[name]][name] = weight
        for name, weight in (used["texts"] | used["scores"]).items():
            note(f"{name} cannot be in a vector; add {weight:.4g} times its score.")
        if not used["vectors"]:
            raise ValueError("No source of vectors has weight, so that there is nothing to index.")
        return used["vectors"], used["numbers"]

    def to_dict(self) -> dict[str, Any]:
        """Return what was chosen, and when, ready for JSON."""
        made = asdict(self.provenance_)
        return {"kind": "sources", **self.chosen_.to_dict(), "provenance": made}

    def described(self) -> str:
        """Return the same in words."""
        return f"weights of {counted(len(self.weights_), 'source')}\n{self.chosen_}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the weights to one safetensors file, readable in any language.

        Its array is weights (float64), in the order of "kinds" in the JSON of its metadata "state".
        """
        check_is_fitted(self)
        state = {"parameters": self.get_params(), "kinds": self.kinds_, "numbers": self.numbers_}
        text = json.dumps(state | {"chosen": asdict(self.chosen_)})
        weights = np.array(list(self.weights_.values()))
        header = {"version": "1", "state": text, **self.provenance_.metadata}
        write_tensors(path, "sources", {"weights": weights}, header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read weights that `save` wrote.

        Raises
        ------
        OSError
            If the file cannot be opened.
        ValueError
            If it has no weights, or is damaged.
        """
        with open_tensors(path, "sources") as file:
            state = json.loads(file.metadata["state"])
            made = Provenance.read(file.metadata)
            if made is None:
                raise ValueError("it does not say when it was made")
            learned, chosen = cls(**state["parameters"]), state["chosen"]
            for part in ("adds", "over"):
                chosen[part] = {name: HeldOutGain(**gain) for name, gain in chosen[part].items()}
            learned.chosen_ = WeighedSources(**chosen)
            learned.weights_, learned.shares_ = chosen["weights"], chosen["shares"]
            learned.kinds_, learned.numbers_ = state["kinds"], state["numbers"]
            learned.provenance_ = made
        return learned
