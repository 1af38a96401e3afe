"""The tiled search against sorted tables of float64 distances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from nearfar.numerics import nearest_rows as module
from nearfar.numerics.nearest_rows import NearestRows
from nearfar.runtime.progress import OutOfTimeError, deadline

RNG = np.random.default_rng(0)
X, QUERIES = RNG.standard_normal((3000, 20)), RNG.standard_normal((700, 20))


def check(X, queries, k, own=None):
    """Compare with a table; rows at equal distances come in the order of their numbers."""
    table = cdist(queries, X)
    if own is not None:
        table[np.arange(len(queries)), own] = np.inf
    found, indices = NearestRows(X).nearest(queries, k, own)
    np.testing.assert_array_equal(indices, np.argsort(table, axis=1, kind="stable")[:, :k])
    np.testing.assert_allclose(found, np.sort(table, axis=1)[:, :k], rtol=1e-12)


@pytest.mark.parametrize("k", [1, 10, 400, 3000])
def test_queries(k):
    check(X, QUERIES, k)


def test_rows_among_the_others():
    own = RNG.integers(len(X), size=300)
    check(X, X[own], 5, own)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_differences_below_float32(dtype):
    """Rows that float32 products cannot tell apart are ranked exactly."""
    near = (1e-3 * X).astype(dtype)
    near[0] = 50
    check(near, near[:50], 4)


def test_outliers_of_other_sizes():
    rows = X * np.logspace(-6, 6, len(X))[:, None]
    check(rows, rows[::30], 7)


def test_candidates_are_settled_before_they_are_many(monkeypatch):
    monkeypatch.setattr(module, "_MAX_CANDIDATES", 1000)
    monkeypatch.setattr(module, "_TILE_COLUMNS", 50)
    monkeypatch.setattr(module, "_FIRST_COLUMNS", 10)
    kept, settle = [], module._Block._settle

    def noted(block):
        kept.append(sum(len(i) for i, _, _ in block.found))
        return settle(block)

    monkeypatch.setattr(module._Block, "_settle", noted)
    NearestRows(np.ones((900, 3))).nearest(np.ones((40, 3)), 5)
    assert len(kept) > 5
    assert max(kept) <= 2 * 1000 + 40 * 50


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_units(size):
    expected = NearestRows(X).nearest(QUERIES, 3)
    found = NearestRows(size * X).nearest(size * QUERIES, 3)
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_allclose(found[0], size * expected[0], rtol=1e-12)


def test_queries_out_of_reach():
    rows = NearestRows(X)
    assert rows.reaches(1e10 * QUERIES)
    assert not rows.reaches(1e20 * QUERIES)
    check(X, 1e6 * QUERIES[:20], 2)


def test_a_deadline_ends_the_search():
    with deadline(-1), pytest.raises(OutOfTimeError):
        NearestRows(X).nearest(QUERIES, 3)
