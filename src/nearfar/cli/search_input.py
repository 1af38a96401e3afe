"""Vectors of queries and documents, their ids and texts, and judgements of searches.

Vectors come from an array or a table. A table has them in a column of lists, or in columns of
numbers; ids and texts are other columns. Without ids, rows are named by their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
import typer
from numpy.typing import NDArray

from nearfar.cli import options
from nearfar.cli.errors import UserError
from nearfar.cli.streams import shown_name, spooled
from nearfar.cli.terminal import bars, convergence_notes
from nearfar.retrieval import (
    Relevance,
    RetrievalAdapter,
    SearchComparison,
    compare_retrieval,
    read_qrels,
)
from nearfar.retrieval.readers import Unknown, beir_files, read_texts
from nearfar.retrieval.vectors import as_vectors
from nearfar.runtime.notes import note
from nearfar.tables.array_formats import array_names, load_array
from nearfar.tables.errors import no_file
from nearfar.tables.formats import (
    ARRAYS,
    FORMATS,
    TABLES,
    kind_of,
    read_frame,
    stem_of,
)
from nearfar.tables.labels import words
from nearfar.tables.reader import columns_named, listed, reading, require_columns
from nearfar.tables.row_input import row_names
from nearfar.typing import Floats

Kind = Literal["query", "document"]


class Side(StrEnum):
    """Which vectors are adapted."""

    query = "query"
    both = "both"


class ScoreName(StrEnum):
    """What ranks documents."""

    cosine = "cosine"
    dot = "dot"


SplitName = Annotated[str, typer.Option("--split", help="Judgements of --beir to use.")]

_ARRAYS: dict[Kind, tuple[str, ...]] = {"query": ("Q", "X"), "document": ("X",)}
_IDS: dict[Kind, tuple[str, ...]] = {
    "query": ("query_id", "_id", "id", "qid", "q_id", "queryid", "query-id"),
    "document": (
        *("document_id", "doc_id", "_id", "id", "docid", "did", "doc-id", "document-id"),
        *("documentid", "corpus_id", "corpus-id"),
    ),
}
"""Names of arrays and columns, in the order in which they are looked for."""
_IDS_OR_TEXTS: dict[Kind, tuple[str, ...]] = {"query": ("query",), "document": ("doc", "document")}
"""Columns of ids if their cells have no blanks."""


@dataclass(frozen=True, eq=False)
class SearchInput:
    """What is searched, and what is relevant.

    Attributes
    ----------
    name : str
        Name of the documents' file.
    Q, X : array
        Vectors of queries and documents.
    relevance : Relevance
    query_ids, document_ids : list of str
    query_texts, document_texts : list of str or None
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
    """Vectors of queries or of documents, with what their file says about them."""

    vectors: NDArray[Any]
    ids: list[str] | None = None
    texts: list[str] | None = None


@dataclass(frozen=True)
class SearchOptions:
    """Options of the commands about judged searches."""

    queries: Annotated[
        str,
        typer.Argument(
            callback=spooled, help=f"Vectors of queries: {', '.join([*ARRAYS, *TABLES])}."
        ),
    ]
    documents: Annotated[
        str, typer.Argument(callback=spooled, help="Vectors of documents, in the same formats.")
    ]
    qrels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Judgements: query, 0, document, grade (TREC), or as in BEIR."
        ),
    ] = None
    beir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder with corpus.jsonl, queries.jsonl and qrels: judgements, ids and texts.",
        ),
    ] = None
    ids: Annotated[
        str | None,
        typer.Option("--id", help="Column of ids [default: id, query_id, doc_id and the like]."),
    ] = None
    text: Annotated[
        str | None, typer.Option(help="Column of texts [default: text, if there is one].")
    ] = None
    vector: Annotated[
        str | None,
        typer.Option(help="Column of vectors [default: the only one, or all columns of numbers]."),
    ] = None
    ignore_unknown: Annotated[
        bool,
        typer.Option("--ignore-unknown", help="Leave out judgements of ids that have no vector."),
    ] = False
    side: Annotated[
        Side, typer.Option(help="Adapt queries only, so that documents stay as indexed, or both.")
    ] = Side.query
    score: Annotated[ScoreName, typer.Option(help="What ranks documents now.")] = ScoreName.cosine
    results: Annotated[int, typer.Option(min=1, help="Number of results that count.")] = 10
    folds: options.Folds = 5
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time limit: 60s, 5m or 1h [default: none]. Folds for which there is no time are "
            "left out.",
        ),
    ] = None
    seed: options.Seed = 0

    @property
    def files(self) -> list[str | Path | None]:
        """The files that are read."""
        return [self.queries, self.documents, self.qrels]

    def adapter(self) -> RetrievalAdapter:
        """Return the adapter that the options name."""
        return RetrievalAdapter(
            side=self.side.value, score=self.score.value, random_state=self.seed
        )

    def compare(
        self, data: SearchInput, adapter: Any, *, score: str | None = None, share: float = 1.0
    ) -> SearchComparison:
        """Compare searches, with progress on the terminal, in a share of the time budget."""
        limit = options.seconds(self.budget)
        with bars() as shown, convergence_notes():
            return compare_retrieval(
                data.Q,
                data.X,
                data.relevance,
                adapter,
                cv=self.folds,
                k=self.results,
                score=ScoreName(score or self.score).value,
                query_names=data.query_names,
                random_state=self.seed,
                budget=None if limit is None else share * limit,
                progress=shown.update,
            )


