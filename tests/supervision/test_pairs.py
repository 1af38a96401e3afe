from __future__ import annotations

import numpy as np
import pytest

from nearfar import Pairs


class TestPairs:
    @pytest.mark.parametrize(
        ("index", "similar", "message"),
        [
            ([[0, 1, 2]], [True], "shape"),
            ([[1, 1]], [True], "same row"),
            ([[0, 1]], [1], "one boolean per pair"),
            ([[0, 1]], [True, False], "one boolean per pair"),
        ],
    )
    def test_refuses(self, index, similar, message):
        with pytest.raises(ValueError, match=message):
            Pairs(index, similar)

    def test_restrict(self):
        pairs = Pairs([[0, 1], [1, 2], [2, 3]], [True, False, True], [1.0, 2.0, 3.0])
        kept = pairs.restrict([3, 2, 1])
        assert kept.index.tolist() == [[2, 1], [1, 0]]
        assert kept.similar.tolist() == [False, True]
        assert kept.weight.tolist() == [2.0, 3.0]

    def test_from_points_keeps_every_distance(self, rng):
        points = rng.integers(0, 3, (40, 2, 2)).astype(float)
        similar = rng.random(40) < 0.5
        X, pairs = Pairs.from_points(points, similar, np.arange(40.0))
        kept = pairs.weight.astype(int)
        assert len(np.unique(X, axis=0)) == len(X) <= 9
        assert kept.tolist() == [i for i in range(40) if (points[i, 0] != points[i, 1]).any()]
        np.testing.assert_array_equal(X[pairs.index], points[kept])
        np.testing.assert_array_equal(pairs.similar, similar[kept])

    def test_from_points_keeps_the_order_and_float32(self):
        points = np.array([[[5], [1]], [[3], [5]]], dtype=np.float32)
        X, pairs = Pairs.from_points(points, [True, False])
        assert X.dtype == np.float32
        assert X.ravel().tolist() == [5, 1, 3]
        assert pairs.index.tolist() == [[0, 1], [2, 0]]

    def test_a_pair_and_its_reverse_are_in_the_same_fold(self):
        index = np.array([[i, j] for i in range(8) for j in range(8) if i != j])
        pairs = Pairs(index, np.arange(len(index)) % 2 == 0)
        for seen, unseen in pairs.folds(3, random_state=0):
            apart = [
                {tuple(sorted(pair)) for pair in part.index.tolist()} for part in (seen, unseen)
            ]
            assert not apart[0] & apart[1]


@pytest.mark.parametrize("n_folds", [1, 4])
def test_folds_of_too_few_pairs(n_folds):
    pairs = Pairs([[0, 1], [1, 2], [2, 3]], [True, False, True])
    with pytest.raises(ValueError, match=f"3 pairs cannot be split into {n_folds} folds"):
        list(pairs.folds(n_folds))
