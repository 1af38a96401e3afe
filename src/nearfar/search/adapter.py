"""`RetrievalAdapter`: a score for search, learned from judged queries."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from functools import partial
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.columns.cells import is_frame
from nearfar.deploy.linear_map import LinearMap
from nearfar.metrics.points import unit_length
from nearfar.runtime.history import History
from nearfar.runtime.messages import ShowsFit, bars, fragment
from nearfar.runtime.parameters import (
    ParameterRule,
    boolean,
    check_parameters,
    choice,
    either,
    instance,
    integer,
    number,
    optional,
)
from nearfar.runtime.tensor_file import Provenance, open_tensors, write_tensors
from nearfar.runtime.threads import limited_threads
from nearfar.search.adapter_choice import Answers, Choice, Corpus, HeldOut, choose, score_spread
from nearfar.search.adapter_use import AdapterUse, set_aside
from nearfar.search.cutoff import Cutoff, search_target
from nearfar.search.ranking import as_vectors, checked_vectors, vector_digests
from nearfar.search.ranking_loss import Geometry, Whitening, shared_pool
from nearfar.search.relevance import Relevance
from nearfar.typing import Array, Floats, Ints, Matrix

# In standard deviations of a query's scores: lower ones count only the first results, higher ones
# also documents that nobody would see.
_TEMPERATURE = 0.5
# The most by default; less than the usual vectors have features, so that maps are small.
_RANK = 64


class RetrievalAdapter(ShowsFit, AdapterUse, BaseEstimator):
    """Adapt the vectors of a search to judged queries.

    Learns the score q' W x of a query and a document. W = I are the untouched vectors, and held-out
    queries choose how far to go from there. If no adapter is better than the untouched vectors
    beyond noise, nothing is changed; `chosen_` says so.

    Parameters
    ----------
    side : {"query", "both"}, default="query"
        "query" maps queries only, so that the index of documents stays valid. "both" may also
        whiten both tables (centre, scale the axes, divide by the length), and needs a new index.
    form : {"full", "low_rank", "identity_plus_low_rank"}, default="full"
        Which matrices W can be. The rank of W or of W - I is limited to `rank` by the approximation
        that changes the scores of documents least.
    rank : int, optional
        By default 64, or half the number of features if that is less.
    score : {"cosine", "dot"}, default="cosine"
        The score of the untouched vectors. For vectors of unit length these are the same. "cosine"
        divides vectors by their length first.
    start : {"pairs", "identity"}, default="pairs"
        Where the search for W begins: at S^(-1/2), with S the covariance of the differences between
        queries and their relevant documents, or at the untouched vectors.
    strength : float or "auto", default="auto"
        Strength of the penalty on changes; see `docs/reference/retrieval.md` for its units. "auto"
        is the number of features divided by the number of judged queries.
    max_iter : int, default=12
        The most iterations of L-BFGS.
    cv : int or None, default=5
        Number of folds of the judged queries. Folds are held out one after the other until 200
        queries were held out. None learns without a check on held-out queries.
    answers : {"all", "seen", "unseen"}, default="all"
        Which documents will answer searches. Queries for a document that was relevant to queries
        learned from gain most, and may do so at the cost of others. With "all", all held-out
        queries count, but those for unseen documents must not lose. With "seen", only queries for
        seen documents count: use it if no others will be asked for. With "unseen", queries that
        share a relevant document are held out together: use it if questions were generated from
        documents, or if new documents matter most.
    target : str, optional
        "recall>=P" or "precision>=P": half of the judged queries are set aside, and certify a
        cut-off on the score with 95 % confidence; only the others are learned from. If they cannot,
        `fit` raises `TargetNotCertifiedError`.
    learn : bool, default=True
        False leaves the vectors as they are; all judged queries are for the cut-off.
    n_negatives : int, default=50
        Hard negatives of each query, mined from corpora of more than 4,096 documents. In smaller
        ones, all documents are negatives.
    random_state : int, RandomState or None, default=None
        Draws the folds, and samples of large corpora. None is 0.
    n_jobs : int, optional
        Number of threads. None and -1 use all cores, -2 all but one.

    Attributes
    ----------
    W_ : array of shape (n_features, n_features)
        The score's matrix, on whitened vectors if `chosen_.whitened`.
    chosen_ : Choice
        What held-out queries chose, with the gain that they saw, for seen and for unseen documents
        apart. ``print(chosen_)`` writes sentences.
    cutoff_ : Cutoff or None
        With a target, what is certified: `answer` leaves out documents with lower scores.
    learned_queries_, learned_documents_, cutoff_queries_ : array of int
        Digests of the queries that it was learned from, of their relevant documents, and of the
        queries that certified the cut-off, all rounded to float32.
    provenance_ : Provenance or None
        When it was learned, by which version and from how much; None if an earlier file does not
        say.
    history_ : History
        Iterations of the last fit; empty if nothing was learned.
    temperature_ : float
    n_features_in_ : int
    feature_names_in_ : array of str
        Names of the columns, if Q is a table with names.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Relevance, RetrievalAdapter
    >>> rng = np.random.RandomState(0)
    >>> topics = rng.normal(size=(20, 8))
    >>> X = np.repeat(topics, 10, axis=0) + rng.normal(size=(200, 8))
    >>> Q = np.repeat(topics, 2, axis=0) + 2 * rng.normal(size=(40, 8)) * [0, 0, 0, 0, 1, 1, 1, 1]
    >>> query, document = np.nonzero(np.arange(40)[:, None] // 2 == np.arange(200) // 10)
    >>> relevance = Relevance(query, document)
    >>> adapter = RetrievalAdapter(score="cosine").fit(Q, X, relevance)
    >>> adapter.chosen_.helps
    True
    >>> scores, documents = adapter.kneighbors(Q[:3], X, k=5)
    >>> documents.shape
    (3, 5)
    """

    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "side": choice("query", "both"),
        "form": choice("full", "low_rank", "identity_plus_low_rank"),
        "rank": optional(integer(at_least=1)),
        "score": choice("dot", "cosine"),
        "start": choice("pairs", "identity"),
        "strength": either(choice("auto"), number(above=0.0)),
        "max_iter": integer(at_least=1),
        "cv": optional(integer(at_least=2)),
        "answers": choice("all", "seen", "unseen"),
        "learn": boolean(),
        "n_negatives": integer(at_least=1),
    }

    def __init__(
        self,
        *,
        side: Literal["query", "both"] = "query",
        form: Literal["full", "low_rank", "identity_plus_low_rank"] = "full",
        rank: int | None = None,
        score: Literal["cosine", "dot"] = "cosine",
        start: Literal["pairs", "identity"] = "pairs",
        strength: float | Literal["auto"] = "auto",
        max_iter: int = 12,
        cv: int | None = 5,
        answers: Answers = "all",
        target: str | None = None,
        learn: bool = True,
        n_negatives: int = 50,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.side = side
        self.form = form
        self.rank = rank
        self.score = score
        self.start = start
        self.strength = strength
        self.max_iter = max_iter
        self.cv = cv
        self.answers = answers
        self.target = target
        self.learn = learn
        self.n_negatives = n_negatives
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, Q: ArrayLike, X: ArrayLike, relevance: Relevance) -> Self:
        """Learn from judged queries.

        Parameters
        ----------
        Q : array-like of shape (n_queries, n_features)
            Vectors of queries. Queries without a relevant document are not learned from.
        X : array-like of shape (n_documents, n_features)
            Vectors of the whole corpus.
        relevance : Relevance
            Which documents answer which queries, as row numbers of Q and X.

        Returns
        -------
        self
        """
        self._check_parameters()
        check_parameters(
            {"relevance": instance(Relevance, "a Relevance")}, {"relevance": relevance}
        )
        queries, documents = checked_vectors(Q, X)
        validate_data(self, Q, skip_check_array=True)
        relevance.check(len(queries), len(documents))
        calibration = relevance
        if self.target is not None and self.learn:
            split = set_aside(queries, relevance, self.answers, self._random_state())
            relevance, calibration = map(relevance.subset, split)
            relevance.check(len(queries), len(documents))
        relevant = np.bincount(relevance.query[relevance.relevant])
        if (relevant[relevance.queries] == len(documents)).all():
            raise ValueError(
                "Every document is relevant to every judged query; add documents that are not."
            )
        with limited_threads(self.n_jobs):
            self._fit(self._scored(queries), self._scored(documents), relevance)
        known = np.unique(relevance.document[relevance.relevant])
        learned = slice(None if self.learn else 0)
        self.learned_queries_ = vector_digests(queries[relevance.queries[learned]])
        self.learned_documents_ = vector_digests(documents[known[learned]])
        self.cutoff_, self.cutoff_queries_ = None, np.empty(0, dtype=np.int64)
        if self.target is not None:
            with limited_threads(self.n_jobs):
                self.set_cutoff(Q, X, calibration, repeated=True)
        n_queries = len(self.learned_queries_) or len(self.cutoff_queries_)
        digests = self.learned_queries_, self.learned_documents_, self.cutoff_queries_
        numbers = {"queries": n_queries, "documents": len(documents)}
        self.provenance_: Provenance | None = Provenance.now(numbers, np.concatenate(digests))
        return self

    def _fit_html(self) -> str:
        if not hasattr(self, "chosen_"):
            return ""
        chosen = self.chosen_
        seen = {"untouched": chosen.before, "adapted": chosen.after} if chosen.n_queries else {}
        return fragment("nDCG@10 of held-out queries", [str(chosen)], bars(seen, "{:.3f}"))

    def _check_parameters(self) -> None:
        rules = self.parameter_rules
        check_parameters(rules, {name: getattr(self, name) for name in rules})
        if self.target is not None:
            search_target(self.target)

    def _random_state(self) -> np.random.RandomState:
        return check_random_state(0 if self.random_state is None else self.random_state)

    def _fit(self, Q: Floats, X: Floats, relevance: Relevance) -> None:
        random_state = self._random_state()
        pool = shared_pool(relevance, len(X), random_state)
        corpora = [self._corpus(Q, X, relevance, pool)]
        if self.side == "both":
            # Held-out queries choose between the tables as they are and whitened ones.
            whitening = corpora[0].geometry.whitening
            corpora.append(self._corpus(whitening(Q), whitening(X), relevance, pool))
        roots = [(c.geometry.power(0.5), c.geometry.power(-0.5)) for c in corpora]
        finish = [partial(self._finished, *each) for each in roots]
        strength = X.shape[1] / len(relevance.queries)
        if self.strength != "auto":
            strength = float(self.strength)
        if not self.learn:
            chosen = Choice(False, 0.0, 0, 0.0)
        elif self.cv is None:
            chosen = Choice(True, strength, self.max_iter, 1.0, whitened=self.side == "both")
        else:
            chosen = choose(
                corpora,
                strength=strength,
                numbers=sorted({0, -(-self.max_iter // 2), self.max_iter}),
                finish=finish,
                n_folds=self.cv,
                answers=self.answers,
                random_state=random_state,
            )
        place = int(chosen.helps and chosen.whitened)
        history, change = History(), np.zeros((X.shape[1],) * 2)
        if chosen.helps:
            problem = corpora[place].problem(relevance.queries)
            problem = problem.mined(chosen.strength, chosen.n_iter)
            (change,) = problem.path(chosen.strength, [chosen.n_iter], history)
        self.W_ = finish[place](chosen.blend * change)
        self.chosen_ = chosen
        self.history_ = history
        self.temperature_ = corpora[place].temperature
        self._set_maps(corpora[0].geometry.whitening if place else None)

    def _corpus(self, Q: Floats, X: Floats, relevance: Relevance, pool: Ints) -> Corpus:
        temperature = _TEMPERATURE * score_spread(Q[relevance.queries], X)
        if not temperature > 0:
            one = Q.shape[1] == 1 and self.score == "cosine"
            why = 'with n_features = 1, use score="dot"' if one else "check the vectors in Q"
            raise ValueError(f"All scores of judged queries are equal; {why}.")
        return Corpus(
            Q,
            X,
            relevance,
            Geometry.of(X),
            pool,
            temperature,
            self.n_negatives,
            matched=self.start == "pairs",
        )

    def _finished(self, root: Matrix, inverse_root: Matrix, change: Matrix) -> Matrix:
        """Return W of the form that is asked for, from a change W - I."""
        identity = np.eye(len(change))
        if self.form == "full":
            return identity + change
        # The matrix of this rank that changes the scores of documents least.
        W = identity + change if self.form == "low_rank" else change
        U, s, Vt = np.linalg.svd(root @ W @ root, full_matrices=False)
        rank = self._rank(len(change))
        best = inverse_root @ ((U[:, :rank] * s[:rank]) @ Vt[:rank]) @ inverse_root
        return best if self.form == "low_rank" else identity + best

    def _rank(self, n_features: int) -> int:
        return min(n_features, self.rank or min(_RANK, max(1, n_features // 2)))

    def _scored(self, vectors: Floats) -> Floats:
        return unit_length(vectors) if self.score == "cosine" else vectors

    def _set_maps(self, whitening: Whitening | None) -> None:
        """Split W between queries and documents."""
        self._whitening = whitening
        self._query_map, self._document_map = self.W_, None
        if self.side == "both" and self.form == "low_rank":
            U, s, Vt = np.linalg.svd(self.W_)
            s = np.sqrt(s[: self._rank(len(s))])
            self._query_map, self._document_map = U[:, : len(s)] * s, Vt[: len(s)].T * s

    def transform_queries(self, Q: ArrayLike) -> Floats:
        """Map queries, so that inner products with `transform_documents` are the score.

        Parameters
        ----------
        Q : array-like of shape (n_queries, n_features)

        Returns
        -------
        array of shape (n_queries, n_features)
            Or `rank` columns, with ``side="both"`` and ``form="low_rank"``.
        """
        vectors = self._prepared(Q, "Q")
        unchanged = not self.chosen_.helps and self.form != "low_rank"
        return vectors if unchanged else vectors @ self._query_map.astype(vectors.dtype)

    def transform_documents(self, X: ArrayLike) -> Floats:
        """Map documents; with ``side="query"``, they are not changed.

        Parameters
        ----------
        X : array-like of shape (n_documents, n_features)
            With ``score="cosine"``, vectors are divided by their length.
        """
        vectors = self._prepared(X, "X")
        if self._document_map is None:
            return vectors
        return vectors @ self._document_map.astype(vectors.dtype)

    @property
    def query_map(self) -> LinearMap:
        """`transform_queries` as other programs need it."""
        check_is_fitted(self)
        return self._linear(self._query_map)

    @property
    def document_map(self) -> LinearMap:
        """`transform_documents` as other programs need it."""
        check_is_fitted(self)
        columns = self._document_map
        return self._linear(np.eye(self.n_features_in_) if columns is None else columns)

    def _linear(self, columns: Matrix) -> LinearMap:
        if self._whitening is not None:
            raise ValueError(
                "An adapter that whitens both tables is not a linear map and cannot be exported; "
                "use transform_queries and transform_documents."
            )
        L = np.ascontiguousarray(columns.T)
        return LinearMap(L, np.zeros(len(L)), unit_rows=self.score == "cosine")

    def _prepared(self, rows: ArrayLike, name: str) -> Floats:
        check_is_fitted(self)
        vectors = as_vectors(rows, name)
        if vectors.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{name} has {vectors.shape[1]} features; "
                f"the adapter was learned on {self.n_features_in_}."
            )
        if is_frame(rows):
            validate_data(self, rows, reset=False, skip_check_array=True)
        vectors = self._scored(vectors)
        return vectors if self._whitening is None else self._whitening(vectors)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the adapter to one safetensors file, readable in any language.

        Its arrays (float64) are W, and center and whitening if both tables are whitened; queries,
        documents and cutoff_queries (int64) are digests of what it was learned from, and of what
        certified the cut-off. Its metadata are "format", "version", "provenance", and in "state"
        the JSON of the parameters, of what held-out queries chose and of the cut-off.
        """
        check_is_fitted(self)
        arrays: dict[str, Array] = {"W": self.W_}
        arrays |= {"queries": self.learned_queries_, "documents": self.learned_documents_}
        arrays["cutoff_queries"] = self.cutoff_queries_
        if self._whitening is not None:
            arrays |= {"center": self._whitening.center, "whitening": self._whitening.map}
        parameters = self.get_params()
        if isinstance(self.random_state, np.random.RandomState):
            parameters["random_state"] = None
        state = {
            "parameters": parameters,
            "chosen": asdict(self.chosen_),
            "temperature": self.temperature_,
            "cutoff": None if self.cutoff_ is None else asdict(self.cutoff_),
        }
        header = {"version": "2", "state": json.dumps(state)}
        header |= self.provenance_.metadata if self.provenance_ is not None else {}
        write_tensors(path, "adapter", arrays, header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an adapter that `save` wrote; its history is empty.

        Raises
        ------
        OSError
            If the file cannot be opened.
        ValueError
            If it is not an adapter, or is damaged.
        """
        with open_tensors(path, "adapter", versions=(2,)) as file:
            arrays = {name: file[name] for name in file}
            W = arrays["W"]
            square = W.ndim == 2 and W.shape[0] == W.shape[1]
            whole = {"center", "whitening"}.isdisjoint(arrays) or (
                arrays["center"].shape == W.shape[:1] and arrays["whitening"].shape == W.shape
            )
            finite = all(np.isfinite(array).all() for array in arrays.values())
            if not (square and whole and finite):
                raise ValueError("its arrays do not fit together")
            state = json.loads(file.metadata["state"])
            provenance = Provenance.read(file.metadata)
        try:
            chosen = state["chosen"]
            adapter = cls(**state["parameters"])
            adapter._check_parameters()
            for part in ("seen", "unseen"):
                chosen[part] = HeldOut(**chosen[part]) if chosen.get(part) else None
            adapter.chosen_ = Choice(**chosen)
            adapter.temperature_ = float(state["temperature"])
            cutoff = state["cutoff"]
            adapter.cutoff_ = None if cutoff is None else Cutoff(**cutoff)
            adapter.learned_queries_ = arrays["queries"].astype(np.int64)
            adapter.learned_documents_ = arrays["documents"].astype(np.int64)
            adapter.cutoff_queries_ = arrays["cutoff_queries"].astype(np.int64)
        except (TypeError, LookupError, ValueError) as error:
            raise ValueError(f"{path}: not a valid adapter: {error}.") from error
        adapter.W_, adapter.provenance_ = arrays["W"], provenance
        adapter.history_ = History()
        adapter.n_features_in_ = len(adapter.W_)
        whitened = "whitening" in arrays
        adapter._set_maps(Whitening(arrays["center"], arrays["whitening"]) if whitened else None)
        return adapter
