"""Measures of a search, beside ir_measures and loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nearfar import Relevance
from nearfar.metrics.points import unit_length
from nearfar.search import JudgedRanking, Ranking, search
from search.cranfield import read_cranfield
from search.oracle import by_ir_measures

CUTOFFS = [1, 5, 10, 100]


def assert_same(folder: Path, ranking: Ranking, relevance: Relevance) -> None:
    judged = JudgedRanking(ranking, relevance)
    for (name, k), expected in by_ir_measures(folder, ranking, relevance, CUTOFFS).items():
        np.testing.assert_allclose(getattr(judged, name)(k), expected, rtol=0, atol=1e-9)


def test_cranfield_agrees_with_ir_measures(tmp_path: Path, data_folder: Path) -> None:
    Q, X, relevance = read_cranfield(data_folder)
    ranking = search(unit_length(Q), unit_length(X), 100, queries=relevance.queries)
    assert_same(tmp_path, ranking, relevance)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("values", [2, 4, 1000])
def test_ties_grades_and_unjudged_documents_agree_with_ir_measures(
    tmp_path: Path, seed: int, values: int
) -> None:
    rng = np.random.default_rng(seed)
    n_queries, n_documents = 12, 40
    Q = np.eye(n_queries)
    X = rng.integers(values, size=(n_documents, n_queries)).astype(float)
    judged = rng.random((n_queries, n_documents)) < 0.4
    judged[:, 0] = True
    grade = rng.integers(4, size=judged.shape)
    grade[:, 0] = 1
    query, document = np.nonzero(judged)
    relevance = Relevance(query, document, grade[judged])
    assert_same(tmp_path, search(Q, X, int(rng.integers(1, n_documents))), relevance)


def test_queries_without_a_judgement_in_between(tmp_path: Path) -> None:
    relevance = Relevance([1, 4, 4], [0, 2, 1], [2, 1, 3])
    X = np.random.default_rng(0).normal(size=(3, 2))
    ranking = search(np.ones((5, 2)), X, 2, queries=relevance.queries)
    assert_same(tmp_path, ranking, relevance)


def test_measures_by_hand() -> None:
    ranking = Ranking(np.array([0]), np.array([[3, 1, 2]]), np.array([[3.0, 2.0, 1.0]]))
    judged = JudgedRanking(ranking, Relevance([0, 0, 0], [1, 7, 3], [2, 1, 0]))
    assert judged.mrr(3) == pytest.approx([1 / 2])
    assert judged.mrr(1) == pytest.approx([0])
    assert judged.recall(2) == pytest.approx([1 / 2])
    assert judged.average_precision(3) == pytest.approx([1 / 4])
    discounted = 2 / np.log2(3)
    ideal = 2 + 1 / np.log2(3)
    assert judged.ndcg(3) == pytest.approx([discounted / ideal])
    assert judged.best_ndcg(3) == pytest.approx([2 / ideal])


def test_best_order_is_at_least_as_good_and_one_if_all_is_found() -> None:
    rng = np.random.default_rng(1)
    relevance = Relevance(
        np.repeat(np.arange(6), 5), np.tile(np.arange(5), 6), rng.integers(1, 4, 30)
    )
    ranking = search(rng.normal(size=(6, 3)), rng.normal(size=(20, 3)), 20)
    judged = JudgedRanking(ranking, relevance)
    assert (judged.best_ndcg(10) >= judged.ndcg(10)).all()
    assert judged.best_ndcg(10) == pytest.approx(np.ones(6))


def test_queries_without_relevant_documents_are_refused() -> None:
    ranking = search(np.ones((2, 1)), np.ones((3, 1)), 1)
    with pytest.raises(ValueError, match="without a relevant document cannot be scored"):
        JudgedRanking(ranking, Relevance([0, 1], [0, 1], [1, 0]))


def test_cutoffs_start_at_one() -> None:
    judged = JudgedRanking(search(np.ones((1, 1)), np.ones((3, 1)), 1), Relevance([0], [0]))
    with pytest.raises(ValueError, match="k must be at least 1; got 0"):
        judged.ndcg(0)
