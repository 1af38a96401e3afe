from __future__ import annotations

import numpy as np
import pytest

from nearfar import FarTargetTriplets, NearestTriplets, RandomPairs, RandomTriplets


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


@pytest.mark.parametrize(
    "strategy", [FarTargetTriplets(2, keep=0.25), RandomTriplets(9), RandomPairs(9)], ids=str
)
def test_a_number_is_a_random_state(strategy, rng):
    X, y = rng.standard_normal((60, 3)), rng.integers(0, 2, 60)
    by_number, by_state = (strategy(X, y, seed) for seed in (3, np.random.RandomState(3)))
    np.testing.assert_array_equal(by_number.index, by_state.index)
