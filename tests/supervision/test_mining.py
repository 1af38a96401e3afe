"""Mining against a loop over all pairs, whatever the tiles, ties, outliers and units."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar import NearestTriplets
from nearfar.numerics import nearest_rows
from nearfar.supervision.strategies import class_neighbors


def by_loops(X, y, n_targets, n_impostors, *, farthest=False):
    n = len(X)
    X = X.astype(np.float64)
    targets, impostors = np.full((n, n_targets), -1), np.full((n, n_impostors), -1)
    for i in range(n):
        distance = ((X - X[i]) ** 2).sum(axis=1)
        same = [j for j in range(n) if y[j] == y[i] and j != i]
        other = [j for j in range(n) if y[j] != y[i]]
        for rows, found, sign in ((same, targets, -1 if farthest else 1), (other, impostors, 1)):
            best = ranked({j: sign * distance[j] for j in rows})[: found.shape[1]]
            found[i, : len(best)] = best
    return targets, impostors


def ranked(distance):
    """Smallest first; runs of values that agree to 1e-10 by number."""
    order = sorted(distance, key=distance.__getitem__)
    groups = []
    for j in order:
        if groups and distance[j] - distance[groups[-1][-1]] <= 1e-10 * abs(distance[j]):
            groups[-1].append(j)
        else:
            groups.append([j])
    return [j for group in groups for j in sorted(group)]


@pytest.fixture(params=[(512, 2048, 1 << 19), (16, 40, 1 << 19), (7, 24, 60)])
def tiles(request, monkeypatch):
    rows, columns, candidates = request.param
    monkeypatch.setattr(nearest_rows, "_BLOCK_QUERIES", rows)
    monkeypatch.setattr(nearest_rows, "_TILE_COLUMNS", columns)
    monkeypatch.setattr(nearest_rows, "_MAX_CANDIDATES", candidates)
    monkeypatch.setattr(nearest_rows, "_FIRST_COLUMNS", 1)


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("farthest", [False, True])
@pytest.mark.parametrize(
    "kind", ["plain", "grid", "equal", "outlier", "far from origin", "float32"]
)
def test_equals_loops(kind, farthest, rng):
    for n, n_classes in ((2, 2), (30, 30), (97, 4), (120, 1)):
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
        found = class_neighbors(X, y, 3, 2, farthest_targets=farthest)
        for ours, theirs in zip(found, by_loops(X, y, 3, 2, farthest=farthest), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_units_do_not_break_ties_differently(rng):
    X = rng.integers(0, 4, size=(200, 4)).astype(float)
    y = rng.integers(0, 3, 200)
    first = NearestTriplets()(X, y)
    second = NearestTriplets()(1000 * X + 5, y)
    third = NearestTriplets()((X - X.mean(axis=0)) / 3.7, y)
    np.testing.assert_array_equal(first.index, second.index)
    np.testing.assert_array_equal(first.index, third.index)