def read_search(given: SearchOptions, split: str) -> SearchInput:
    """Read vectors and judgements, or raise an error that names what is wrong.

    Parameters
    ----------
    given : SearchOptions
    split : str
        Judgements of a BEIR folder to use.
    """
    queries, documents, qrels, beir = given.queries, given.documents, given.qrels, given.beir
    if (qrels is None) == (beir is None):
        raise UserError("Say where the judgements are, with either --qrels FILE or --beir FOLDER.")
    columns = {"ids": given.ids, "text": given.text, "vector": given.vector}
    asked = read_vectors(queries, "query", **columns)
    searched = read_vectors(documents, "document", **columns)
    if beir is not None:
        files = beir_files(beir, split)
        asked = _with_texts(asked, files.queries, shown_name(queries))
        searched = _with_texts(searched, files.documents, shown_name(documents))
        qrels = files.qrels
    assert qrels is not None
    Q, X = _checked(asked.vectors, searched.vectors, queries, documents)
    query_ids, document_ids = _ids_or_numbers(asked), _ids_or_numbers(searched)
    unknown: Unknown = "ignore" if given.ignore_unknown else "raise"
    if not qrels.is_file():
        raise no_file(qrels)
    try:
        relevance = read_qrels(qrels, query_ids, document_ids, unknown=unknown)
    except ValueError as error:
        sides = {"query": (asked, queries), "document": (searched, documents)}
        raise UserError(f"{error}{_remedy(str(error), sides)}") from error
    unused = len(Q) - len(relevance.queries)
    if unused:
        has, is_ = ("has", "is") if unused == 1 else ("have", "are")
        note(f"{unused} of {len(Q)} queries {has} no relevant document and {is_} not used.")
    name = stem_of(Path(documents))
    return SearchInput(name, Q, X, relevance, query_ids, document_ids, asked.texts, searched.texts)


def _remedy(error: str, sides: dict[str, tuple[VectorTable, str]]) -> str:
    """Say what to do about an id that has no vector."""
    if "has no vector" not in error:
        return ""
    kind = next((kind for kind in sides if f"names {kind} " in error), "query")
    table, source = sides[kind]
    if table.ids is not None or kind_of(Path(source)) not in TABLES:
        return " Use --ignore-unknown to leave it out."
    short = {"query": "query", "document": "doc"}[kind]
    return (
        f" No ids were found in {shown_name(source)}, so that its rows count from 0; name the "
        f"column of ids with --id, or call it {short}_id."
    )


def _ids_or_numbers(side: VectorTable) -> list[str]:
    return [str(row) for row in range(len(side.vectors))] if side.ids is None else side.ids


def _checked(
    Q: NDArray[Any], X: NDArray[Any], queries: str, documents: str
) -> tuple[Floats, Floats]:
    """Return finite vectors of the same length; errors name the files."""
    Q, X = as_vectors(Q, shown_name(queries)), as_vectors(X, shown_name(documents))
    if Q.shape[1] != X.shape[1]:
        raise UserError(
            f"{shown_name(queries)} has vectors of length {Q.shape[1]} and "
            f"{shown_name(documents)} of length {X.shape[1]}; both must come from the same model."
        )
    return Q, X


def read_vectors(
    source: str,
    kind: Kind,
    *,
    ids: str | None = None,
    text: str | None = None,
    vector: str | None = None,
) -> VectorTable:
    """Read vectors of queries or of documents from an array or a table."""
    path = Path(source)
    if not path.is_file():
        raise no_file(source)
    if kind_of(path) in ARRAYS:
        if kind_of(path) == ".npy":
            return VectorTable(load_array(path))
        return _from_npz(path, kind)
    if kind_of(path) not in TABLES:
        raise UserError(f"{source} is not in a supported format: {', '.join(FORMATS)}.")
    return _from_table(path, kind, ids, text, vector)


