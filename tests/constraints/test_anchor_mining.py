"""Neighbours of anchors against the exact search for all rows, in memory and from disk."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar import open_rows
from nearfar.constraints import anchor_mining
from nearfar.constraints.anchor_mining import anchor_neighbors
from nearfar.constraints.mining import class_neighbors
from nearfar.rows import base


@pytest.fixture(params=[(512, 4096, 1 << 26, 1 << 19), (7, 24, 16 * 3 * 40, 50)], autouse=True)
def tiles(request, monkeypatch):
    rows, columns, band, candidates = request.param
    monkeypatch.setattr(anchor_mining, "_TILE_ROWS", rows)
    monkeypatch.setattr(anchor_mining, "_TILE_COLUMNS", columns)
    monkeypatch.setattr(anchor_mining, "_BAND_BYTES", band)
    monkeypatch.setattr(anchor_mining, "_MAX_CANDIDATES", candidates)
    monkeypatch.setattr(anchor_mining, "_BLOCK_BYTES", 700)
    monkeypatch.setattr(anchor_mining, "_SAMPLED_ROWS", 20)
    monkeypatch.setattr(base, "_PIECE_BYTES", 900)


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize(
    "kind", ["plain", "grid", "equal", "outlier", "far from origin", "float32"]
)
def test_equals_the_search_for_all_rows(kind, on_disk, rng, tmp_path):
    for n, n_classes in ((2, 2), (30, 30), (97, 4), (260, 40), (120, 1)):
        X = rng.standard_normal((n, 3))
        if kind == "grid":
            X = np.round(X)
        elif kind == "equal":
            X = np.zeros((n, 3))
        elif kind == "outlier":
            X[0] = 1e9
        elif kind == "far from origin":
            X += 1e6
        elif kind == "float32":
            X = X.astype(np.float32)
        y = rng.integers(0, n_classes, n)
        targets, impostors = class_neighbors(X, y, 3, 2)
        np.save(tmp_path / "X.npy", X)
        points = open_rows(tmp_path / "X.npy") if on_disk else X
        for anchors in (np.arange(n), np.sort(rng.choice(n, n // 2, replace=False))):
            found = anchor_neighbors(points, y, anchors, 3, 2)
            np.testing.assert_array_equal(found[0], targets[anchors])
            np.testing.assert_array_equal(found[1], impostors[anchors])


def test_one_kind_of_neighbour_may_not_be_asked_for(rng):
    X, y = rng.standard_normal((60, 3)), np.arange(60) % 3
    targets, impostors = anchor_neighbors(X, y, np.arange(60), 2, 0)
    assert impostors.shape == (60, 0)
    np.testing.assert_array_equal(targets, class_neighbors(X, y, 2, 0)[0])
