from __future__ import annotations

import numpy as np
import pytest

from nearfar import NearestTriplets, Pairs, RandomPairs, RandomTriplets, Triplets
from nearfar.constraints import Chunklets, to_pairs, to_triplets
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