def _from_npz(path: Path, kind: Kind) -> VectorTable:
    names = array_names(path)
    found = next((name for name in _ARRAYS[kind] if name in names), None)
    if found is None:
        wanted = " or ".join(_ARRAYS[kind])
        raise UserError(f"{path} has no array {wanted}; it has {listed(names)}.")
    ids = next((name for name in _IDS[kind] if name in names), None)
    vectors = load_array(path, found)
    if ids is None:
        return VectorTable(vectors)
    named = load_array(path, ids)
    if named.shape != vectors.shape[:1]:
        raise UserError(
            f"{path} has {len(vectors)} vectors, but its array {ids} has shape {named.shape}."
        )
    return VectorTable(vectors, [str(name) for name in named.tolist()])


def _from_table(
    path: Path, kind: Kind, ids: str | None, text: str | None, vector: str | None
) -> VectorTable:
    frame = read_frame(path)
    require_columns(path, frame.columns, [n for n in (ids, text, vector) if n is not None])
    ids = ids or _id_column(frame, kind)
    text = text or ("text" if "text" in frame.columns else None)
    others = {ids, text}
    return VectorTable(
        _table_vectors(frame, path, vector, [n for n in frame.columns if n not in others]),
        None if ids is None else row_names(frame[ids], path),
        None if text is None else words(frame[text]).to_list(),
    )


def _id_column(frame: pl.DataFrame, kind: Kind) -> str | None:
    """Return the column of ids, by its usual names."""
    by_name = {name.strip().lower(): name for name in reversed(frame.columns)}
    found = next((by_name[name] for name in _IDS[kind] if name in by_name), None)
    if found is not None:
        return found
    for name in [by_name[name] for name in _IDS_OR_TEXTS[kind] if name in by_name]:
        cells = words(frame[name])
        if not frame[name].dtype.is_nested() and not cells.str.contains(r"\s").any():
            return name
    return None


def _table_vectors(
    frame: pl.DataFrame, path: Path, vector: str | None, names: Sequence[str]
) -> NDArray[Any]:
    lists = [n for n in names if isinstance(frame[n].dtype, pl.List | pl.Array)]
    if vector is None and len(lists) > 1:
        raise UserError(f"{path} has lists in {columns_named(lists)}; choose one with --vector.")
    chosen = vector or next(iter(lists), None)
    if chosen is not None:
        return _of_lists(frame[chosen], path)
    numbers = {n: frame[n].cast(pl.Float64, strict=False) for n in names}
    kept = [n for n in names if numbers[n].null_count() == frame[n].null_count() < len(frame)]
    if not kept:
        raise UserError(f"{path} has no vectors: a column of lists, or columns of numbers.")
    return np.column_stack([numbers[n].fill_null(np.nan).to_numpy() for n in kept])


def _of_lists(column: pl.Series, path: Path) -> NDArray[Any]:
    if not isinstance(column.dtype, pl.List | pl.Array):
        raise UserError(f"Column {column.name} of {path} has no lists of numbers.")
    values = column.cast(pl.List(pl.Float64), strict=False)
    sizes = values.list.len()
    size = sizes.mode().sort()[0] if sizes.null_count() < len(sizes) else None
    wrong = (sizes != size).fill_null(value=True)
    if size is None or wrong.any():
        row = int(wrong.arg_max() or 0)
        raise UserError(
            f"Row {row} of {path} (counting from 0) has {sizes[row]} numbers in column "
            f"{column.name}, where others have {size}."
        )
    with reading(path):
        flat = values.explode().fill_null(np.nan).to_numpy()
    narrow = column.dtype.inner == pl.Float32
    return flat.reshape(len(column), -1).astype(np.float32 if narrow else np.float64)


def _with_texts(side: VectorTable, file: Path, source: str) -> VectorTable:
    """Return vectors with the ids and texts of a BEIR folder."""
    ids, texts = read_texts(file)
    if side.ids is None:
        if len(ids) != len(side.vectors):
            raise UserError(
                f"{source} has {len(side.vectors)} rows without ids, but {file} has {len(ids)}."
            )
        return VectorTable(side.vectors, ids, texts)
    known = dict(zip(ids, texts, strict=True))
    return VectorTable(side.vectors, side.ids, [known.get(name, name) for name in side.ids])
