"""`weigh`: from files of queries, documents and judgements to the weights of a search's sources."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from nearfar.retrieval import Relevance, SourceWeights
from nearfar.retrieval.search_input import read_search, read_vectors
from nearfar.tables.formats import read_frame
from nearfar.tables.reader import require_columns
from nearfar.tables.reading import as_source


def weigh(
    queries: object,
    documents: object,
    judgements: str | PathLike[str] | Relevance,
    *,
    sources: Sequence[str] = (),
    bm25: Sequence[str] = (),
    numbers: Sequence[str] = (),
    ids: str | None = None,
    ignore_unknown: bool = False,
    score: Literal["cosine", "dot"] = "cosine",
    cv: int = 5,
    random_state: int = 0,
) -> SourceWeights:
    """Learn how much several columns count in a search, from tables and judged queries.

    Parameters
    ----------
    queries, documents : path or DataFrame
        Tables with an id, and the columns below.
    judgements : path or Relevance
        A file of judgements (TREC, or as in BEIR), or the judgements themselves.
    sources : sequence of str, optional
        Columns of vectors, in both tables; by default the only one, as "vector".
    bm25 : sequence of str, optional
        Columns of texts, in both tables, for BM25. Needs bm25s.
    numbers : sequence of str, optional
        Columns of numbers or dates of the documents; dates count as days.
    ids : str, optional
        Column of ids.
    ignore_unknown : bool, default=False
        Whether to leave out judgements of ids that have no vector.
    score : {"cosine", "dot"}, default="cosine"
        How vectors are compared.
    cv : int, default=5
        Number of folds.
    random_state : int, default=0
        Seed of the folds.

    Returns
    -------
    SourceWeights
        ``print(weights.chosen_)`` writes a table with a verdict for each source.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from nearfar import Relevance
    >>> from nearfar.workflow.weighing import weigh
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> documents = pl.DataFrame({"id": range(60), "title": X, "price": range(60)})
    >>> queries = pl.DataFrame({"id": range(30), "title": X[:30]})
    >>> judged = Relevance(range(30), range(30))
    >>> weigh(queries, documents, judged, numbers=["price"]).kinds_
    {'vector': 'vectors', 'price': 'numbers'}
    """
    given = isinstance(judgements, Relevance)
    judged: dict[str, Any] = {"relevance" if given else "qrels": judgements}
    first = sources[0] if sources else None
    options: dict[str, Any] = {"ids": ids, "ignore_unknown": ignore_unknown, "vector": first}
    options["vector_option"] = "source"
    data = read_search(queries, documents, **judged, **options)
    asked: dict[str, Any] = {first or "vector": data.Q}
    found: dict[str, Any] = {first or "vector": data.X}
    for name in sources[1:]:
        asked[name] = read_vectors(queries, "query", ids=ids, vector=name).vectors
        found[name] = read_vectors(documents, "document", ids=ids, vector=name).vectors
    for table, side, columns in ((queries, asked, bm25), (documents, found, [*bm25, *numbers])):
        source: Any = as_source(table, "queries")
        path = Path(source) if isinstance(source, str) else source
        frame = read_frame(path) if columns else pl.DataFrame()
        require_columns(path, frame.columns, columns)
        for name in columns:
            cells = frame[name]
            if name in bm25:
                side[name] = cells.cast(pl.String).fill_null("").to_list()
                continue
            days = cells.cast(pl.Date).to_physical() if cells.dtype.is_temporal() else cells
            side[name] = days.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    weights = SourceWeights(score=score, cv=cv, random_state=random_state)
    return weights.fit(asked, found, data.relevance)
