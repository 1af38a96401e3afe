"""A certified threshold on any score: what it promises holds, and it tells what it assumes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from nearfar import threshold
from nearfar.verification import TargetNotCertifiedError


def judged(n_pairs, n_things, rng, share=0.4):
    """Pairs of things, some of which resemble many others."""
    hub = 0.12 * rng.normal(size=n_things)
    same = rng.uniform(size=n_pairs) < share
    a = rng.integers(n_things, size=n_pairs)
    b = (a + 1 + rng.integers(n_things - 1, size=n_pairs)) % n_things
    level = np.where(same, 0.85 + 0.5 * hub[a], 0.45 + hub[a] + hub[b])
    scores = level + 0.08 * rng.normal(size=n_pairs)
    return scores, same, {"left": a, "right": np.where(same, -a - 1, b)}


def test_ids_make_it_right_for_things_that_repeat():
    missed = {True: 0, False: 0}
    shown = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        scores, same, ids = judged(3000, 200, rng)
        new, new_same, _ = judged(50_000, 3000, rng)
        for known in (True, False):
            try:
                found = threshold(scores, same, target="fmr<=0.01", **(ids if known else {}))
            except TargetNotCertifiedError:
                continue
            shown += known
            missed[known] += found(new)[~new_same].mean() > 0.01
    assert shown >= 20
    assert missed[True] <= 2
    assert missed[False] >= 5


def test_what_is_stated():
    rng = np.random.default_rng(0)
    scores, same, ids = judged(3000, 3000, rng)
    found = threshold(scores, same, target="fmr<=0.02", **ids)
    rates = found.rates
    assert rates.fmr == found(scores)[~same].mean() < rates.bound <= 0.02
    assert rates.recall == pytest.approx(found(scores)[same].mean())
    assert found(found.value)
    document = found.to_dict()
    assert (document["threshold"], document["target"]) == (found.value, "fmr<=0.02")
    assert "count as one" in str(found)
    assert "no thing is in two" in threshold(scores, same, target="fmr<=0.02").assumes


def test_groups_are_what_is_independent():
    rng = np.random.default_rng(0)
    scores, same, _ = judged(400, 400, rng)
    copies = {"scores": np.tile(scores, 5), "same": np.tile(same, 5), "target": "fmr<=0.05"}
    alone = threshold(scores, same, target="fmr<=0.05")
    grouped = threshold(**copies, groups=np.tile(np.arange(400), 5))
    assert grouped.rates.effective_pairs == pytest.approx(alone.rates.effective_pairs, rel=0.05)
    assert threshold(**copies).rates.effective_pairs > 3 * grouped.rates.effective_pairs


def test_a_refusal_gives_a_range_that_holds():
    inside = refused = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        scores, same, ids = judged(400, 800, rng)
        with pytest.raises(TargetNotCertifiedError) as refusal:
            threshold(scores, same, target="fmr<=0.01", **ids)
        refused += 1
        low, high = map(int, re.findall(r"most likely (\d+) to (\d+)", str(refusal.value))[0])
        done = []
        # Dissimilar pairs are 60 %.
        for n in (int(low / 0.6), int(high / 0.6)):
            scores, same, ids = judged(n, 2 * n, rng)
            try:
                done.append(bool(threshold(scores, same, target="fmr<=0.01", **ids)))
            except TargetNotCertifiedError:
                done.append(False)
        inside += done[1]
    assert refused == 20
    assert inside >= 18


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"same": [True, True, True]}, "pairs that are different"),
        ({"scores": [0.1, 0.2, 0.9]}, "lower scores"),
        ({"left": [1, 2, 3]}, "ids of both things"),
        ({"target": "luck"}, "target must be"),
        ({"confidence": 0.2}, "confidence must be"),
        ({"scores": [np.nan, 0.5, 0.1]}, "NaN"),
        ({"left": [1, 2], "right": [3, 4]}, "inconsistent"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        threshold(**{"scores": [0.9, 0.8, 0.1], "same": [True, True, False]} | options)
