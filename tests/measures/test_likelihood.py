"""Likelihood ratios and their cost, against loops and known distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from nearfar import Metric, Pairs
from nearfar.measures import LikelihoodRatios, cllr, min_cllr

RNG = np.random.default_rng(0)
N = 4000
SIMILAR = np.arange(N) < N // 2
DISTANCES = np.where(SIMILAR, RNG.normal(5, 1, N), RNG.normal(7, 1, N))
PAIRS = Pairs(np.arange(2 * N).reshape(-1, 2), SIMILAR)


def loop(ratios, pairs, weight):
    bits = {True: 0.0, False: 0.0}
    total = {True: 0.0, False: 0.0}
    for ratio, similar, w in zip(ratios, pairs.similar, weight, strict=True):
        bits[bool(similar)] += w * math.log2(1 + (1 / ratio if similar else ratio))
        total[bool(similar)] += w
    return (bits[True] / total[True] + bits[False] / total[False]) / 2


@pytest.mark.parametrize("weighted", [False, True])
def test_the_cost(weighted):
    ratios = np.exp(RNG.normal(size=50))
    weight = RNG.uniform(1, 3, 50) if weighted else np.ones(50)
    pairs = Pairs(PAIRS.index[:50], RNG.random(50) < 0.3, weight if weighted else None)
    assert cllr(np.log(ratios), pairs) == pytest.approx(loop(ratios, pairs, weight))


def test_ratios_of_normal_distances():
    found = LikelihoodRatios.fit(DISTANCES, PAIRS)
    at = np.array([5.0, 5.5, 6.0, 6.5, 7.0])
    expected = norm.logpdf(at, 5) - norm.logpdf(at, 7)
    assert found(at) == pytest.approx(expected, abs=0.5)
    assert (np.diff(found(np.sort(DISTANCES))) <= 0).all()


def test_ratios_are_finite_and_bounded_by_what_is_added():
    pairs = Pairs(PAIRS.index[:200], np.arange(200) < 100)
    apart = np.where(pairs.similar, 1.0, 2.0)
    one, ten = (LikelihoodRatios.fit(apart, pairs, (n, n))([0.0, 3.0]) for n in (1.0, 10.0))
    assert one == pytest.approx([math.log(101), -math.log(101)])
    assert ten == pytest.approx([math.log(11), -math.log(11)])


def test_nothing_is_below_the_smallest_cost():
    X = np.concatenate([np.zeros((N, 1)), DISTANCES[:, None]])
    pairs = Pairs(np.column_stack([np.arange(N), N + np.arange(N)]), SIMILAR)
    smallest = min_cllr(Metric.identity(1), X, pairs)
    exact = cllr(norm.logpdf(DISTANCES, 5) - norm.logpdf(DISTANCES, 7), PAIRS)
    assert 0 < smallest < exact < smallest + 0.02
    assert cllr(np.zeros(N), PAIRS) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (Pairs([[0, 1], [1, 2]], [True, True]), "similar and dissimilar pairs; got 2 and 0"),
        (Pairs([[0, 1], [1, 2]], [True, False], [0.0, 1.0]), "positive weight"),
    ],
)
def test_both_kinds_are_needed(pairs, message):
    with pytest.raises(ValueError, match=message):
        cllr([0.0, 0.0], pairs)
