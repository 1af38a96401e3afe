from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from nearfar import BoostMetric, Metric, Pairs, Triplets


class TestTriplets:
    @pytest.mark.parametrize(
        ("index", "message"),
        [
            ([[0, 1]], "shape"),
            ([0, 1, 2], "shape"),
            ([[0, 1, -2]], "0 or more"),
            ([[0.0, 1.0, 2.0]], "integer"),
            ([["a", "b", "c"]], "integer"),
            ([[1, 1, 2]], "anchor and near"),
            ([[1, 2, 1]], "anchor and far"),
            ([[0, 2, 2]], "near and far"),
        ],
    )
    def test_refuses(self, index, message):
        with pytest.raises(ValueError, match=message):
            Triplets(index)

    @pytest.mark.parametrize("kind", [Triplets, Pairs])
    def test_refuses_weights_whose_sums_overflow(self, kind):
        index, similar = np.array([[0, 1, 2], [1, 2, 0]]), [True, False]
        last = (index,) if kind is Triplets else (index[:, :2], similar)
        with pytest.raises(ValueError, match=rf"{kind.__name__} .* at most 1e\+"):
            kind(*last, [1e308, 1.0])

    def test_the_largest_weights_of_pairs_make_triplets(self):
        pairs = Pairs([[0, 1], [0, 2]], [True, False], [1e49, 1e49])
        assert pairs.triplets().weight == pytest.approx([1e98])

    @pytest.mark.parametrize("weight", [[1.0], [[1.0, 1.0]], [1.0, np.nan], [1.0, -1.0]])
    def test_refuses_weights(self, weight):
        with pytest.raises(ValueError, match="weight"):
            Triplets([[0, 1, 2], [1, 2, 0]], weight)

    def test_is_frozen_and_a_copy(self):
        index = np.array([[0, 1, 2]])
        triplets = Triplets(index)
        index[0, 0] = 9
        assert triplets.index[0, 0] == 0
        with pytest.raises(ValueError, match="read-only"):
            triplets.index[0, 0] = 5
        with pytest.raises(AttributeError):
            triplets.index = index

    def test_check_names_the_row(self):
        with pytest.raises(ValueError, match=r"row 7, but X has only 5 rows"):
            Triplets([[0, 1, 7]]).check(5)

    def test_take_and_restrict(self):
        triplets = Triplets([[0, 1, 2], [3, 4, 0], [4, 3, 1]], [1.0, 2.0, 3.0])
        assert triplets.take([2, 0]).weight.tolist() == [3.0, 1.0]
        assert triplets.take([False, True, False]).index.tolist() == [[3, 4, 0]]
        kept = triplets.restrict([4, 3, 0])
        assert kept.index.tolist() == [[1, 0, 2]]
        assert kept.weight.tolist() == [2.0]
        mask = np.array([True, False, False, True, True])
        assert triplets.restrict(mask).index.tolist() == [[1, 2, 0]]
        assert len(triplets.restrict([0, 1])) == 0

    def test_edges_of_selection(self):
        triplets = Triplets([[0, 1, 2], [3, 4, 0]])
        assert len(triplets.take([])) == 0
        assert len(triplets.restrict([])) == 0
        with pytest.raises(ValueError, match="0 or more; got -1"):
            triplets.restrict([-1, 0, 1])
        with pytest.raises(ValueError, match="integer"):
            Triplets.from_rankings({0: [[1.7], 2]})
        with pytest.raises(ValueError, match="0 or more"):
            Triplets(np.array([[2**63 + 5, 1, 2]], dtype=np.uint64))
        assert len(triplets.over(5)[3]) == 1

    def test_folds_are_by_anchor(self, rng):
        index = np.column_stack(
            [np.repeat(np.arange(10), 3), np.tile([10, 11, 12], 10), np.full(30, 20)]
        )
        seen = []
        for train, test in Triplets(index).folds(3, random_state=0):
            assert not set(train.index[:, 0]) & set(test.index[:, 0])
            assert len(train) + len(test) == 30
            seen += test.index[:, 0].tolist()
        assert sorted(seen) == index[:, 0].tolist()
        with pytest.raises(ValueError, match="10 anchors"):
            next(Triplets(index).folds(11))

    def test_from_rankings(self):
        triplets = Triplets.from_rankings({9: [1, 2, 3], 8: [(4, 5), 6]})
        assert triplets.index.tolist() == [
            [9, 1, 2],
            [9, 1, 3],
            [9, 2, 3],
            [8, 4, 6],
            [8, 5, 6],
        ]
        repeated = Triplets.from_rankings([(9, [1, 2]), (9, [2, 3])])
        assert repeated.index.tolist() == [[9, 1, 2], [9, 2, 3]]
        assert len(Triplets.from_rankings({})) == 0

    def test_from_pairs_equals_a_loop(self, rng):
        index = np.array([p for p in rng.integers(0, 12, size=(60, 2)) if p[0] != p[1]])
        similar = rng.random(len(index)) < 0.5
        weight = rng.random(len(index))
        expected = {}
        for (a, b), s, w in zip(index, similar, weight, strict=True):
            for (c, d), t, x in zip(index, similar, weight, strict=True):
                if s and not t:
                    for anchor, near in ((a, b), (b, a)):
                        for other, far in ((c, d), (d, c)):
                            if anchor == other and near != far:
                                key = (anchor, near, far)
                                expected.setdefault(key, []).append(w * x)
        triplets = Pairs(index, similar, weight).triplets()
        found = {}
        for key, w in zip(map(tuple, triplets.index.tolist()), triplets.weight, strict=True):
            found.setdefault(key, []).append(w)
        assert found.keys() == expected.keys()
        for key, weights in expected.items():
            assert sorted(found[key]) == pytest.approx(sorted(weights))

    def test_pickles(self):
        copy = pickle.loads(pickle.dumps(Triplets([[0, 1, 2]], [2.0])))
        assert copy.index.tolist() == [[0, 1, 2]]
        assert copy.weight.tolist() == [2.0]
        with pytest.raises(ValueError, match="read-only"):
            copy.index[0, 0] = 5

    def test_from_points_keeps_every_comparison(self, rng):
        points = rng.integers(0, 3, (40, 3, 2)).astype(float)
        X, triplets = Triplets.from_points(points, np.arange(40.0))
        kept = triplets.weight.astype(int)
        distinct = [i for i in range(40) if len(np.unique(points[i], axis=0)) == 3]
        assert kept.tolist() == distinct
        np.testing.assert_array_equal(X[triplets.index], points[distinct])
        assert Triplets.from_points(points)[1].weight is None

    @pytest.mark.parametrize(
        ("points", "weight", "message"),
        [
            (np.zeros((1, 2, 2)), None, r"shape \(n, 3, n_features\)"),
            (np.full((1, 3, 2), np.inf), None, "finite"),
            (np.zeros((1, 3, 2)), [1.0, 1.0], "one weight each"),
        ],
    )
    def test_from_points_refuses(self, points, weight, message):
        with pytest.raises(ValueError, match=message):
            Triplets.from_points(points, weight)


