"""`RetrievalAdapter`: a score for search, learned from judged queries."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from nearfar.columns.cells import is_frame
from nearfar.deploy.linear_map import LinearMap
from nearfar.evidence.intervals import CONFIDENCE, mean_interval
from nearfar.metrics.points import unit_length
from nearfar.numerics.missing import as_vectors
from nearfar.runtime.history import History
from nearfar.runtime.messages import ShowsFit, bars, counted, fragment
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
from nearfar.search.cutoff import (
    AnswerEvidence,
    Cutoff,
    answers_text,
    choose_cutoff,
    search_target,
)
from nearfar.search.learning import Choice, Corpus, HeldOut, Whitening, choose, shared_pool
from nearfar.search.ranking import (
    Answers,
    Relevance,
    checked_vectors,
    known_vectors,
    search,
    unseen_folds,
    vector_digests,
)
from nearfar.typing import Array, Floats, Ints, Json

if TYPE_CHECKING:
    from nearfar.deploy.formats.sql import SqlSearch

_USE = "Inner products of mapped queries and mapped documents are scores."
_MOST_SCORES = 1 << 24
_VALUES_SHOWN = 10


class RetrievalAdapter(ShowsFit, BaseEstimator):
    """Adapt the vectors of a search to judged queries.

    Learns the score q' W x of a query and a document. W = I are the untouched vectors, and held-out
    queries choose how far to go from there. If no adapter is better than the untouched vectors
    beyond noise, nothing is changed; `chosen_` says so.

    Parameters
    ----------
    side : {"query", "both"}, default="query"
        Adapt queries only, so that documents stay as indexed, or both: "both" may also whiten both
        tables (centre, scale the axes, divide by the length), and needs a new index.
    score : {"cosine", "dot"}, default="cosine"
        What ranks documents now. For vectors of unit length these are the same. "cosine" divides
        vectors by their length first.
    strength : float or "auto", default="auto"
        Strength of the penalty on changes; see `docs/reference/retrieval.md` for its units. "auto"
        is the number of features divided by the number of judged queries.
    max_iter : int, default=12
        The most iterations of L-BFGS.
    cv : int or None, default=5
        Number of folds of the judged queries. Folds are held out one after the other until 200
        queries were held out. None learns without a check on held-out queries.
    answers : {"all", "seen", "unseen"}, default="all"
        Documents that will answer searches: any, those that were relevant to queries learned from,
        or others. With "all", searches for unseen documents must not become worse. With "seen",
        only queries for seen documents count. With "unseen", queries that share a relevant document
        are held out together: use it if questions were generated from documents, or if new
        documents matter most.
    target : str, optional
        Certify a cut-off on the score, "recall>=0.9" or "precision>=0.8", with 95 % confidence on
        half of the judged queries, which are not learned from. If they cannot certify it, `fit`
        raises TargetNotCertifiedError.
    learn : bool, default=True
        False leaves the vectors as they are; all judged queries are for the cut-off.
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
        "score": choice("dot", "cosine"),
        "strength": either(choice("auto"), number(above=0.0)),
        "max_iter": integer(at_least=1),
        "cv": optional(integer(at_least=2)),
        "answers": choice("all", "seen", "unseen"),
        "learn": boolean(),
    }

    def __init__(
        self,
        *,
        side: Literal["query", "both"] = "query",
        score: Literal["cosine", "dot"] = "cosine",
        strength: float | Literal["auto"] = "auto",
        max_iter: int = 12,
        cv: int | None = 5,
        answers: Answers = "all",
        target: str | None = None,
        learn: bool = True,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.side = side
        self.score = score
        self.strength = strength
        self.max_iter = max_iter
        self.cv = cv
        self.answers = answers
        self.target = target
        self.learn = learn
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
        calibration, random_state = relevance, self._random_state()
        if self.target is not None and self.learn:
            relevance, calibration = self.set_aside(queries, relevance)
            relevance.check(len(queries), len(documents))
        relevant = np.bincount(relevance.query[relevance.relevant])
        if (relevant[relevance.queries] == len(documents)).all():
            raise ValueError(
                "Every document is relevant to every judged query; add documents that are not."
            )
        with limited_threads(self.n_jobs):
            self._learn(self._scored(queries), self._scored(documents), relevance, random_state)
        known = np.unique(relevance.document[relevance.relevant])
        learned = slice(None if self.learn else 0)
        self.learned_queries_ = vector_digests(queries[relevance.queries[learned]])
        self.learned_documents_ = vector_digests(documents[known[learned]])
        self.cutoff_: Cutoff | None = None
        self.cutoff_queries_: Ints = np.empty(0, dtype=np.int64)
        if self.target is not None:
            with limited_threads(self.n_jobs):
                self.set_cutoff(Q, X, calibration, repeated=True)
        n_queries = len(self.learned_queries_) or len(self.cutoff_queries_)
        digests = self.learned_queries_, self.learned_documents_, self.cutoff_queries_
        numbers = {"queries": n_queries, "documents": len(documents)}
        self.provenance_: Provenance | None = Provenance.now(numbers, np.concatenate(digests))
        return self

    def _learn(
        self, Q: Floats, X: Floats, relevance: Relevance, random_state: np.random.RandomState
    ) -> None:
        pool = shared_pool(relevance, len(X), random_state)
        corpora = [Corpus.of(Q, X, relevance, pool)]
        if self.side == "both":
            # Held-out queries choose between the tables as they are and whitened ones.
            whitening = corpora[0].geometry.whitening
            corpora.append(Corpus.of(whitening(Q), whitening(X), relevance, pool))
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
        self.W_ = np.eye(len(change)) + chosen.blend * change
        self.chosen_ = chosen
        self.history_ = history
        self.temperature_ = corpora[place].temperature
        self._whitening = corpora[0].geometry.whitening if place else None

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

    def _scored(self, vectors: Floats) -> Floats:
        return unit_length(vectors) if self.score == "cosine" else vectors

    def transform_queries(self, Q: ArrayLike) -> Floats:
        """Map queries, so that inner products with `transform_documents` are the score.

        Parameters
        ----------
        Q : array-like of shape (n_queries, n_features)

        Returns
        -------
        array of shape (n_queries, n_features)
        """
        vectors = self._prepared(Q, "Q")
        return vectors @ self.W_.astype(vectors.dtype) if self.chosen_.helps else vectors

    def transform_documents(self, X: ArrayLike) -> Floats:
        """Map documents; with ``side="query"``, they are not changed.

        Parameters
        ----------
        X : array-like of shape (n_documents, n_features)
            With ``score="cosine"``, vectors are divided by their length.
        """
        return self._prepared(X, "X")

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

    def linear_map(self, documents: bool = False) -> LinearMap:
        """Return `transform_queries`, or `transform_documents`, as other programs need it.

        An adapter that whitens both tables (``chosen_.whitened``) is not a linear map and cannot be
        exported.
        """
        check_is_fitted(self)
        if self._whitening is not None:
            raise ValueError(
                "An adapter that whitens both tables is not a linear map and cannot be exported; "
                "use transform_queries and transform_documents."
            )
        L = np.eye(self.n_features_in_) if documents else np.ascontiguousarray(self.W_.T)
        return LinearMap(L, np.zeros(len(L)), unit_rows=self.score == "cosine")

    def set_aside(self, Q: Floats, relevance: Relevance) -> tuple[Relevance, Relevance]:
        """Return judgements to learn from, and those of a random half of the queries to calibrate.

        Queries may have equal vectors on both sides, as future ones do. With "seen", only queries
        for documents that are learned from calibrate. With "unseen", only queries for others do;
        queries that share documents or vectors with them are not learned from.
        """
        random_state, judged = self._random_state(), np.unique(relevance.query)
        aside = random_state.permutation(len(judged)) <= (len(judged) - 1) // 2
        nothing = ~np.isin(judged, relevance.queries)
        learned = judged[~aside]
        if self.answers == "seen":
            aside &= nothing | relevance.sharing(judged, learned)
        elif self.answers == "unseen":
            code = np.unique(vector_digests(Q[judged]), return_inverse=True)[1]
            folds = unseen_folds(relevance, 2, random_state, groups=code[~nothing])
            if not folds:
                raise ValueError('All judged queries share documents; use answers="all" or "seen".')
            learned, others = folds[0]
            aside = np.where(nothing, aside, np.isin(judged, others))
            aside &= ~np.isin(code, code[np.isin(judged, learned)])
        return relevance.subset(learned), relevance.subset(judged[aside])

    def kneighbors(self, Q: ArrayLike, X: ArrayLike, k: int = 10) -> tuple[Floats, Ints]:
        """Find the documents with the best scores.

        Returns
        -------
        scores, indices : array of shape (n_queries, k)
            Best first.
        """
        ranking = search(self.transform_queries(Q), self.transform_documents(X), k)
        return ranking.scores, ranking.documents

    def set_cutoff(
        self,
        Q: ArrayLike,
        X: ArrayLike,
        relevance: Relevance,
        target: str | None = None,
        *,
        repeated: bool = False,
    ) -> Self:
        """Certify a cut-off on queries that the adapter was not learned from, as `cutoff_`.

        Parameters
        ----------
        Q, X : array-like
            Vectors of queries and of the whole corpus.
        relevance : Relevance
            Judged queries. Those with grades of 0 alone deserve nothing.
        target : str, optional
            "recall>=P" or "precision>=P"; by default the parameter.
        repeated : bool, default=False
            Whether some may have the vectors of queries that were learned from, because these were
            asked again. By default, such queries are refused.

        Raises
        ------
        TargetNotCertifiedError
            If the queries cannot certify the target.
        """
        bound, same = search_target(target or self.target), self.answers == "seen"
        queries, documents = checked_vectors(Q, X)
        relevance.check(len(queries), len(documents))
        judged, row = np.unique(relevance.query, return_inverse=True)
        n_known = np.count_nonzero(known_vectors(queries[judged], self.learned_queries_))
        if n_known and not repeated:
            raise ValueError(
                f"The adapter was learned from {n_known} of these {len(judged)} queries; a "
                "cut-off needs others. If they were asked again, set repeated=True."
            )
        mapped = self.transform_queries(Q), self.transform_documents(X)
        evidence = AnswerEvidence(*mapped, relevance, same_documents=same)
        parts = {}
        if self.chosen_.helps:
            relevant = np.unique(relevance.document[relevance.relevant])
            known = relevant[known_vectors(documents[relevant], self.learned_documents_)]
            seen = np.bincount(row, relevance.relevant & np.isin(relevance.document, known)) > 0
            parts = {"seen": seen, "unseen": ~seen & (evidence.n_relevant > 0)}
        self.cutoff_ = choose_cutoff(evidence, bound, parts)
        self.cutoff_queries_ = vector_digests(queries[judged])
        return self

    def tested_cutoff(self, Q: Floats, X: Floats, relevance: Relevance) -> str:
        """Say what judged queries get that neither learned nor certified the cut-off."""
        if self.cutoff_ is None:
            return ""
        judged = np.unique(relevance.query)
        used = np.concatenate([self.learned_queries_, self.cutoff_queries_])
        fresh = judged[~known_vectors(Q[judged], used)]
        if not len(fresh):
            return "All queries of this report took part in this; test the cut-off on others."
        mapped = self.transform_queries(Q), self.transform_documents(X)
        at = np.array([self.cutoff_.value])
        evidence = AnswerEvidence(*mapped, relevance.subset(fresh), cutoffs=at)
        found = evidence.figures(fresh >= 0)
        text = answers_text({name: float(value[0]) for name, value in found.items()})
        text = f"{len(fresh)} queries of this report took no part in this: {text}"
        target = search_target(self.cutoff_.target)
        figure, _, n = (float(values[0]) for values in evidence.bounds(target, CONFIDENCE))
        if not n > 0:
            return text
        low, high = mean_interval(figure, figure * (1 - figure) / n, max(1, round(n)))
        promise = "as promised"
        if figure < target.value:
            size = "no more" if high >= target.value else "more"
            promise = f"below the promised {target.value:g} by {size} than chance explains"
        interval = f"{figure:.3f} (90 % interval {low:.3f} to {high:.3f})"
        return f"{text} The {target.measure} is {interval}, {promise}."

    def answer(self, Q: ArrayLike, X: ArrayLike, k: int | None = None) -> list[tuple[Floats, Ints]]:
        """Find the documents with a score at or above the cut-off.

        With k, only the best k of them. A certified recall is that of all of them, so that it does
        not hold if this cuts answers short, which a warning says.

        Returns
        -------
        list of (scores, indices)
            One pair of arrays for each query, best first. They are empty if no document answers it.
        """
        if self.cutoff_ is None:
            raise ValueError("The adapter has no cut-off; give it a target, or use set_cutoff.")
        queries, documents = self.transform_queries(Q), self.transform_documents(X)
        least, depth = self.cutoff_.value, len(documents) if k is None else min(k, len(documents))
        answers: list[tuple[Floats, Ints]] = []
        # Few queries at a time, as any number of documents may answer.
        for some in gen_batches(len(queries), max(1, _MOST_SCORES // len(documents))):
            found = search(queries[some], documents, depth)
            rows = zip(found.scores, found.documents, strict=True)
            answers += [(s[s >= least], d[s >= least]) for s, d in rows]
        short = sum(len(s) == depth for s, _ in answers) if depth < len(documents) else 0
        if short:
            warnings.warn(
                f"{short} of {len(answers)} queries get {k} answers (k) and may have more; the "
                "cut-off's promise is for all of them.",
                stacklevel=2,
            )
        return answers

    def to_onnx(
        self, path: str | os.PathLike[str], *, documents: bool = False, dtype: str = "float32"
    ) -> None:
        """Write `transform_queries` as an ONNX model, from the input "X" to the output "mapped".

        Parameters
        ----------
        path : path-like
        documents : bool, default=False
            Write `transform_documents` instead.
        dtype : {"float32", "float64"}, default="float32"
            Type of the input, the output and the arithmetic.
        """
        from nearfar.deploy.formats.onnx import write_onnx

        write_onnx(self.linear_map(documents), path, dtype)

    def to_numpy(self, path: str | os.PathLike[str], *, documents: bool = False) -> None:
        """Write `transform_queries` for programs without nearfar.

        Parameters
        ----------
        path : path-like
            A .py file becomes a module with a function `transform`, which needs only NumPy. A .npz
            file gets the arrays L, b and unit_rows.
        documents : bool, default=False
            Write `transform_documents` instead.
        """
        from nearfar.deploy.formats.numpy_module import write_numpy

        write_numpy(self.linear_map(documents), path, what="An adapter", use=_USE)

    def to_faiss(self, X: ArrayLike | None, index: str = "flat") -> Any:
        """Return a faiss index of documents that maps queries itself.

        Its scores are inner products. Search it with queries as they are, and add documents as they
        are: its ``add`` and ``add_with_ids`` map them. If it is read from a file, both refuse, as
        faiss would map documents as queries; make it again with all documents.

        Parameters
        ----------
        X : array-like of shape (n_documents, n_features)
        index : {"flat", "hnsw", "ivf"} or str, default="flat"
            Exact search, a graph, or lists; or a string for `faiss.index_factory`.
        """
        from nearfar.deploy.formats.faiss import faiss_search_index

        if X is None:
            raise ValueError("The index of an adapter has documents in it; pass them as X.")
        rows: Any = X if is_frame(X) else as_vectors(X, "X")
        return faiss_search_index(self.linear_map(), rows, self.transform_documents, index)

    def to_sql(self, column: str | None, *, dialect: str = "duckdb") -> SqlSearch:
        """Return the search in SQL, on documents as they are, with the cut-off if there is one.

        Parameters
        ----------
        column : str
            Column of the documents' vectors.
        dialect : {"duckdb", "pgvector"}, default="duckdb"
        """
        if not isinstance(column, str):
            raise ValueError("Name the column of the documents' vectors.")
        from nearfar.deploy.formats.sql import SqlSearch, sql_map

        cutoff = None if self.cutoff_ is None else self.cutoff_.value
        statement = sql_map(self.linear_map(), column, dialect)
        return SqlSearch(statement, self.score == "cosine", cutoff)

    def to_dict(self) -> dict[str, Json]:
        """Return what the adapter maps, what was chosen, and how far it is from no change."""
        values = np.linalg.svd(self.W_, compute_uv=False)
        change = float(np.linalg.norm(self.W_ - np.eye(len(values))) / np.sqrt(len(values)))
        return {
            "kind": "adapter",
            "n_features": self.n_features_in_,
            "score": self.score,
            "side": self.side,
            "chosen": asdict(self.chosen_),
            "cutoff": None if self.cutoff_ is None else asdict(self.cutoff_),
            "provenance": asdict(self.provenance_) if self.provenance_ else None,
            "change": change,
            "singular_values": values.tolist(),
        }

    def described(self) -> str:
        """Return the same in words."""
        chosen, figures = self.chosen_, self.to_dict()
        values: Any = figures["singular_values"]
        maps = "documents too" if self.side == "both" else "documents stay as they are"
        lines = [f"adapter of {self.n_features_in_} features for queries; {maps}"]
        lines += [f"Score: {self.score}", str(chosen)]
        if chosen.n_queries:
            lines.append(
                "These queries chose the settings below; the verdict of `nearfar adapt` is on "
                "folds that did not, so that its figures are others."
            )
        if chosen.helps:
            white = ", both tables whitened" if chosen.whitened else ""
            lines.append(
                f"Chosen: {counted(chosen.n_iter, 'iteration')}, strength {chosen.strength:.3g}, "
                f"{100 * chosen.blend:.0f} % of the learned change{white}"
            )
        if self.cutoff_ is not None:
            lines.append(str(self.cutoff_))
        shown = " ".join(f"{value:.3g}" for value in values[:_VALUES_SHOWN])
        more = " ..." if len(values) > _VALUES_SHOWN else ""
        change = f"size of W - I relative to I: {figures['change']:.3g}"
        return "\n".join([*lines, f"Singular values of W: {shown}{more}; {change}"])

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
        header = {"version": "3", "state": json.dumps(state)}
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
        with open_tensors(path, "adapter", versions=(3,)) as file:
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
        adapter._whitening = Whitening(arrays["center"], arrays["whitening"]) if whitened else None
        return adapter
