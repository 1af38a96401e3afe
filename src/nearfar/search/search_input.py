"""Vectors of queries and documents, their ids and texts, and judgements of searches.

Vectors come from an array or a table. A table has them in a column of lists, or in columns of
numbers; ids and texts are other columns. Without ids, rows are named by their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from nearfar.frames.formats import (
    ARRAYS,
    FORMATS,
    TABLES,
    array_names,
    kind_of,
    load_array,
    read_frame,
    shown_name,
    stem_of,
)
from nearfar.frames.judgements import words
from nearfar.frames.reader import Source, columns_named, listed, reading, require_columns
from nearfar.frames.reading import as_source, row_names
from nearfar.frames.table import TableError, no_file
from nearfar.runtime.messages import note, option
from nearfar.search.ranking import as_vectors
from nearfar.search.readers import Unknown, UnknownIdError, beir_files, read_qrels, read_texts
from nearfar.search.relevance import Relevance
from nearfar.typing import Array, Floats

Kind = Literal["query", "document"]


# Names of arrays and columns, in the order in which they are looked for.
_ARRAYS: dict[Kind, tuple[str, ...]] = {"query": ("Q", "X"), "document": ("X",)}
_IDS: dict[Kind, tuple[str, ...]] = {
    "query": ("query_id", "_id", "id", "qid", "q_id", "queryid", "query-id"),
    "document": (
        *("document_id", "doc_id", "_id", "id", "docid", "did", "doc-id", "document-id"),
        *("documentid", "corpus_id", "corpus-id"),
    ),
}
# Columns of ids if their cells have no blanks.
_IDS_OR_TEXTS: dict[Kind, tuple[str, ...]] = {"query": ("query",), "document": ("doc", "document")}


@dataclass(frozen=True, eq=False)
class SearchInput:
    """What is searched, and what is relevant.

    Attributes
    ----------
    name: Name of the documents' file.
    Q, X: Vectors of queries and documents.
    """

    name: str
    Q: Floats
    X: Floats
    relevance: Relevance
    query_ids: list[str]
    document_ids: list[str]
    query_texts: list[str] | None = None
    document_texts: list[str] | None = None

    @property
    def query_names(self) -> list[str]:
        """Texts of the queries, or their ids."""
        return self.query_texts or self.query_ids

    @property
    def document_names(self) -> list[str]:
        """Texts of the documents, or their ids."""
        return self.document_texts or self.document_ids


@dataclass(frozen=True, eq=False)
class VectorTable:
    """Vectors of queries or of documents, with what their file says about them.

    Attributes
    ----------
    source, name: What messages and reports call them.
    is_table: Whether they come from a table, which may have a column of ids.
    """

    vectors: Array
    ids: list[str] | None = None
    texts: list[str] | None = None
    source: str = "an array"
    name: str = "array"
    is_table: bool = False


def read_search(
    queries: object,
    documents: object,
    *,
    relevance: Relevance | None = None,
    qrels: str | PathLike[str] | None = None,
    beir: str | PathLike[str] | None = None,
    split: str = "test",
    ids: str | None = None,
    text: str | None = None,
    vector: str | None = None,
    ignore_unknown: bool = False,
    vector_option: str = "vector",
) -> SearchInput:
    """Read vectors and judgements of searches.

    Parameters
    ----------
    queries, documents: Vectors: a table, an .npz or .npy file, or an array.
    relevance: Judgements; otherwise they are read.
    qrels: Judgements: query, 0, document, grade (TREC), or as in BEIR.
    beir: Folder with corpus.jsonl, queries.jsonl and qrels, instead of `qrels`.
    split: Judgements of the folder to use.
    ids: Column of ids; by default id, query_id, doc_id and the like.
    text: Column of texts; by default text, if there is one.
    vector: Column of vectors; by default the only one, or all columns of numbers.
    ignore_unknown: Leave out judgements of ids that have no vector; otherwise they are
        errors.
    vector_option: The caller's option for the column of vectors, for messages.

    Raises
    ------
    TableError
        If something cannot be read as asked. It is a ValueError.
    """
    if relevance is None and sum(each is not None for each in (qrels, beir)) != 1:
        places = f"{option('qrels', 'FILE')} or {option('beir', 'FOLDER')}"
        raise TableError(f"Say where the judgements are, with {places}.")
    columns = {"ids": ids, "text": text, "vector": vector}
    asked = read_vectors(queries, "query", **columns, vector_option=vector_option)
    searched = read_vectors(documents, "document", **columns, vector_option=vector_option)
    if beir is not None:
        files = beir_files(Path(beir), split)
        asked = _with_texts(asked, files.queries)
        searched = _with_texts(searched, files.documents)
        qrels = files.qrels
    Q, X = as_vectors(asked.vectors, asked.source), as_vectors(searched.vectors, searched.source)
    if Q.shape[1] != X.shape[1]:
        raise TableError(
            f"{asked.source} has vectors of length {Q.shape[1]} and {searched.source} of length "
            f"{X.shape[1]}; both must come from the same model."
        )
    query_ids, document_ids = (
        [str(row) for row in range(len(side.vectors))] if side.ids is None else side.ids
        for side in (asked, searched)
    )
    try:
        if relevance is not None:
            relevance.check(len(Q), len(X))
        else:
            assert qrels is not None
            if not Path(qrels).is_file():
                raise no_file(Path(qrels))
            unknown: Unknown = "ignore" if ignore_unknown else "raise"
            relevance = read_qrels(Path(qrels), query_ids, document_ids, unknown=unknown)
    except ValueError as error:
        remedy = ""
        if isinstance(error, UnknownIdError):
            side, short = (asked, "query") if error.kind == "query" else (searched, "doc")
            if side.ids is None and (side.is_table or error.few):
                found = (
                    f"name the column of ids with {option('ids')}, or call it {short}_id"
                    if side.is_table
                    else f"give a table with a column {short}_id"
                )
                remedy = (
                    f" No ids were found in {side.source}, so that its rows count from 0; {found}."
                )
            elif error.few and not error.swapped:
                remedy = (
                    f" Are the judgements for other files, or are the ids of {side.source} in "
                    f"another column ({option('ids')})?"
                )
            elif not error.few:
                remedy = f" Use {option('ignore_unknown')} to leave it out."
        raise TableError(f"{error}{remedy}") from error
    unused = len(Q) - len(relevance.queries)
    if unused:
        has, is_ = ("has", "is") if unused == 1 else ("have", "are")
        note(f"{unused} of {len(Q)} queries {has} no relevant document and {is_} not learned from.")
    return SearchInput(
        searched.name, Q, X, relevance, query_ids, document_ids, asked.texts, searched.texts
    )


def read_vectors(
    source: object,
    kind: Kind,
    *,
    ids: str | None = None,
    text: str | None = None,
    vector: str | None = None,
    vector_option: str = "vector",
) -> VectorTable:
    """Read vectors of queries or of documents.

    Parameters
    ----------
    kind: What they are; it decides which arrays and columns are looked for.
    ids, text, vector: Columns of a table.
    vector_option: The caller's option for the column of vectors, for messages.
    """
    path = as_source(source, "queries" if kind == "query" else "documents")
    if isinstance(path, np.ndarray):
        return VectorTable(path)
    shown = shown_name(str(path))
    if isinstance(path, Path) and not path.is_file():
        raise no_file(path)
    if kind_of(path) in TABLES:
        frame = read_frame(path)
        require_columns(path, frame.columns, [n for n in (ids, text, vector) if n is not None])
        ids = ids or _id_column(frame, kind)
        text = text or ("text" if "text" in frame.columns else None)
        names = [name for name in frame.columns if name not in {ids, text}]
        return VectorTable(
            _vectors_of(frame, path, vector, names, vector_option),
            None if ids is None else row_names(frame[ids], path),
            None if text is None else words(frame[text]).to_list(),
            shown,
            stem_of(path),
            is_table=True,
        )
    assert isinstance(path, Path)
    if kind_of(path) not in ARRAYS:
        raise TableError(f"{path} is not in a supported format: {', '.join(FORMATS)}.")
    if kind_of(path) == ".npy":
        return VectorTable(load_array(path), source=shown, name=stem_of(path))
    names = array_names(path)
    array = next((name for name in _ARRAYS[kind] if name in names), None)
    if array is None:
        wanted = " or ".join(_ARRAYS[kind])
        raise TableError(f"{path} has no array {wanted}; it has {listed(names)}.")
    vectors = load_array(path, array)
    id_array = next((name for name in _IDS[kind] if name in names), None)
    if id_array is None:
        return VectorTable(vectors, source=shown, name=stem_of(path))
    row_ids = load_array(path, id_array)
    if row_ids.shape != vectors.shape[:1]:
        raise TableError(
            f"{path} has {len(vectors)} vectors, but its array {id_array} has shape "
            f"{row_ids.shape}."
        )
    named = [str(name) for name in row_ids.tolist()]
    return VectorTable(vectors, named, source=shown, name=stem_of(path))


def _id_column(frame: pl.DataFrame, kind: Kind) -> str | None:
    """Return the column of ids, by its usual names."""
    by_name = {name.strip().lower(): name for name in reversed(frame.columns)}
    usual = next((by_name[name] for name in _IDS[kind] if name in by_name), None)
    if usual is not None:
        return usual
    for name in [by_name[name] for name in _IDS_OR_TEXTS[kind] if name in by_name]:
        cells = words(frame[name])
        if not frame[name].dtype.is_nested() and not cells.str.contains(r"\s").any():
            return name
    return None


def _vectors_of(
    frame: pl.DataFrame, path: Source, vector: str | None, names: list[str], vector_option: str
) -> Array:
    """Return the vectors in a column of lists, or in columns of numbers."""
    lists = [n for n in names if isinstance(frame[n].dtype, pl.List | pl.Array)]
    if vector is None and len(lists) > 1:
        choose = option(vector_option)
        raise TableError(f"{path} has lists in {columns_named(lists)}; choose one with {choose}.")
    if vector is None and not lists:
        numbers = {n: frame[n].cast(pl.Float64, strict=False) for n in names}
        numeric = [
            n for n in names if numbers[n].null_count() == frame[n].null_count() < len(frame)
        ]
        if not numeric:
            raise TableError(f"{path} has no vectors: a column of lists, or columns of numbers.")
        return np.column_stack([numbers[n].fill_null(np.nan).to_numpy() for n in numeric])
    column = frame[vector or lists[0]]
    if not isinstance(column.dtype, pl.List | pl.Array):
        raise TableError(f"Column {column.name} of {path} has no lists of numbers.")
    values = column.cast(pl.List(pl.Float64), strict=False)
    sizes = values.list.len()
    size = sizes.mode().sort()[0] if sizes.null_count() < len(sizes) else None
    wrong = (sizes != size).fill_null(value=True)
    if size is None or wrong.any():
        row = int(wrong.arg_max() or 0)
        raise TableError(
            f"Row {row} of {path} (counting from 0) has {sizes[row]} numbers in column "
            f"{column.name}, where others have {size}."
        )
    with reading(path):
        flat = values.explode().fill_null(np.nan).to_numpy()
    narrow = column.dtype.inner == pl.Float32
    return flat.reshape(len(column), -1).astype(np.float32 if narrow else np.float64)


def _with_texts(side: VectorTable, file: Path) -> VectorTable:
    """Return vectors with the ids and texts of a BEIR folder."""
    ids, texts = read_texts(file)
    if side.ids is not None:
        by_id = dict(zip(ids, texts, strict=True))
        return replace(side, texts=[by_id.get(name, name) for name in side.ids])
    if len(ids) != len(side.vectors):
        raise TableError(
            f"{side.source} has {len(side.vectors)} rows without ids, but {file} has {len(ids)}."
        )
    return replace(side, ids=ids, texts=texts)
