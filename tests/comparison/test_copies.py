"""Copies of rows are never on both sides of a fold, and the table says so."""

from __future__ import annotations

import numpy as np

from nearfar import RandomTriplets, compare

RNG = np.random.default_rng(0)
PLACE = RNG.permutation(np.tile(np.arange(100), 3))
X = RNG.standard_normal((100, 6))[PLACE]
Y = RNG.integers(0, 2, 100)[PLACE]
SENTENCE = "rows are equal to earlier rows; equal rows stay on one side of every split"


def test_copies_are_groups():
    """Classes are drawn at random: copies are all that could be recognised."""
    first = np.unique(PLACE, return_index=True)[1][PLACE]
    found, given = compare(X, Y, ["RCA"]), compare(X, Y, ["RCA"], groups=first)
    by_row = compare(X, Y, ["RCA"], groups=np.arange(300))
    for name in ("Euclidean (standardised)", "RCA"):
        np.testing.assert_array_equal(found[name].errors, given[name].errors)
        low, high = found.classification.interval(found[name])
        assert low < 1 / 2 < high
        assert by_row.classification.interval(by_row[name])[1] < 1 / 2
    assert found.n_groups == 100
    assert f"200 of 300 {SENTENCE}, unless groups are given." in str(found)
    assert SENTENCE not in str(given)
    assert SENTENCE not in str(by_row)


def test_near_copies_too():
    near = X + 1e-6 * RNG.standard_normal(X.shape)
    found = compare(near, Y, [])
    assert "200 of 300 rows are equal to earlier rows, or nearly;" in str(found)
    low, high = found.classification.interval(found["L1"])
    assert low < 1 / 2 < high


def test_judgements_of_copies_are_split_by_the_first_of_them():
    triplets = RandomTriplets(2000)(X, Y, np.random.RandomState(0))
    found = compare(X, triplets, [])
    assert f"200 of 300 {SENTENCE}, unless groups are given." in str(found)
    assert found.n_groups is None


def test_folds_of_the_user_are_used():
    folds = [(np.arange(150), np.arange(150, 300))]
    found = compare(X, Y, [], cv=folds)
    assert found.n_groups is None
    assert SENTENCE not in str(found)


def test_more_folds_than_different_rows():
    found = compare(np.tile(X[:12], (3, 1)), np.tile(np.arange(12) % 2, 3), [], cv=15)
    assert found.n_folds <= 12
    assert "folds instead of 15" in found.note


def test_without_copies_nothing_changes():
    rows = X[np.unique(PLACE, return_index=True)[1]]
    found = compare(rows, np.arange(100) % 2, [])
    assert found.n_groups is None
    assert not found.note
