"""Rates by class, against loops over the pairs."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar import Pairs
from nearfar.evidence.certify import jackknife_variance
from nearfar.evidence.splits import joined_classes
from nearfar.verification import PairEvidence
from verification.populations import evidence_of, population


@pytest.mark.parametrize("weighted", [False, True])
def test_rates_with_and_without_each_class(weighted):
    rng = np.random.default_rng(0)
    X, y = population(6, 4, rng)
    i, j = np.triu_indices(len(y), 1)
    similar, distances = y[i] == y[j], np.linalg.norm(X[i] - X[j], axis=1)
    weight = rng.uniform(0.5, 2.0, len(i)) if weighted else np.ones(len(i))
    pairs = Pairs(np.column_stack([i, j]), similar, weight if weighted else None)
    evidence = PairEvidence(distances, similar, y[pairs.index], pairs.weight)
    threshold = np.median(distances)

    def share(kind):
        return weight[kind & (distances <= threshold)].sum() / weight[kind].sum()

    rates, without = evidence.rates(threshold)
    assert (float(rates.fmr), float(rates.recall)) == pytest.approx(
        (share(~similar), share(similar))
    )
    for c in range(6):
        kept = (y[i] != c) & (y[j] != c)
        assert without.fmr[c] == pytest.approx(share(~similar & kept))
        assert without.recall[c] == pytest.approx(share(similar & kept))
    curve = evidence.curve(np.array([threshold]))
    np.testing.assert_allclose([curve.fmr[0], curve.recall[0]], rates)
    assert evidence.prevalence == pytest.approx(weight[similar].sum() / weight.sum())


def test_no_pair_is_nearer_than_the_nearest():
    evidence = evidence_of(*population(6, 4, np.random.default_rng(0)))
    ends = [evidence.thresholds[0] / 2, evidence.thresholds[-1]]
    curve = evidence.curve(np.array(ends))
    np.testing.assert_allclose(curve.fmr, [0.0, 1.0])
    np.testing.assert_allclose(curve.recall, [0.0, 1.0])


def test_pairs_of_one_class_and_classes_with_pairs():
    X, y = population(6, 4, np.random.default_rng(0))
    evidence = evidence_of(X, y)
    assert evidence.one_class == (6.0, 16.0)
    assert (evidence.n_classes, evidence.n_counted) == (6, 6)
    with_a_single_row = evidence_of(X[:-3], y[:-3])
    assert (with_a_single_row.n_classes, with_a_single_row.n_counted) == (6, 5)


def test_precision_at_a_prevalence():
    evidence = evidence_of(*population(10, 3, np.random.default_rng(0)))
    rates = evidence.rates(float(np.median(evidence.thresholds)))[0]
    true, false = 0.1 * rates.recall, 0.9 * rates.fmr
    assert rates.precision(0.1) == pytest.approx(true / (true + false))
    assert np.isnan(evidence.rates(-1.0)[0].precision(0.1))


def test_the_variance_counts_classes():
    """With copies of every row the pairs are more, and the variance is the same."""
    X, y = population(12, 3, np.random.default_rng(0))
    one = evidence_of(X, y)
    two = evidence_of(np.repeat(X, 3, axis=0), np.repeat(y, 3))
    threshold = float(np.quantile(one.dissimilar.distances, 0.2))
    variances = [jackknife_variance(e.rates(threshold)[1].fmr) for e in (one, two)]
    assert two.n_pairs > 8 * one.n_pairs
    assert variances[0] == pytest.approx(variances[1])


def test_rows_joined_by_similar_pairs_are_a_class():
    pairs = Pairs([[5, 9], [9, 2], [2, 7], [7, 8]], [True, True, False, True])
    classes = joined_classes(pairs.index, pairs.similar)
    assert classes[0].tolist() == classes[1].tolist()
    assert classes[2, 0] == classes[0, 0] != classes[2, 1] == classes[3, 0] == classes[3, 1]
