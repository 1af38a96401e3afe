"""Files of judged searches: vectors, ids, texts and judgements, and TREC files for other tools.

`read_search` reads all that `adapt` needs, `read_beir` a folder in the layout of BEIR and MTEB, and
`read_qrels` a file of judgements as TREC and BEIR write them. `write_run` and `write_qrels` write
rankings and judgements for ir_measures, ranx and trec_eval.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import numpy as np

from nearfar.runtime.atomic_write import atomic_write
from nearfar.runtime.messages import note, option
from nearfar.runtime.parameters import check_parameters, choice
from nearfar.search.ranking import Ranking, Relevance
from nearfar.typing import Floats

if TYPE_CHECKING:
    from nearfar.frames.vectors import VectorTable

Unknown = Literal["raise", "ignore"]

_BEIR_HEADER = "query-id"
# Names of the last column of a header.
_GRADES = frozenset(
    ["grade", "score", "relevance", "relevant", "rel", "label", "rating", "judgement", "judgment"]
)
# How many separators a line has.
_SEPARATORS = (2, 3)


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


def read_search(
    queries: object,
    documents: object,
    qrels: str | PathLike[str] | Relevance | None = None,
    *,
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
    queries : path, DataFrame or array
        Vectors of queries: a table, an .npz or .npy file, or an array.
    documents : path, DataFrame or array
        Vectors of documents, in the same formats.
    qrels : path or Relevance, optional
        Judgements: query, 0, document, grade (TREC), or as in BEIR.
    beir : path, optional
        Folder with corpus.jsonl, queries.jsonl and qrels: judgements, ids and texts, instead of
        `qrels`.
    split : str, default="test"
        Judgements of `beir` to use.
    ids : str, optional
        Column of ids [default: id, query_id, doc_id and the like].
    text : str, optional
        Column of texts [default: text, if there is one].
    vector : str, optional
        Column of vectors [default: the only one with lists, or all columns of numbers].
    ignore_unknown : bool, default=False
        Leave out judgements of ids that have no vector; otherwise they are errors.
    vector_option : str, default="vector"
        The caller's option for the column of vectors, for messages.

    Raises
    ------
    ValueError
        If something cannot be read as asked.
    """
    # Tables need polars, which vectors in arrays do not.
    from nearfar.frames.table import no_file
    from nearfar.frames.vectors import read_vectors

    if (qrels is None) == (beir is None):
        places = f"{option('qrels', 'FILE')} or {option('beir', 'FOLDER')}"
        raise ValueError(f"Say which documents are relevant, with {places}.")
    if qrels is not None and not isinstance(qrels, str | PathLike | Relevance):
        raise TypeError(
            f"{option('qrels')} must be a path or a Relevance; got {type(qrels).__name__}. "
            "Relevance takes columns of row numbers."
        )
    columns: dict[str, Any] = {"ids": ids, "text": text, "vector": vector}
    columns["vector_option"] = vector_option
    asked = read_vectors(queries, "query", **columns)
    searched = read_vectors(documents, "document", **columns)
    if beir is not None:
        query_file, document_file, qrels = beir_files(beir, split)
        asked, searched = _with_texts(asked, query_file), _with_texts(searched, document_file)
    Q, X = asked.vectors, searched.vectors
    if Q.shape[1] != X.shape[1]:
        raise ValueError(
            f"{asked.source} has vectors of length {Q.shape[1]} and {searched.source} of length "
            f"{X.shape[1]}; both must come from the same model."
        )
    query_ids, document_ids = (
        [str(row) for row in range(len(side.vectors))] if side.ids is None else side.ids
        for side in (asked, searched)
    )
    if isinstance(qrels, Relevance):
        relevance = qrels
        relevance.check(len(Q), len(X))
    else:
        assert qrels is not None
        if not Path(qrels).is_file():
            raise no_file(Path(qrels))
        try:
            unknown: Unknown = "ignore" if ignore_unknown else "raise"
            relevance = read_qrels(qrels, query_ids, document_ids, unknown=unknown)
        except UnknownIdError as error:
            remedy = error.remedy(asked if error.kind == "query" else searched)
            raise ValueError(f"{error}{remedy}") from error
    unused = len(Q) - len(relevance.queries)
    if unused:
        has, is_ = ("has", "is") if unused == 1 else ("have", "are")
        note(f"{unused} of {len(Q)} queries {has} no relevant document and {is_} not learned from.")
    texts = asked.texts, searched.texts
    return SearchInput(searched.name, Q, X, relevance, query_ids, document_ids, *texts)


def _with_texts(side: VectorTable, file: Path) -> VectorTable:
    """Return vectors with the ids and texts of a BEIR folder."""
    ids, texts = _texts(file)
    if side.ids is not None:
        by_id = dict(zip(ids, texts, strict=True))
        return replace(side, texts=[by_id.get(name, name) for name in side.ids])
    if len(ids) != len(side.vectors):
        raise ValueError(
            f"{side.source} has {len(side.vectors)} rows without ids, but {file} has {len(ids)}."
        )
    return replace(side, ids=ids, texts=texts)


