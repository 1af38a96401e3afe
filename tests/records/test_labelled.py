"""Parts of labelled pairs, and certificates of all pairs of calibrating records."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from nearfar.records import model as labelled_pairs
from nearfar.records.model import LabelledPairs
from nearfar.records.records import Records
from nearfar.verification import TargetNotCertifiedError, choose_threshold, parse_target

TARGET = parse_target("fmr<=0.05")


def numbered(n: int) -> Records:
    return Records({"number": np.array([str(row) for row in range(n)], dtype=object)})


def labelled(n: int, one_table: bool = False, found: np.ndarray | None = None) -> LabelledPairs:
    left = numbered(2 * n if one_table else n)
    index = np.column_stack([np.arange(n), np.arange(n) + (n if one_table else 0)])
    right = left if one_table else numbered(n)
    candidates = None if found is None else lambda left, right: found
    return LabelledPairs.of(left, right, index, np.ones(n, dtype=bool), True, candidates)


@pytest.mark.parametrize("one_table", [False, True])
def test_parts_share_no_record_and_keep_their_pairs(one_table):
    whole = labelled(30, one_table)
    parts = whole.split(0.4, np.random.RandomState(0))
    matches = []
    for part in parts:
        assert (part.right is part.left) == one_table
        (i, j), (left, right) = (
            part.index.T,
            (part.left.fields["number"], part.right.fields["number"]),
        )
        matches += list(zip(left[i], right[j], strict=True))
        assert (part.pair_entities[:, 0] == part.pair_entities[:, 1]).all()
    assert len(parts[1].index) == 12
    shift = 30 if one_table else 0
    assert sorted(matches) == sorted((str(row), str(row + shift)) for row in range(30))
    numbers = [set(part.left.fields["number"]) for part in parts]
    assert not numbers[0] & numbers[1]


@pytest.mark.parametrize("one_table", [False, True])
def test_pairs_that_are_no_candidates_are_rejected_at_every_threshold(one_table):
    n = 6
    shift = n if one_table else 0
    some = np.array([(0, shift), (1, 1 + shift), (0, 1 + shift), (2 + shift, 1)])
    if not one_table:
        some = some[:3]
    evidence = labelled(n, one_table, some).evidence(lambda index: np.zeros(len(index)))
    n_pairs = n * (2 * n - 1) if one_table else n * n
    assert evidence.n_pairs == n_pairs
    rates = evidence.rates(0.0)[0]
    assert rates.recall == pytest.approx(2 / n)
    assert rates.fmr == pytest.approx((len(some) - 2) / (n_pairs - n))


def test_pairs_of_one_entity_that_are_not_given_are_not_counted():
    index, same = np.array([(0, 0), (1, 0), (1, 1)]), np.ones(3, dtype=bool)
    whole = LabelledPairs.of(numbered(3), numbered(3), index, same, True)
    # (0, 1) follows from the others, but nobody said so; of (2, 2), no record is named.
    assert whole.evidence(lambda index: np.zeros(len(index))).n_pairs == 7


def few_named(one_table: bool = False) -> LabelledPairs:
    """Forty records on each side; ten matches are given, and neighbours are candidates."""
    rows = np.arange(40)
    found = np.concatenate([np.column_stack([rows, (rows + step) % 40]) for step in range(3)])
    index, shift = np.column_stack([rows[:10]] * 2), 40 if one_table else 0
    left = numbered(80 if one_table else 40)
    right = left if one_table else numbered(40)
    ends = np.array([0, shift])
    return LabelledPairs.of(
        left, right, index + ends, np.ones(10, dtype=bool), True, lambda left, right: found + ends
    )


@pytest.mark.parametrize("one_table", [False, True])
def test_pairs_of_a_record_that_is_not_named_are_known_only_with_one_that_is(one_table):
    whole = few_named(one_table)
    n = 80 if one_table else 40
    n_pairs, n_new = (n * (n - 1) // 2, 60 * 59 // 2) if one_table else (40 * 40, 30 * 30)
    evidence = whole.evidence(lambda index: np.zeros(len(index)))
    assert evidence.n_pairs == n_pairs - n_new
    assert evidence.n_classes == 10
    unlabelled = whole.unlabelled(lambda index: np.zeros(len(index)))
    assert unlabelled.n_pairs == n_new
    # Rows 10 to 39 and two neighbours of each; 38 and 39 have three that are named.
    assert unlabelled.found(0.0) == 30 * 3 - 3


def test_a_part_stands_for_the_share_of_matches_among_all_candidates():
    whole = few_named()
    n_different = len(whole.different_candidates()) / 10
    counts = []
    for seed in range(200):
        learning, _ = whole.split(0.5, np.random.RandomState(seed))
        more = learning.with_candidates(np.random.RandomState(seed))
        counts.append(((~more.same).sum() + more.left_out) / more.same.sum())
    assert np.mean(counts) == pytest.approx(n_different, rel=0.1)


def test_of_many_records_that_are_not_named_some_calibrate(monkeypatch):
    monkeypatch.setattr(labelled_pairs, "_MOST_CALIBRATED", 300)
    calibrating = few_named().split(0.5, np.random.RandomState(0))[1]
    assert calibrating.same.sum() == 5
    assert 200 < len(calibrating.left) * len(calibrating.right) <= 340


def test_candidates_are_learned_from_as_different_unless_they_are_matches():
    found = np.array([(0, 0), (0, 1), (1, 1), (2, 3)])
    more = labelled(4, found=found).with_candidates(np.random.RandomState(0))
    assert {tuple(pair) for pair in more.index[~more.same]} == {(0, 1), (2, 3)}
    assert len(more.index) == 6


@pytest.mark.slow
def test_certified_rates_hold_in_the_stated_share_of_draws():
    rng = np.random.default_rng(0)

    def scored(n: int) -> LabelledPairs:
        """Entities on a line; a record is where its entity is, and some noise."""
        place = rng.normal(size=n)
        one, two = (place + 0.02 * rng.normal(size=n) for _ in range(2))
        whole = labelled(n)
        return whole.evidence(lambda index: -np.abs(one[index[:, 0]] - two[index[:, 1]]))

    truth, missed, n_draws = scored(1500), 0, 100
    for _ in range(n_draws):
        point = choose_threshold(scored(80), TARGET)
        assert point.recall > 0.3
        missed += bool(truth.rates(point.threshold)[0].fmr > TARGET.value)
    # At most 5 % miss the target; more than this many would be a chance of 1 in 1,000.
    assert missed <= binom.ppf(0.999, n_draws, 0.05)


def test_a_refusal_says_how_many_entities_are_needed():
    with pytest.raises(TargetNotCertifiedError) as caught:
        choose_threshold(
            labelled(20).evidence(lambda index: (index[:, 0] == index[:, 1]) * 1.0),
            parse_target("fmr<=1e-4"),
        )
    assert caught.value.classes_needed > 20
