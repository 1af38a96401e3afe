"""What a fitted adapter does: searches, with or without a cut-off, and exports.

Queries that are set aside certify the cut-off. Other programs get the adapter's maps as an ONNX
model, a module, an index or SQL.
"""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import gen_batches

from nearfar.columns.cells import is_frame
from nearfar.deploy.formats.sql import SqlSearch, sql_map
from nearfar.deploy.linear_map import LinearMap
from nearfar.evidence.intervals import CONFIDENCE, mean_interval
from nearfar.search.adapter_choice import Answers, Choice
from nearfar.search.cutoff import (
    AnswerEvidence,
    Cutoff,
    answers_text,
    choose_cutoff,
    search_target,
)
from nearfar.search.ranking import (
    as_vectors,
    checked_vectors,
    known_vectors,
    search,
    vector_digests,
)
from nearfar.search.relevance import Relevance, Split, unseen_folds
from nearfar.typing import Floats, Ints

_USE = "Inner products of mapped queries and mapped documents are scores."
_MOST_SCORES = 1 << 24


def set_aside(
    Q: Floats, relevance: Relevance, answers: Answers, random_state: np.random.RandomState
) -> Split:
    """Return queries to learn from, and a random half of the judged ones to calibrate on.

    Queries may have equal vectors on both sides, as future ones do. With "seen", only queries for
    documents that are learned from calibrate. With "unseen", only queries for others do; queries
    that share documents or vectors with them are not learned from.
    """
    judged = np.unique(relevance.query)
    aside = random_state.permutation(len(judged)) <= (len(judged) - 1) // 2
    nothing = ~np.isin(judged, relevance.queries)
    learned = judged[~aside]
    if answers == "seen":
        aside &= nothing | relevance.sharing(judged, learned)
    elif answers == "unseen":
        code = np.unique(vector_digests(Q[judged]), return_inverse=True)[1]
        folds = unseen_folds(relevance, 2, random_state, groups=code[~nothing])
        if not folds:
            raise ValueError('All judged queries share documents; use answers="all" or "seen".')
        learned, others = folds[0]
        aside = np.where(nothing, aside, np.isin(judged, others))
        aside &= ~np.isin(code, code[np.isin(judged, learned)])
    return learned, judged[aside]


class AdapterUse:
    """Searches with a fitted adapter, with or without a cut-off, and its exports.

    An adapter that whitens both tables (``chosen_.whitened``) is not a linear map and cannot be
    exported.
    """

    score: str
    target: str | None
    answers: Answers
    chosen_: Choice
    cutoff_: Cutoff | None
    cutoff_queries_: Ints
    learned_queries_: Ints
    learned_documents_: Ints

    @property
    @abstractmethod
    def query_map(self) -> LinearMap:
        """The map of queries."""

    @property
    @abstractmethod
    def document_map(self) -> LinearMap:
        """The map of documents; with ``side="query"`` it at most divides them by their length."""

    @abstractmethod
    def transform_queries(self, Q: ArrayLike) -> Floats:
        """Map queries."""

    @abstractmethod
    def transform_documents(self, X: ArrayLike) -> Floats:
        """Map documents."""

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

        write_onnx(self._map(documents), path, dtype)

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

        write_numpy(self._map(documents), path, what="An adapter", use=_USE)

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
        return faiss_search_index(self.query_map, rows, self.transform_documents, index)

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
        queries, documents = self.query_map, self.document_map
        if documents.n_components != documents.n_features:
            raise ValueError(
                "The adapter maps documents too; store mapped documents, and map queries before "
                "they go into the database."
            )
        cutoff = None if self.cutoff_ is None else self.cutoff_.value
        return SqlSearch(sql_map(queries, column, dialect), self.score == "cosine", cutoff)

    def _map(self, documents: bool) -> LinearMap:
        return self.document_map if documents else self.query_map
