"""Judgements of documents for queries."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from nearfar import Relevance


def test_judgements_are_sorted_and_counted_once() -> None:
    relevance = Relevance([2, 0, 2, 2], [1, 4, 0, 1], [3, 1, 0, 3])
    assert relevance.query.tolist() == [0, 2, 2]
    assert relevance.document.tolist() == [4, 0, 1]
    assert relevance.grade.tolist() == [1, 0, 3]
    assert relevance.query.dtype == np.int64
    assert relevance.grade.dtype == np.float64


def test_grades_are_one_by_default() -> None:
    assert Relevance([0, 1], [1, 0]).grade.tolist() == [1, 1]


def test_queries_have_a_relevant_document() -> None:
    relevance = Relevance([3, 1, 1, 0], [0, 0, 1, 0], [1, 0, 2, 0])
    assert relevance.queries.tolist() == [1, 3]
    assert relevance.relevant.tolist() == [False, False, True, True]


def test_subset_keeps_row_numbers() -> None:
    kept = Relevance([0, 1, 2], [5, 6, 7], [1, 2, 3]).subset([2, 0])
    assert kept.query.tolist() == [0, 2]
    assert kept.document.tolist() == [5, 7]
    assert kept.grade.tolist() == [1, 3]
    assert len(kept.subset([])) == 0


def test_of_gives_the_judgements_of_a_query() -> None:
    relevance = Relevance([0, 2, 2], [5, 7, 6], [1, 3, 2])
    documents, grades = relevance.of(2)
    assert documents.tolist() == [6, 7]
    assert grades.tolist() == [2, 3]
    assert len(relevance.of(1)[0]) == 0


def test_arrays_cannot_be_changed() -> None:
    relevance = Relevance([0], [1])
    with pytest.raises(ValueError, match="read-only"):
        relevance.grade[0] = 2
    with pytest.raises(AttributeError):
        relevance.grade = np.ones(1)  # type: ignore[misc]


def test_pickling_keeps_judgements() -> None:
    again = pickle.loads(pickle.dumps(Relevance([1, 0], [2, 3], [1, 2])))
    assert again.document.tolist() == [3, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [2]), "one document for each query; got 2 queries and 1 documents"),
        (([0.0], [1]), "integer row numbers as `query`; got float64"),
        (([0], ["d"]), "integer row numbers as `document`"),
        (([-1], [0]), "Row numbers of `query` are 0 or more; got -1"),
        (([[0]], [0]), r"`query` as a list of row numbers; got shape \(1, 1\)"),
        (([0], [0], [1, 2]), "one grade per judgement"),
        (([0], [0], [np.nan]), "Grades must be finite numbers of 0 or more"),
        (([0], [0], [-1]), "Grades must be finite numbers of 0 or more"),
        (([0, 0], [3, 3], [1, 2]), r"Document 3 has two grades for query 0 \(1 and 2\)"),
    ],
)
def test_mistakes_are_named(arguments: tuple[list[object], ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Relevance(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("relevance", "message"),
    [
        (Relevance([4], [0]), r"query 4, but Q has only 2 rows \(0 to 1\)"),
        (Relevance([0], [9]), r"document 9, but X has only 3 rows \(0 to 2\)"),
        (Relevance([0], [0], [0]), "No document is relevant to any query"),
        (Relevance([], []), "No document is relevant to any query"),
    ],
)
def test_check_compares_with_the_tables(relevance: Relevance, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        relevance.check(n_queries=2, n_documents=3)
