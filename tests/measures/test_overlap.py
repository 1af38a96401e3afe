from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from nearfar import Metric, Pairs, Triplets
from nearfar.evidence.gain import observe_judgements
from nearfar.evidence.intervals import OverlappingJudgements, mean_interval
from nearfar.measures.registry import PAIR_AUC, HeldOutJudgements

ONE, OTHER = Metric(np.eye(4)[:2]), Metric(np.eye(4)[2:])
"""Metrics that are equally good on what follows."""


def by_loops(index, difference, weight):
    """Sum of products of residuals over all judgements that share a row."""
    r = difference - difference.mean() * weight
    rows = [set(row) for row in index.tolist()]
    total = sum(r[s] * r[t] for s, a in enumerate(rows) for t, b in enumerate(rows) if a & b)
    n_rows = len(np.unique(index))
    return total / len(r) ** 2 * (n_rows / (n_rows - index.shape[1])) ** 2


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_two_judgements_that_share_a_row_count(rng, width, weighted):
    index = np.array([rng.choice(8, width, replace=False) for _ in range(40)])
    difference = rng.choice([-1.0, 0.0, 1.0], 40) + 2 * (index == 3).any(axis=1)
    weight = rng.uniform(0.5, 1.5, 40) if weighted else np.ones(40)
    shared = OverlappingJudgements(index, np.arange(40), weight)
    expected = by_loops(index, difference, weight)
    assert shared.variance(difference) == pytest.approx(expected)
    twice = OverlappingJudgements(index, np.arange(40), weight, degree=2.0)
    assert twice.variance(difference) == pytest.approx(4 * expected)


def test_groups_count_as_one_judgement_each():
    index = np.arange(40).reshape(20, 2)
    groups = np.repeat(np.arange(4), 5)
    shared = OverlappingJudgements(index, groups)
    difference = np.repeat([1.0, -1.0, 1.0, 0.0], 5)
    means = np.array([1.0, -1.0, 1.0, 0.0])
    assert shared.variance(difference) == pytest.approx(means.var(ddof=1) / 4)
    assert observe_judgements(difference, shared).n == 4
    alone = OverlappingJudgements(index, np.arange(20))
    assert alone.variance(difference) < shared.variance(difference) / 3


@pytest.mark.parametrize("n_groups", [2, 3, 7])
def test_the_variance_is_that_of_groups(rng, n_groups):
    groups = np.repeat(np.arange(n_groups), 5)
    shared = OverlappingJudgements(np.arange(10 * n_groups).reshape(-1, 2), groups)
    means = rng.normal(0.5, 1.0, n_groups)
    difference = means[groups]
    found = observe_judgements(difference, shared)
    assert found.gain == pytest.approx(means.mean())
    assert found.variance == pytest.approx(means.var(ddof=1) / n_groups + 1 / n_groups**2)


def test_the_interval_is_that_of_the_judgements_made(rng):
    shared = OverlappingJudgements(np.arange(60).reshape(-1, 2), np.arange(30) // 3)
    losses = np.where(np.arange(30) < 24, rng.random(30), np.nan)
    variance = shared.variance(losses)
    expected = mean_interval(float(losses[:24].mean()), variance, 8, grouped=True)
    assert shared.interval(losses) == pytest.approx(expected)


def test_one_group_tells_nothing():
    shared = OverlappingJudgements(np.arange(10).reshape(-1, 2), np.zeros(5, dtype=int))
    assert observe_judgements(np.ones(5), shared).variance >= 1.0


def test_judgements_that_were_not_made_do_not_count(rng):
    index = np.array([rng.choice(12, 3, replace=False) for _ in range(30)])
    difference = rng.normal(size=30)
    part = np.where(np.arange(30) < 20, difference, np.nan)
    whole = OverlappingJudgements(index[:20], index[:20, 0])
    every = OverlappingJudgements(index, index[:, 0])
    assert observe_judgements(part, every) == observe_judgements(difference[:20], whole)
    assert observe_judgements(np.full(30, np.nan), every).gain == 0.0


def draw_triplets(rng, n_rows, number):
    X = rng.normal(size=(n_rows, 4))
    index = np.array([rng.choice(n_rows, 3, replace=False) for _ in range(number)])
    noise = rng.normal(size=number)
    right = (((X[index[:, 0]] - X[index[:, 1]]) ** 2).sum(axis=1) + noise) < (
        (X[index[:, 0]] - X[index[:, 2]]) ** 2
    ).sum(axis=1)
    triplets = Triplets(np.where(right[:, None], index, index[:, [0, 2, 1]]))
    difference = ONE.prefers(X, triplets) - OTHER.prefers(X, triplets)
    return difference, OverlappingJudgements.of(triplets)


def draw_pairs(rng, n_rows, number):
    X = rng.normal(size=(n_rows, 4))
    index = np.array([rng.choice(n_rows, 2, replace=False) for _ in range(number)])
    distances = ((X[index[:, 0]] - X[index[:, 1]]) ** 2).sum(axis=1) + 2 * rng.normal(size=number)
    pairs = Pairs(index, distances < np.quantile(distances, 0.3))
    lost = [PAIR_AUC.losses(HeldOutJudgements(metric, X, pairs)) for metric in (ONE, OTHER)]
    return lost[1] - lost[0], OverlappingJudgements.of(pairs)


@pytest.mark.parametrize("draw", [draw_triplets, draw_pairs])
@pytest.mark.parametrize("n_rows", [60, 1000])
def test_the_variance_is_that_of_other_draws(draw, n_rows):
    found = [draw(np.random.default_rng(seed), n_rows, 250) for seed in range(150)]
    gains = np.array([difference.mean() for difference, _ in found])
    variances = np.array([shared.variance(difference) for difference, shared in found])
    # The relative error of the standard deviation of n normal numbers is 1 / sqrt(2 n).
    assert np.sqrt(variances.mean()) == pytest.approx(gains.std(), rel=3.5 / np.sqrt(2 * 150))
    alarms = sum(1.96 * variances**0.5 < np.abs(gains))
    assert binomtest(alarms, 150, 0.05, alternative="greater").pvalue > 1e-3
