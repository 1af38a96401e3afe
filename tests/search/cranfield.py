"""The Cranfield collection: 1400 documents, 225 queries, graded judgements."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nearfar import Relevance
from nearfar.typing import Floats


def read_cranfield(folder: Path) -> tuple[Floats, Floats, Relevance]:
    """Return Q, X and relevance. Grades run from 1 (least relevant) to 4 in `Relevance`."""
    with np.load(folder / "cranfield_emb256.npz") as data:
        Q, X = data["Q"].astype(np.float32), data["X"].astype(np.float32)
        query, document, grade = data["qrels"].T
        queries, documents = (
            {name: row for row, name in enumerate(data[ids].tolist())}
            for ids in ("query_id", "doc_id")
        )
    judged = [queries[q] for q in query.tolist()], [documents[d] for d in document.tolist()]
    return Q, X, Relevance(*judged, np.where(grade > 0, 5 - grade, 0))
