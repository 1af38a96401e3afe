"""Matches by scores that are known."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from nearfar.records.matcher import Matches, RecordMatcher


def stub(scores, threshold=0.0):
    """Return a matcher with the scores of a dense array."""
    return SimpleNamespace(
        threshold_=threshold, scores=lambda left, right, pairs: scores[tuple(np.transpose(pairs))]
    )


LEFT = {"name": ["ann lee", "ann lees", "bo ray"]}
RIGHT = {"name": ["ann lee", "ann leed", "cy fox"]}
SCORES = np.array([[3.0, 2.0, -5.0], [2.5, -1.0, -5.0], [-5.0, -5.0, -4.0]])


def test_one_match_for_each_record():
    found = RecordMatcher.match(stub(SCORES), LEFT, RIGHT)
    # The best pair alone would leave the second record without a match.
    assert found.pairs.tolist() == [[0, 1], [1, 0]]
    assert [rows.tolist() for rows in found.left_over] == [[2], [2]]
    assert str(found).startswith("2 matches; 1 record of the left table and 1 record")


def test_all_pairs_above_the_threshold():
    found = RecordMatcher.match(stub(SCORES, 2.0), LEFT, RIGHT, how="all")
    assert found.pairs.tolist() == [[0, 0], [0, 1], [1, 0]]


def test_a_pair_at_the_threshold_matches_one_to_one():
    found = RecordMatcher.match(stub(SCORES, 3.0), LEFT, RIGHT)
    assert found.pairs.tolist() == [[0, 0]]


def test_clusters_of_one_table():
    table = {"name": ["ann lee", "ann lees", "ann leed", "bo ray"]}
    scores = np.full((4, 4), -6.0)
    scores[0, 1], scores[1, 2] = 4.0, 3.0
    found = RecordMatcher.match(stub(scores), table)
    # A chain: 0 and 2 are so different that 2 stays alone.
    assert found.clusters.tolist() == [0, 0, 1, 2]
    assert found.pairs.tolist() == [[0, 1]]
    assert str(found) == "1 group of records that are the same; 2 records without another."


@pytest.mark.parametrize(("right", "how"), [(RIGHT, "clusters"), (None, "one-to-one")])
def test_ways_for_another_number_of_tables(right, how):
    with pytest.raises(ValueError, match="is not for"):
        RecordMatcher.match(stub(SCORES), LEFT, right, how=how)


def test_doubtful_pairs_are_those_between_the_probabilities():
    scores = np.array([5.0, 1.0, 0.5, -1.0, -5.0])
    same = np.array([True, True, False, False, False])
    pairs = np.column_stack([np.arange(5)] * 2)
    found = Matches(pairs, scores, same, (5, 5))
    assert found.doubtful.tolist() == [2, 1, 3]
