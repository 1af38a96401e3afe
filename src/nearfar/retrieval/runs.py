"""TREC files: rankings (runs) and judgements (qrels), for ir_measures, ranx and trec_eval."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np

from nearfar.retrieval.ranking import Ranking
from nearfar.retrieval.relevance import Relevance
from nearfar.runtime.atomic_write import atomic_write


def write_run(
    path: str | os.PathLike[str],
    ranking: Ranking,
    *,
    query_ids: Sequence[object] | None = None,
    document_ids: Sequence[object] | None = None,
    name: str = "nearfar",
) -> None:
    """Write a ranking, one document a line: query, Q0, document, rank, score, name.

    trec_eval reads scores in single precision, and orders equal ones by document id. Scores are
    therefore rounded to single precision, and lowered by the smallest step where two would be
    equal, so that every tool has the same order.

    Parameters
    ----------
    path : path
        An existing file is replaced once the new one is complete.
    ranking : Ranking
    query_ids, document_ids : sequence, optional
        Ids of the rows of Q and X; by default their row numbers.
    name : str, default="nearfar"
        Name of the run.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from nearfar.retrieval import search, write_run
    >>> ranking = search(np.array([[1.0]]), np.array([[0.5], [2.0]]), depth=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "run.trec"
    ...     write_run(path, ranking, query_ids=["q1"], document_ids=["a", "b"])
    ...     print(path.read_text().rstrip())
    q1 Q0 b 1 2 nearfar
    q1 Q0 a 2 0.5 nearfar
    """
    _check_word(name, "name of a run")
    queries, documents = _Names(query_ids, "query"), _Names(document_ids, "document")
    single = ranking.scores.astype(np.float32)
    for column in range(1, single.shape[1]):
        below = np.nextafter(single[:, column - 1], np.float32(-np.inf))
        single[:, column] = np.minimum(single[:, column], below)
    rows = zip(ranking.queries, ranking.documents, single, strict=True)
    _write(
        path,
        (
            f"{queries[query]} Q0 {documents[document]} {rank} {score:.9g} {name}"
            for query, best, scores in rows
            for rank, (document, score) in enumerate(zip(best, scores, strict=True), start=1)
        ),
    )


def write_qrels(
    path: str | os.PathLike[str],
    relevance: Relevance,
    *,
    query_ids: Sequence[object] | None = None,
    document_ids: Sequence[object] | None = None,
) -> None:
    """Write judgements, one a line: query, 0, document, grade.

    Grades must be whole numbers. Parameters as in `write_run`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from nearfar import Relevance
    >>> from nearfar.retrieval import write_qrels
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "qrels.txt"
    ...     write_qrels(path, Relevance([0], [3], [2]))
    ...     print(path.read_text().rstrip())
    0 0 3 2
    """
    if (relevance.grade % 1 != 0).any():
        raise ValueError("Grades in a TREC file are whole numbers; scale and round them first.")
    queries, documents = _Names(query_ids, "query"), _Names(document_ids, "document")
    rows = zip(relevance.query, relevance.document, relevance.grade, strict=True)
    _write(path, (f"{queries[q]} 0 {documents[d]} {grade:.0f}" for q, d, grade in rows))


class _Names:
    """Ids of rows as words; row numbers if there are no ids."""

    def __init__(self, ids: Sequence[object] | None, kind: str) -> None:
        self.ids, self.kind = ids, kind

    def __getitem__(self, row: np.intp) -> str:
        if self.ids is None:
            return str(row)
        if row >= len(self.ids):
            raise ValueError(
                f"{self.kind.capitalize()} {row} has no id; got {len(self.ids)} {self.kind} ids."
            )
        word = str(self.ids[int(row)])
        _check_word(word, f"{self.kind} id")
        return word


def _check_word(text: str, what: str) -> None:
    if len(text.split()) != 1 or text.strip() != text:
        raise ValueError(f"A {what} in a TREC file is a word without spaces; got {text!r}.")


def _write(path: str | os.PathLike[str], lines: Iterator[str]) -> None:
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
