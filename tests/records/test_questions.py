"""Pairs to begin with and to ask about, and what their answers tell, by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from nearfar.records import candidate_pairs
from nearfar.records.tables import (
    choose_questions,
    estimated_f1,
    f1_in_words,
    pairs_by_rare_values,
)
from tests.records.people import persons

RNG = np.random.default_rng(0)
SCORES = np.concatenate([RNG.normal(-8, 2, 9000), RNG.normal(0, 2, 600), RNG.normal(6, 2, 400)])
TRUTH = RNG.random(10_000) < expit(SCORES)


def test_pairs_that_agree_on_rare_values():
    left, right = (table.drop("id") for table in persons(200))
    pairs, same = pairs_by_rare_values(left, right, candidate_pairs(left, right)[0])
    assert same.sum() >= 40
    np.testing.assert_array_equal(same, pairs[:, 0] == pairs[:, 1])
    assert np.isin(pairs[:, 0], pairs[same, 0]).all()


def test_too_few_pairs_to_begin_with():
    table = {"name": ["ann", "ann", "bo"], "city": ["bonn"] * 3}
    with pytest.raises(ValueError, match="give pairs for which it is known"):
        pairs_by_rare_values(table, table, np.array([[0, 1]]))


def drawn(seed, n=100, asked=None):
    asked = np.zeros(len(SCORES), dtype=bool) if asked is None else asked
    rng = np.random.default_rng(seed)
    return choose_questions(SCORES, expit(SCORES), SCORES >= 0, asked, n, rng)


def test_half_of_the_questions_are_nearest_to_the_threshold():
    asked = np.abs(SCORES) < 0.1
    found = drawn(0, 100, asked)
    assert len(np.unique(found.place)) == 100
    assert not asked[found.place].any()
    near = found.place[found.stratum < 0]
    nearest = np.flatnonzero(~asked)[np.argsort(np.abs(SCORES[~asked]), kind="stable")][:50]
    assert set(near) == set(nearest)
    # The others stand for all pairs that were left.
    assert found.weight.sum() == pytest.approx((~asked).sum() - 50)


def test_estimated_f1_is_unbiased_and_its_interval_holds():
    estimates, held = [], 0
    for seed in range(200):
        found = drawn(seed, 160)
        random = found.stratum >= 0
        place, guess = found.place, SCORES[found.place] >= 0
        f1, (low, high) = estimated_f1(
            found.stratum, found.weight, expit(SCORES[place]), guess, TRUTH[place]
        )
        left = np.ones(len(SCORES), dtype=bool)
        left[place[~random]] = False
        accepted = SCORES[left] >= 0
        true = 2 * (accepted & TRUTH[left]).sum() / (accepted.sum() + TRUTH[left].sum())
        estimates.append(f1 - true)
        held += low <= true <= high
    assert abs(np.mean(estimates)) < 3 * np.std(estimates) / np.sqrt(200) + 0.01
    assert held >= 0.82 * 200


def test_when_to_stop():
    assert "you may stop" in f1_in_words(0.9, (0.88, 0.92))
    assert "you may stop" not in f1_in_words(0.9, (0.8, 0.95))
