"""Mining against a loop over all pairs, whatever the tiles, ties, outliers and units."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar import FarTargetTriplets, NearestTriplets, RandomPairs, RandomTriplets, mining
from nearfar.constraints.mining import class_neighbors


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


@pytest.fixture(params=[(512, 4096, 1 << 19), (16, 40, 1 << 19), (7, 24, 60)])
def tiles(request, monkeypatch):
    rows, columns, candidates = request.param
    monkeypatch.setattr(mining, "_TILE_ROWS", rows)
    monkeypatch.setattr(mining, "_TILE_COLUMNS", columns)
    monkeypatch.setattr(mining, "_MAX_CANDIDATES", candidates)
    monkeypatch.setattr(mining, "_SAMPLED_COLUMNS", 8)


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


def test_order_of_rows_does_not_matter_without_ties(rng):
    X, y = rng.standard_normal((80, 3)), rng.integers(0, 3, 80)
    order = rng.permutation(80)
    shuffled = order[NearestTriplets()(X[order], y[order]).index]
    assert set(map(tuple, shuffled.tolist())) == set(
        map(tuple, NearestTriplets()(X, y).index.tolist())
    )


def test_any_labels_and_numbers(rng):
    X, y = rng.integers(0, 9, (30, 2)), rng.integers(0, 3, 30)
    expected = NearestTriplets()(X.astype(float), y).index
    for labels in (y * 0.3, np.array(["x", "y", "z"])[y], y + 10):
        np.testing.assert_array_equal(NearestTriplets()(X, labels).index, expected)
    np.testing.assert_array_equal(NearestTriplets()(X.tolist(), y).index, expected)
    with pytest.raises(ValueError, match="NaN"):
        NearestTriplets()(np.full((4, 1), np.nan), np.arange(4))
    with pytest.raises(ValueError, match="inconsistent"):
        NearestTriplets()(X, y[:-1])


def test_small_classes_give_what_there_is():
    X = np.arange(5.0)[:, None]
    triplets = NearestTriplets(3, 3)(X, np.array([0, 0, 1, 1, 2]))
    anchors, counts = np.unique(triplets.index[:, 0], return_counts=True)
    assert anchors.tolist() == [0, 1, 2, 3]
    assert counts.tolist() == [3, 3, 3, 3]


def test_far_targets_keep_a_seeded_share(rng):
    X, y = rng.standard_normal((60, 3)), rng.integers(0, 2, 60)
    everything = FarTargetTriplets(2, keep=1.0)(X, y)
    some = FarTargetTriplets(2, keep=0.25)(X, y, np.random.RandomState(3))
    again = FarTargetTriplets(2, keep=0.25)(X, y, np.random.RandomState(3))
    assert len(some) == len(everything) // 4
    np.testing.assert_array_equal(some.index, again.index)
    assert set(map(tuple, some.index)) <= set(map(tuple, everything.index))


def test_random_triplets_and_pairs_agree_with_the_labels(rng):
    X, y = rng.standard_normal((50, 2)), np.repeat([0, 1, 2, 3], [1, 9, 20, 20])
    anchor, near, far = RandomTriplets(2000)(X, y, np.random.RandomState(0)).index.T
    assert (y[anchor] == y[near]).all()
    assert (y[anchor] != y[far]).all()
    assert set(near) == set(anchor) == set(range(1, 50))
    assert set(far) == set(range(50))
    pairs = RandomPairs(2000, similar=0.3)(X, y, np.random.RandomState(0))
    assert pairs.similar.sum() == 600
    same = y[pairs.index[:, 0]] == y[pairs.index[:, 1]]
    np.testing.assert_array_equal(same, pairs.similar)


@pytest.mark.parametrize(
    "make",
    [
        lambda: NearestTriplets(0),
        lambda: NearestTriplets(impostors=1.5),
        lambda: FarTargetTriplets(keep=0),
        lambda: FarTargetTriplets(True),
        lambda: RandomTriplets(0),
        lambda: RandomPairs(10, similar=2),
    ],
)
def test_strategies_refuse(make):
    with pytest.raises(ValueError, match="got"):
        make()
