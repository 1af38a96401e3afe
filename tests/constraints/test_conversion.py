from __future__ import annotations

import numpy as np
import pytest

from nearfar import Chunklets, NearestTriplets, Pairs, RandomPairs, RandomTriplets, Triplets
from nearfar.constraints import checked_labels, given_pairs, to_chunklets, to_pairs, to_triplets
from problems import labelled

X, Y, _ = labelled()
SIMILAR = Pairs([[0, 1], [0, 2], [3, 4]], [True, False, False], [2.0, 3.0, 0.0])


def triplets_of(supervision, strategy=None):
    return to_triplets(X, supervision, strategy or NearestTriplets(), np.random.RandomState(0))


def pairs_of(supervision, strategy=None):
    return to_pairs(X, supervision, strategy or RandomPairs(20), np.random.RandomState(0))


def test_labels_go_through_the_strategy():
    expected = NearestTriplets(1, 1)(X, Y)
    np.testing.assert_array_equal(triplets_of(Y, NearestTriplets(1, 1)).index, expected.index)
    drawn = RandomPairs(30)(X, Y, np.random.RandomState(0))
    np.testing.assert_array_equal(pairs_of(Y, RandomPairs(30)).index, drawn.index)
    joined = triplets_of(Y, RandomPairs(30))
    np.testing.assert_array_equal(joined.index, drawn.triplets().index)


def test_constraints_pass_through_without_those_of_no_weight():
    triplets = Triplets([[0, 1, 2], [3, 4, 5]], [0.0, 2.0])
    for given in (triplets, triplets.over(len(X))):
        assert triplets_of(given).index.tolist() == [[3, 4, 5]]
        assert triplets_of(given).weight.tolist() == [2.0]
    plain = Triplets([[0, 1, 2]])
    assert triplets_of(plain) is plain
    for given in (SIMILAR, SIMILAR.over(len(X))):
        assert pairs_of(given).index.tolist() == [[0, 1], [0, 2]]
        assert triplets_of(given).index.tolist() == [[0, 1, 2]]
        assert triplets_of(given).weight.tolist() == [6.0]


@pytest.mark.parametrize(
    ("convert", "supervision", "strategy", "message"),
    [
        (triplets_of, Chunklets.from_labels(Y), None, "what does not.*Triplets or Pairs"),
        (pairs_of, Chunklets.from_labels(Y), None, "what does not.*labels or Pairs"),
        (triplets_of, np.zeros(60, int), None, "at least two classes"),
        (triplets_of, np.arange(60), RandomTriplets(5), "two members"),
        (pairs_of, np.zeros(60, int), None, "at least two classes"),
        (pairs_of, Triplets([[0, 1, 2]]), None, "not which pairs are similar"),
        (pairs_of, Y, NearestTriplets(), "makes Triplets, not Pairs"),
        (triplets_of, Y, lambda X, y, random_state: "many", "makes str, not Triplets"),
        (triplets_of, Pairs([[0, 1]], [True]), None, "share a row"),
        (pairs_of, Pairs([[0, 1]], [True]), None, "All pairs are similar"),
        (triplets_of, Triplets([[0, 1, 60]]), None, "row 60"),
    ],
)
def test_what_cannot_be_converted_is_refused(convert, supervision, strategy, message):
    with pytest.raises(ValueError, match=message):
        convert(supervision, strategy)


def test_chunklets_are_numbered_from_zero():
    expected = [0, 0, -1, 1, 1, 1] + [-1] * 54
    ids = [5, 5, -1, 10**12, 10**12, 10**12] + [-1] * 54
    for given in (Chunklets(ids), Chunklets(ids).over(60)):
        assert to_chunklets(X, given).ids.tolist() == expected
    assert to_chunklets(X, Y).ids.tolist() == Y.tolist()


def test_similar_pairs_are_joined_to_chunklets():
    index = [[7, 3], [0, 1], [1, 2], [2, 9], [9, 3], [4, 5]]
    pairs = Pairs(index, [True, True, True, False, False, True], [1.0, 2.0, 1.0, 1.0, 1.0, 0.0])
    for given in (pairs, pairs.over(60)):
        ids = to_chunklets(X, given).ids
        assert ids[:10].tolist() == [0, 0, 0, 1, -1, -1, -1, 1, -1, -1]
        assert (ids[10:] == -1).all()
    only = Pairs([[0, 1]], [True])
    assert to_chunklets(X, only).ids[:3].tolist() == [0, 0, -1]


@pytest.mark.parametrize(
    ("supervision", "message"),
    [
        (Triplets([[0, 1, 2]]), "needs labels, Chunklets or Pairs"),
        (Pairs([[0, 1]], [False]), "All pairs are dissimilar"),
        (Pairs([[0, 60]], [True]), "row 60"),
        (Pairs([[0, 1]], [True], [0.0]), "no pairs of positive weight"),
        (Chunklets(np.arange(60)), "No chunklet has two rows"),
        (Chunklets(np.full(60, -1)), "No chunklet has two rows"),
        (Chunklets([0, 0]), "2 ids, but X has 60"),
        (np.zeros(60, int), "at least two classes"),
        (np.arange(60), "two members"),
    ],
)
def test_what_gives_no_chunklets(supervision, message):
    with pytest.raises(ValueError, match=message):
        to_chunklets(X, supervision)


def test_given_pairs():
    assert given_pairs(X, Y) is None
    assert given_pairs(X, SIMILAR).index.tolist() == [[0, 1], [0, 2]]
    assert given_pairs(X, SIMILAR.over(60)).index.tolist() == [[0, 1], [0, 2]]


def test_labels_that_are_enough():
    assert checked_labels([0, 0, 1]).tolist() == [0, 0, 1]
