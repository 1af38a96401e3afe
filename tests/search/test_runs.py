"""TREC files."""

from __future__ import annotations

from pathlib import Path

import ir_measures
import numpy as np
import pytest

from nearfar import Relevance
from nearfar.search import Ranking, read_qrels, search, write_qrels, write_run


def test_other_tools_read_the_same_order_where_scores_are_equal(tmp_path: Path) -> None:
    X = np.array([[1.0], [1.0 + 1e-12], [1.0], [0.0], [1.0], [-0.0]])
    ranking = search(np.ones((1, 1)), X, 6)
    write_run(tmp_path / "run.trec", ranking)
    run = ir_measures.read_trec_run(str(tmp_path / "run.trec"))
    scores = {int(line.doc_id): np.float32(line.score) for line in run}
    assert len(set(scores.values())) == 6
    by_score = sorted(scores, key=lambda document: -scores[document])
    assert by_score == ranking.documents[0].tolist() == [1, 0, 2, 4, 3, 5]


def test_run_has_ids_ranks_and_a_name(tmp_path: Path) -> None:
    ranking = Ranking(np.array([1]), np.array([[2, 0]]), np.array([[0.75, 0.5]]))
    write_run(
        tmp_path / "run.trec", ranking, query_ids=["a", "b"], document_ids=[7, 8, 9], name="mine"
    )
    lines = (tmp_path / "run.trec").read_text().splitlines()
    assert lines == ["b Q0 9 1 0.75 mine", "b Q0 7 2 0.5 mine"]


def test_judgements_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    relevance = Relevance([0, 1, 1], [2, 0, 1], [3, 0, 1])
    write_qrels(path, relevance, query_ids=["a", "b"], document_ids="xyz")
    again = read_qrels(path, ["a", "b"], "xyz")
    assert again.document.tolist() == relevance.document.tolist()
    assert again.grade.tolist() == relevance.grade.tolist()
    lines = list(ir_measures.read_trec_qrels(str(path)))
    assert [(line.query_id, line.doc_id, line.relevance) for line in lines] == [
        ("a", "z", 3),
        ("b", "x", 0),
        ("b", "y", 1),
    ]


def test_what_a_trec_file_cannot_hold_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    ranking = Ranking(np.array([0]), np.array([[1]]), np.array([[1.0]]))
    with pytest.raises(ValueError, match="document id in a TREC file is a word without spaces"):
        write_run(path, ranking, document_ids=["a", "b c"])
    with pytest.raises(ValueError, match="name of a run in a TREC file is a word"):
        write_run(path, ranking, name="my run")
    with pytest.raises(ValueError, match="Document 1 has no id; got 1 document ids"):
        write_run(path, ranking, document_ids=["a"])
    with pytest.raises(ValueError, match="Grades in a TREC file are whole numbers"):
        write_qrels(path, Relevance([0], [0], [0.5]))
    assert not path.exists()
