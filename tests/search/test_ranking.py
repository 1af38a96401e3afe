"""Exact search by inner product."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar.search import search


@pytest.mark.parametrize("depth", [1, 3, 20, 40])
@pytest.mark.parametrize("values", [3, 10**6])
@pytest.mark.parametrize("block", [1, 100, 10**6])
def test_search_sorts_by_score_and_then_by_row(
    monkeypatch: pytest.MonkeyPatch, depth: int, values: int, block: int
) -> None:
    monkeypatch.setattr("nearfar.search.ranking._MAX_ELEMENTS", block)
    rng = np.random.default_rng(depth)
    Q = rng.integers(values, size=(7, 2)).astype(float)
    X = rng.integers(values, size=(40, 2)).astype(float)
    found = search(Q, X, depth)
    table = Q @ X.T
    expected = [sorted(range(40), key=lambda row: (-scores[row], row))[:depth] for scores in table]
    assert found.documents.tolist() == expected
    np.testing.assert_array_equal(found.scores, np.take_along_axis(table, found.documents, 1))


def test_some_queries_can_be_searched() -> None:
    rng = np.random.default_rng(0)
    Q, X = rng.normal(size=(6, 3)), rng.normal(size=(9, 3))
    some = search(Q, X, 4, queries=[5, 2])
    np.testing.assert_array_equal(some.documents, search(Q, X, 4).documents[[5, 2]])
    assert some.queries.tolist() == [5, 2]


def test_single_precision_stays() -> None:
    ones = np.ones((2, 2), dtype=np.float32)
    assert search(ones, ones, 1).scores.dtype == np.float32


@pytest.mark.parametrize("depth", [0, 4])
def test_depth_is_checked(depth: int) -> None:
    with pytest.raises(ValueError, match=f"Between 1 and 3 documents can be found; got {depth}"):
        search(np.ones((1, 1)), np.ones((3, 1)), depth)


def test_missing_values_are_refused() -> None:
    with pytest.raises(ValueError, match="Scores are not finite"):
        search(np.array([[np.nan]]), np.ones((3, 1)), 1)
