"""`weigh`: from files of queries, documents and judgements to the weights of a search's sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal

import numpy as np
import polars as pl

from nearfar.frames.formats import read_frame
from nearfar.frames.metric_files import check_metric_output
from nearfar.frames.reader import require_columns
from nearfar.frames.reading import as_source
from nearfar.frames.vectors import read_vectors
from nearfar.search import Relevance, SourceWeights
from nearfar.search.files import read_search


def weigh(
    queries: object,
    documents: object,
    *,
    qrels: str | PathLike[str] | Relevance,
    source: Sequence[str] = (),
    bm25: Sequence[str] = (),
    number: Sequence[str] = (),
    ids: str | None = None,
    ignore_unknown: bool = False,
    score: Literal["cosine", "dot"] = "cosine",
    folds: int = 5,
    random_state: int = 0,
    out: str | PathLike[str] | None = "weights.safetensors",
) -> Weighed:
    """Learn how much each vector, text and number counts in a search, and say which ones help.

    The exit code is 0 if held-out searches show that the weights are better than equal ones and
    than the best single source, 3 if they do not, and 4 if the weights are worse.

    Parameters
    ----------
    queries: Table of queries: an id, and the columns below.
    documents: Table of documents, likewise.
    qrels: Judgements: a file of TREC, or as in BEIR.
    source: Column of vectors in both tables [default: the only one].
    bm25: Column of texts in both tables, for BM25. Needs bm25s.
    number: Column of numbers or dates of the documents; dates count as days.
    ids: Column of ids.
    ignore_unknown: Leave out judgements of ids that have no vector.
    score: How vectors are compared.
    folds: Number of folds of the judged queries.
    random_state: Seed of the folds.
    out: File of weights to write, whether they help or not.
    """
    if out is not None:
        check_metric_output(out, [queries, documents, qrels])
    first = source[0] if source else None
    options: dict[str, Any] = {"ids": ids, "ignore_unknown": ignore_unknown, "vector": first}
    options["vector_option"] = "source"
    data = read_search(queries, documents, qrels, **options)
    asked: dict[str, Any] = {first or "vector": data.Q}
    found: dict[str, Any] = {first or "vector": data.X}
    for name in source[1:]:
        asked[name] = read_vectors(queries, "query", ids=ids, vector=name).vectors
        found[name] = read_vectors(documents, "document", ids=ids, vector=name).vectors
    for table, side, columns in ((queries, asked, bm25), (documents, found, [*bm25, *number])):
        path: Any = as_source(table, "queries")
        frame = read_frame(path) if columns else pl.DataFrame()
        require_columns(path, frame.columns, columns)
        for name in columns:
            cells = frame[name]
            if name in bm25:
                side[name] = cells.cast(pl.String).fill_null("").to_list()
                continue
            days = cells.cast(pl.Date).to_physical() if cells.dtype.is_temporal() else cells
            side[name] = days.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    weights = SourceWeights(score=score, cv=folds, random_state=random_state)
    weights.fit(asked, found, data.relevance)
    if out is not None:
        weights.save(out)
    return Weighed(weights, out)


@dataclass(frozen=True)
class Weighed:
    """Weights of the sources of a search, and the file that has them; prints as a table."""

    weights: SourceWeights
    out: str | PathLike[str] | None = None

    @property
    def exit_code(self) -> int:
        """0 if the weights are better than other ones, 3 if nobody knows, 4 if they are worse."""
        return {"better": 0, "same": 3, "worse": 4}[self.weights.chosen_.outcome]

    def to_dict(self) -> dict[str, Any]:
        """Return what was chosen, for JSON."""
        return self.weights.chosen_.to_dict()

    def __str__(self) -> str:
        written = "" if self.out is None else f"\nWeights written to {self.out}"
        return f"{self.weights.chosen_}{written}"