class UnknownIdError(ValueError):
    """A judgement of a query or a document without a vector."""

    def __init__(
        self,
        where: str,
        kind: Literal["query", "document"],
        name: str,
        named: Set[str],
        rows: Mapping[Hashable, int],
        others: Mapping[Hashable, int],
    ) -> None:
        known = len(named & rows.keys())
        self.kind, self.few = kind, 2 * known < len(named)
        self.swapped = not known and 2 * len(named & others.keys()) > len(named)
        other = "documents" if kind == "query" else "queries"
        hint = (
            f" They are ids of {other}: are the files of queries and documents, or the columns of "
            "the judgements, swapped?"
        )
        super().__init__(
            f"{where} names {kind} {name!r}, which has no vector; {known} of {len(named)} ids have "
            f"one.{hint * self.swapped}"
        )

    def remedy(self, side: VectorTable) -> str:
        """Return what to do, for the vectors that lack one."""
        column = "query_id" if self.kind == "query" else "doc_id"
        if side.ids is None and (side.is_table or self.few):
            way = f"give a table with a column {column}"
            if side.is_table:
                way = f"name the column of ids with {option('ids')}, or call it {column}"
            return f" No ids were found in {side.source}, so that its rows count from 0; {way}."
        if not self.few:
            return f" Use {option('ignore_unknown')} to leave it out."
        if self.swapped:
            return ""
        return (
            f" Are the judgements for other files, or are the ids of {side.source} in another "
            f"column ({option('ids')})?"
        )


@dataclass(frozen=True, eq=False)
class Collection:
    """Queries, documents and judgements; row i of Q and X is query i and document i.

    Attributes
    ----------
    query_ids, document_ids : list of str
    query_texts, document_texts : list of str
        A document's title, if it has one, comes before its text.
    relevance : Relevance
        Row numbers in these lists.

    Examples
    --------
    >>> from nearfar import Relevance
    >>> from nearfar.search import Collection
    >>> collection = Collection(["q"], ["d"], ["a question"], ["an answer"], Relevance([0], [0]))
    >>> collection.document_ids
    ['d']
    """

    query_ids: list[str]
    document_ids: list[str]
    query_texts: list[str]
    document_texts: list[str]
    relevance: Relevance


def read_beir(
    folder: str | PathLike[str], split: str = "test", *, unknown: Unknown = "raise"
) -> Collection:
    r"""Read a folder with `corpus.jsonl`, `queries.jsonl` and `qrels/*.tsv`.

    Parameters
    ----------
    folder : path
    split : str, default="test"
        Name of the file in `qrels`.
    unknown : {"raise", "ignore"}, default="raise"
        What to do with judgements of queries or documents that are not in the folder.

    Returns
    -------
    Collection
        All queries of the folder, whether they are judged in this split or not.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from nearfar.search import read_beir
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = pathlib.Path(name)
    ...     (folder / "qrels").mkdir()
    ...     for file, key in (("corpus", "d"), ("queries", "q")):
    ...         line = json.dumps({"_id": key, "text": "words"})
    ...         _ = (folder / f"{file}.jsonl").write_text(line + "\n")
    ...     judged = "query-id\tcorpus-id\tscore\nq\td\t1\n"
    ...     _ = (folder / "qrels" / "test.tsv").write_text(judged)
    ...     read_beir(folder).query_ids
    ['q']
    """
    queries, documents, qrels = beir_files(folder, split)
    (query_ids, query_texts), (document_ids, document_texts) = map(_texts, (queries, documents))
    relevance = read_qrels(qrels, query_ids, document_ids, unknown=unknown)
    return Collection(query_ids, document_ids, query_texts, document_texts, relevance)


def beir_files(folder: str | PathLike[str], split: str) -> tuple[Path, Path, Path]:
    """Find the files of queries, documents and judgements of a folder of BEIR."""
    place = Path(folder)
    if not place.is_dir():
        raise FileNotFoundError(f"There is no folder {place}.")
    texts = []
    for name in ("queries.jsonl", "corpus.jsonl"):
        found = [each for each in (place / name, place / f"{name}.gz") if each.is_file()]
        if not found:
            raise FileNotFoundError(f"There is no {name} in {place}.")
        texts.append(found[0])
    qrels = place / "qrels" / f"{split}.tsv"
    if not qrels.is_file():
        splits = ", ".join(sorted(file.stem for file in qrels.parent.glob("*.tsv"))) or "none"
        raise FileNotFoundError(f"There is no {qrels}; the splits of this folder are: {splits}.")
    return texts[0], texts[1], qrels


def _texts(path: Path) -> tuple[list[str], list[str]]:
    """Read ids and texts from a file of JSON lines with `_id`, `text` and perhaps `title`."""
    ids, texts = [], []
    for where, line in _lines(path):
        try:
            entry = json.loads(line)
            name, text = str(entry["_id"]), entry["text"]
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f'{where} is not a JSON object with "_id" and "text": {line[:40].strip()!r}.'
            ) from error
        ids.append(name)
        texts.append(f"{entry.get('title') or ''} {text}".strip())
    return ids, texts


