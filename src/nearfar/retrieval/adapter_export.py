"""Adapters for programs without nearfar: their maps as an ONNX model, a module, an index or SQL."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Any

from numpy.typing import ArrayLike

from nearfar.columns.cells import is_frame
from nearfar.deploy.formats.sql import SqlSearch, sql_search
from nearfar.deploy.linear_map import LinearMap
from nearfar.retrieval.cutoff import Cutoff
from nearfar.retrieval.vectors import as_vectors
from nearfar.typing import Floats

_USE = "Inner products of mapped queries and mapped documents are scores."


class AdapterExport:
    """Exports of a fitted adapter.

    An adapter that whitens both tables (``chosen_.whitened``) is not a linear map and cannot be
    exported.
    """

    score: str
    cutoff_: Cutoff | None

    @property
    @abstractmethod
    def query_map(self) -> LinearMap:
        """The map of queries."""

    @property
    @abstractmethod
    def document_map(self) -> LinearMap:
        """The map of documents; with ``side="query"`` it at most divides them by their length."""

    @abstractmethod
    def transform_documents(self, X: ArrayLike) -> Floats:
        """Map documents."""

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
        return sql_search(queries, column, dialect, cosine=self.score == "cosine", cutoff=cutoff)

    def _map(self, documents: bool) -> LinearMap:
        return self.document_map if documents else self.query_map
