"""Judged searches from files and tables."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from nearfar.search import read_beir, read_qrels

QUERIES, DOCUMENTS = ["q1", "q2"], ["d1", "d2", "d3"]


def written(folder: Path, text: str, name: str = "qrels.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "q1 0 d2 1\nq2 Q0 d1 2\nq2 0 d3 -1\n",
        "q1\t0\td2\t1\r\n\r\nq2\t0\td1\t2\r\nq2\t0\td3\t0",
        "query-id\tcorpus-id\tscore\nq1\td2\t1\nq2\td1\t2\nq2\td3\t0\n",
        "q1\td2\t1\nq2\td1\t2\nq2\td3\t0\n",
        "\ufeffq1 0 d2 1\nq2 0 d1 2.0\nq2 0 d3 0\nq2 0 d3 0\n",
    ],
)
def test_trec_and_beir_lines_say_the_same(tmp_path: Path, text: str) -> None:
    relevance = read_qrels(written(tmp_path, text), QUERIES, DOCUMENTS)
    assert relevance.query.tolist() == [0, 1, 1]
    assert relevance.document.tolist() == [1, 0, 2]
    assert relevance.grade.tolist() == [1, 2, 0]


def test_ids_with_spaces_need_tabs(tmp_path: Path) -> None:
    relevance = read_qrels(written(tmp_path, "q 1\td 1\t1\n"), ["q 1"], ["d 1"])
    assert len(relevance) == 1


def test_numbers_are_compared_as_text(tmp_path: Path) -> None:
    path = written(tmp_path, "7 0 9 1\n")
    assert read_qrels(path, np.array([6, 7]), np.array([9])).query.tolist() == [1]


def test_compressed_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt.gz"
    with gzip.open(path, "wt") as file:
        file.write("q1 0 d2 1\n")
    assert read_qrels(path, QUERIES, DOCUMENTS).document.tolist() == [1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1 0 d2 1\nq9 0 d1 1\n", r"qrels.txt, line 2 names query 'q9', which has no vector"),
        ("q1 0 d9 1\n", r"line 1 names document 'd9', which has no vector"),
        ("q1 0 d2 1\n\nq1 d2\n", "line 3 has 2 columns; a judgement has four"),
        ("q1 0 d2 good\n", "line 1 has the grade 'good', which is not a number"),
        ("q1 0 d2 nan\n", "line 1 has the grade 'nan', which is not a number"),
        ("q1 0 d2 1\nq1 0 d2 2\n", "line 2 grades document 'd2' of query 'q1' again"),
        ("q1 0 d2 0\n", "judges no document as relevant"),
        ("", "judges no document as relevant"),
    ],
)
def test_mistakes_in_qrels_are_named_with_their_line(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        read_qrels(written(tmp_path, text), QUERIES, DOCUMENTS)


def test_unknown_ids_can_be_ignored(tmp_path: Path) -> None:
    path = written(tmp_path, "q9 0 d1 1\nq1 0 d9 1\nq1 0 d1 1\n")
    assert len(read_qrels(path, QUERIES, DOCUMENTS, unknown="ignore")) == 1
    with pytest.raises(ValueError, match='unknown must be "raise" or "ignore"'):
        read_qrels(path, QUERIES, DOCUMENTS, unknown="drop")  # type: ignore[arg-type]


def test_equal_ids_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Two rows have the document id 'd1'"):
        read_qrels(written(tmp_path, "q1 0 d1 1\n"), QUERIES, ["d1", "d1"])


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    path.write_bytes(b"\xff\xfe\x00q1")
    with pytest.raises(ValueError, match="is not a text file in UTF-8"):
        read_qrels(path, QUERIES, DOCUMENTS)
    path = tmp_path / "qrels.gz"
    path.write_bytes(b"q1 0 d1 1\n")
    with pytest.raises(ValueError, match="is not a text file in UTF-8"):
        read_qrels(path, QUERIES, DOCUMENTS)


def beir(folder: Path) -> Path:
    (folder / "qrels").mkdir()
    lines = [{"_id": "d1", "title": "Wing", "text": "lift"}, {"_id": "d2", "text": "drag"}]
    written(folder, "\n".join(map(json.dumps, lines)), "corpus.jsonl")
    lines = [{"_id": "q1", "text": "what lifts"}, {"_id": "q2", "text": "what drags"}]
    written(folder, "\n".join(map(json.dumps, lines)), "queries.jsonl")
    written(folder / "qrels", "query-id\tcorpus-id\tscore\nq2\td2\t1\n", "test.tsv")
    written(folder / "qrels", "query-id\tcorpus-id\tscore\nq1\td1\t1\n", "train.tsv")
    return folder


def test_beir_folder_is_read(tmp_path: Path) -> None:
    found = read_beir(beir(tmp_path))
    assert found.query_ids == ["q1", "q2"]
    assert found.document_texts == ["Wing lift", "drag"]
    assert found.query_texts == ["what lifts", "what drags"]
    assert found.relevance.queries.tolist() == [1]
    assert read_beir(tmp_path, "train").relevance.queries.tolist() == [0]


def test_what_a_beir_folder_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        read_beir(tmp_path / "none")
    folder = beir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"the splits of this folder are: test, train"):
        read_beir(folder, "dev")
    written(folder, '{"_id": "d1", "text": "lift"}\n{"id": 2}\n', "corpus.jsonl")
    with pytest.raises(ValueError, match=r'corpus.jsonl, line 2 is not a JSON object with "_id"'):
        read_beir(folder)
    (folder / "queries.jsonl").unlink()
    with pytest.raises(FileNotFoundError, match=r"There is no queries.jsonl in"):
        read_beir(folder)


@pytest.mark.parametrize(
    "text",
    [
        "query,document,grade\nq1,d2,1\nq1,d1,0\n",
        "q1, d2, 1\nq1, d1, 0\n",
        "q1,0,d2,1\nq1,0,d1,0\n",
        "query_id\tdoc_id\trelevance\nq1\td2\t1\nq1\td1\t0\n",
        '"q1","d2",1\n"q1","d1",0\n',
    ],
)
def test_commas_and_headers(tmp_path, text):
    relevance = read_qrels(written(tmp_path, text), ["q1"], ["d1", "d2"])
    assert relevance.document.tolist() == [0, 1]
    assert relevance.grade.tolist() == [0, 1]


def test_ids_with_commas(tmp_path):
    path = written(tmp_path, "q,1 0 d,2 1\n")
    assert read_qrels(path, ["q,1"], ["d,1", "d,2"]).document.tolist() == [1]