def read_qrels(
    path: str | PathLike[str],
    query_ids: Iterable[Hashable],
    document_ids: Iterable[Hashable],
    *,
    unknown: Unknown = "raise",
) -> Relevance:
    r"""Read judgements, one a line.

    Lines of TREC have four columns (query, a number that is not used, document, grade). Lines of
    BEIR have three (query, document, grade), after a header. Tabs, commas or blanks separate them.
    Grades below 0 are read as 0, as trec_eval does. The file may be compressed (`.gz`).

    Parameters
    ----------
    path : path
    query_ids, document_ids : iterable
        Ids of the rows of Q and X; they are compared as text.
    unknown : {"raise", "ignore"}, default="raise"
        What to do with judgements of other queries or documents. Without a relevant document that
        cannot be found, measures are higher than those of tools that count it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from nearfar.search import read_qrels
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "qrels.txt"
    ...     _ = path.write_text("q1 0 d2 1\nq1 0 d1 0\n")
    ...     read_qrels(path, ["q1"], ["d1", "d2"]).grade
    array([0., 1.])
    """
    check_parameters({"unknown": choice("raise", "ignore")}, {"unknown": unknown})
    query_rows = _rows_by_id("query", map(str, query_ids))
    document_rows = _rows_by_id("document", map(str, document_ids))
    grades: dict[tuple[int, int], float] = {}
    judged = list(_judgements(path))
    named = ({query for _, query, _, _ in judged}, {document for _, _, document, _ in judged})
    for where, query, document, grade in judged:
        if query not in query_rows and (unknown == "raise" or named[0].isdisjoint(query_rows)):
            raise UnknownIdError(where, "query", query, named[0], query_rows, document_rows)
        if document not in document_rows and (
            unknown == "raise" or named[1].isdisjoint(document_rows)
        ):
            raise UnknownIdError(where, "document", document, named[1], document_rows, query_rows)
        if not (query in query_rows and document in document_rows):
            continue
        pair = query_rows[query], document_rows[document]
        if grades.setdefault(pair, grade) != grade:
            raise ValueError(
                f"{where} grades document {document!r} of query {query!r} again, "
                "with another grade; keep one of the lines."
            )
    if not any(grade > 0 for grade in grades.values()):
        raise ValueError(f"{path} judges no document as relevant (with a grade above 0).")
    pairs = np.array(list(grades), dtype=np.intp)
    return Relevance(pairs[:, 0], pairs[:, 1], list(grades.values()))


def _rows_by_id(kind: str, ids: Iterable[Hashable]) -> dict[Hashable, int]:
    rows: dict[Hashable, int] = {}
    for row, name in enumerate(ids):
        if rows.setdefault(name, row) != row:
            raise ValueError(f"Two rows have the {kind} id {name!r}; ids must be different.")
    return rows


def _lines(path: str | PathLike[str]) -> Iterator[tuple[str, str]]:
    """Yield where a line is and what it says; empty lines are left out."""
    name = os.fspath(path)
    open_text: Callable[..., TextIO] = gzip.open if name.endswith(".gz") else open
    with open_text(path, "rt", encoding="utf-8-sig") as file:
        try:
            for number_of_line, line in enumerate(file, start=1):
                if line.strip():
                    yield f"{name}, line {number_of_line}", line
        except (UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
            raise ValueError(f"{name} is not a text file in UTF-8.") from error


def _judgements(path: str | PathLike[str]) -> Iterator[tuple[str, str, str, float]]:
    """Yield where each line is, and its query, document and grade."""
    for position, (where, line) in enumerate(_lines(path)):
        line = line.rstrip("\r\n")
        fields = [field.strip() for field in next(csv.reader([line]))]
        if line.count("\t") in _SEPARATORS:
            fields = [field.strip() for field in line.split("\t")]
        elif len(fields) - 1 not in _SEPARATORS or " " in fields[-1]:
            # Ids may have commas, where blanks separate.
            fields = line.split()
        if position == 0 and (fields[0] == _BEIR_HEADER or fields[-1].lower() in _GRADES):
            continue
        if len(fields) not in (3, 4):
            raise ValueError(
                f"{where} has {len(fields)} columns; a judgement has four (query, 0, document, "
                "grade) or three (query, document, grade), separated by tabs, commas or blanks."
            )
        try:
            grade = float(fields[-1])
        except ValueError:
            grade = np.nan
        if not np.isfinite(grade):
            raise ValueError(f"{where} has the grade {fields[-1]!r}, which is not a number.")
        yield where, fields[0], fields[-2], max(0.0, grade)


def write_run(
    path: str | PathLike[str],
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
    >>> from nearfar.search import search, write_run
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
    path: str | PathLike[str],
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
    >>> from nearfar.search import write_qrels
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


def _write(path: str | PathLike[str], lines: Iterator[str]) -> None:
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