def test_constraints_over_samples_split_like_targets():
    y = Triplets([[0, 1, 2], [3, 4, 0], [4, 3, 1]]).over(5)
    assert len(y) == 5
    assert y.shape == (5,)
    fold = y[np.array([0, 3, 4])]
    assert len(fold) == 3
    assert fold.constraints.index.tolist() == [[1, 2, 0]]
    with pytest.raises(ValueError, match="only 3 rows"):
        Triplets([[0, 1, 3]]).over(3)


def test_distinct_triplets_add_their_weights():
    index = [[3, 1, 2], [0, 1, 2], [3, 1, 2], [0, 2, 1]]
    plain = Triplets(index).distinct()
    assert dict(zip(map(tuple, plain.index.tolist()), plain.weight, strict=True)) == {
        (0, 1, 2): 1.0,
        (0, 2, 1): 1.0,
        (3, 1, 2): 2.0,
    }
    weighted = Triplets(index, [0.5, 2.0, 0.25, 1.0]).distinct()
    assert weighted.weight.tolist() == [2.0, 1.0, 0.75]
    alone = Triplets(index[:2], [0.5, 2.0])
    assert alone.distinct() is alone


def test_folds_without_triplets_are_errors():
    """Sorted rows and folds that are not shuffled: no triplet is within a test fold."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    near = np.arange(20)
    triplets = Triplets(np.column_stack([near, near + 20, near + 40])).over(60)
    for search in (
        lambda cv: cross_val_score(BoostMetric(max_iter=2), X, triplets, cv=cv),
        lambda cv: GridSearchCV(BoostMetric(), {"max_iter": [2]}, cv=cv).fit(X, triplets),
    ):
        with pytest.raises(ValueError, match=r"20 Triplets .* Shuffle"):
            search(KFold(3))
    assert len(triplets[3]) == 1
    assert len(triplets[[]]) == 0


def quadruplets(n_rows, number, seed=0):
    """Draw comparisons of two different pairs of rows, many of which share a row."""
    rng, found = np.random.RandomState(seed), []
    while len(found) < number:
        a, b, c, d = rng.randint(0, n_rows, 4)
        if a != b and c != d and {a, b} != {c, d}:
            found.append((a, b, c, d))
    return np.array(found)


def test_quadruplets_keep_their_distances_under_every_linear_metric():
    rng = np.random.RandomState(0)
    X, index, weight = rng.normal(size=(9, 4)), quadruplets(6, 300), rng.uniform(size=300)
    rows, triplets = Triplets.from_quadruplets(X, index, weight)
    np.testing.assert_array_equal(rows[:9], X)
    np.testing.assert_array_equal(triplets.weight, weight)
    for metric in (Metric.identity(4), Metric(rng.normal(size=(2, 4)))):
        for pair, ends in ((index[:, :2], [0, 1]), (index[:, 2:], [0, 2])):
            np.testing.assert_allclose(
                metric.pair_distances(rows, triplets.index[:, ends]),
                metric.pair_distances(X, pair),
            )


def test_quadruplets_that_share_a_row_are_triplets_of_the_given_rows():
    X, index = np.arange(6.0)[:, None] ** 2, quadruplets(6, 300)
    rows, triplets = Triplets.from_quadruplets(X, index)
    shared = np.array([len(set(row)) < 4 for row in index])
    assert shared.any()
    assert not shared.all()
    np.testing.assert_array_equal((triplets.index < 6).all(axis=1), shared)
    # Those of a triplet are its own.
    same, back = Triplets.from_quadruplets(X, [[2, 1, 2, 3], [4, 2, 5, 2]])
    assert len(same) == 6
    np.testing.assert_array_equal(back.index, [[2, 1, 3], [2, 4, 5]])
    # A new row is added once.
    assert len(rows) - 6 == len(np.unique(triplets.index[~shared, 2]))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([[0, 1, 2, 9]], "Quadruplets refer to row 9; X has 4 rows."),
        ([[0, 1, 2, 3], [1, 1, 2, 3]], r"Quadruplet 1 \[1, 1, 2, 3\]: the rows of a pair are"),
        ([[0, 1, 3, 3]], r"Quadruplet 0 \[0, 1, 3, 3\]: the rows of a pair are"),
        ([[0, 1, 1, 0]], "both pairs are the same"),
        ([[0, 1, 2]], r"shape \(n, 4\)"),
    ],
)
def test_bad_quadruplets(index, message):
    with pytest.raises(ValueError, match=message):
        Triplets.from_quadruplets(np.arange(4.0)[:, None], index)


def test_triplets_are_no_array():
    for convert in (np.array, np.asarray, np.ravel):
        with pytest.raises(TypeError, match=r"`over\(len\(X\)\)` with shuffled folds"):
            convert(Triplets([[0, 1, 2]]))
