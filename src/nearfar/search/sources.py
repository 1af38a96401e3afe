"""Sources of a search, several scores of the same documents by name, and their weights.

What a source is follows from where its name occurs and from what it holds:

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
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.model_selection import KFold

from nearfar.measures.retrieval import discounts, ideal_dcg
from nearfar.metrics.points import unit_length
from nearfar.runtime.messages import optional_package
from nearfar.search.adapter_choice import DEPTH
from nearfar.search.ranking import JudgedRanking, Ranking, as_vectors, checked_vectors, largest
from nearfar.search.relevance import Relevance
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
        step, depth = (
            max(1, _MAX_ELEMENTS // (n_documents * len(sources))),
            min(_RANKED, n_documents),
        )
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
