"""Vectors of queries or documents from an array or a table, with ids and texts.

A table has them in a column of lists, or in columns of numbers; ids and texts are other columns.
Without ids, rows are named by their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from nearfar.numerics.missing import as_vectors
from nearfar.runtime.messages import option
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
class VectorTable:
    """Vectors of queries or of documents, with what their file says about them.

    Attributes
    ----------
    source, name: What messages and reports call them.
    is_table: Whether they come from a table, which may have a column of ids.
    """

    vectors: Floats
    ids: list[str] | None = None
    texts: list[str] | None = None
    source: str = "an array"
    name: str = "array"
    is_table: bool = False


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
    ids: Column of ids [default: id, query_id, doc_id and the like].
    text: Column of texts [default: text, if there is one].
    vector: Column of vectors [default: the only one with lists, or all columns of numbers].
    vector_option: The caller's option for the column of vectors, for messages.
    """
    path = as_source(source, "queries" if kind == "query" else "documents")
    if isinstance(path, np.ndarray):
        return VectorTable(as_vectors(path, "an array"))
    shown, name = shown_name(str(path)), stem_of(path)
    if isinstance(path, Path) and not path.is_file():
        raise no_file(path)
    if kind_of(path) in TABLES:
        frame = read_frame(path)
        require_columns(path, frame.columns, [n for n in (ids, text, vector) if n is not None])
        ids = ids or _id_column(frame, kind)
        text = text or ("text" if "text" in frame.columns else None)
        names = [n for n in frame.columns if n not in {ids, text}]
        return VectorTable(
            as_vectors(_vectors_of(frame, path, vector, names, vector_option), shown),
            None if ids is None else row_names(frame[ids], path),
            None if text is None else words(frame[text]).to_list(),
            shown,
            name,
            is_table=True,
        )
    if not isinstance(path, Path) or kind_of(path) not in ARRAYS:
        raise TableError(f"{path} is not in a supported format: {', '.join(FORMATS)}.")
    if kind_of(path) == ".npy":
        return VectorTable(as_vectors(load_array(path), shown), source=shown, name=name)
    names = array_names(path)
    array = next((n for n in _ARRAYS[kind] if n in names), None)
    if array is None:
        wanted = " or ".join(_ARRAYS[kind])
        raise TableError(f"{path} has no array {wanted}; it has {listed(names)}.")
    vectors = as_vectors(load_array(path, array), shown)
    id_array = next((n for n in _IDS[kind] if n in names), None)
    if id_array is None:
        return VectorTable(vectors, source=shown, name=name)
    row_ids = load_array(path, id_array)
    if row_ids.shape != vectors.shape[:1]:
        raise TableError(
            f"{path} has {len(vectors)} vectors, but its array {id_array} has shape "
            f"{row_ids.shape}."
        )
    named = [str(each) for each in row_ids.tolist()]
    return VectorTable(vectors, named, source=shown, name=name)


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
