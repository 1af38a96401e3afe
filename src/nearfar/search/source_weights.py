"""`SourceWeights`: how much each source of a search counts, learned from judged queries.

    score(q, x) = sum_b w_b s_b(q, x)

Squared distances of parts add, and so do scores: s_b is the cosine of one pair of vectors, BM25, a
score that another program gives, or a number of the document (`sources`). What weights reach is
measured on queries that took no part in learning or choosing: folds of the judged
queries are held out, and everything is learned and chosen from the others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.stats import t as student
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from nearfar.evidence.intervals import CONFIDENCE
from nearfar.metrics.training_facts import row_digests
from nearfar.runtime.messages import note
from nearfar.runtime.parameters import ParameterRule, check_parameters, choice, integer
from nearfar.runtime.tensor_file import Provenance, open_tensors, write_tensors
from nearfar.search.adapter_choice import FEWEST_QUERIES
from nearfar.search.ranking import as_vectors
from nearfar.search.relevance import Relevance
from nearfar.search.sources import ALONE, EQUAL, JudgedScores, Kind, folds, read_sources, scored
from nearfar.typing import Floats, Vector

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
        used: dict[str, dict[str, float]] = {
            "vectors": {},
            "numbers": {},
            "texts": {},
            "scores": {},
        }
        for name, weight in self.weights_.items():
            if weight:
                used[self.kinds_[name]][name] = weight
        for name, weight in (used["texts"] | used["scores"]).items():
            note(f"{name} cannot be in a vector; add {weight:.4g} times its score.")
        if not used["vectors"]:
            raise ValueError("No source of vectors has weight, so that there is nothing to index.")
        return used["vectors"], used["numbers"]

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
