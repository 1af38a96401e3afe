"""Certified thresholds: the stated confidence holds, and less is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, norm
from scipy.stats import t as student

from nearfar import Metric
from nearfar.evidence.certify import Rates, clopper_pearson
from nearfar.verification import (
    Bound,
    PairEvidence,
    TargetNotCertifiedError,
    UnlabelledPairs,
    choose_threshold,
    parse_target,
)
from verification.populations import all_pairs, evidence_of, population

EVIDENCE = evidence_of(*population(80, 4, np.random.default_rng(0)))


@pytest.mark.parametrize(("count", "n"), [(0, 20), (3, 50), (20, 20)])
def test_bounds_of_independent_cases(count, n):
    low, high = clopper_pearson(count / n, n, 0.95)
    expected = binomtest(count, n).proportion_ci(0.9, method="exact")
    assert (float(low), float(high)) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(
    "target", [Bound("fmr", 0.02), Bound("precision", 0.9), Bound("recall", 0.8)], ids=str
)
def test_what_is_shown(target):
    found = choose_threshold(EVIDENCE, target, prevalence=0.5)
    rates = EVIDENCE.rates(found.threshold)[0]
    figures = {"fmr": rates.fmr, "recall": rates.recall, "precision": rates.precision(0.5)}
    assert found.estimate == pytest.approx(figures[target.measure])
    if target.measure == "fmr":
        assert found.estimate < found.bound <= target.value
    else:
        assert found.estimate > found.bound >= target.value


@pytest.mark.parametrize(
    "target", [Bound("fmr", 0.02), Bound("precision", 0.9), Bound("recall", 0.8)], ids=str
)
def test_more_confidence_costs_more(target):
    loose, strict = (
        choose_threshold(EVIDENCE, target, prevalence=0.5, confidence=c) for c in (0.8, 0.99)
    )
    if target.measure == "recall":
        assert loose.threshold < strict.threshold
    else:
        assert loose.threshold > strict.threshold


@pytest.mark.slow
@pytest.mark.parametrize(
    "target",
    [
        Bound("fmr", 0.02),
        pytest.param(Bound("precision", 0.95), marks=pytest.mark.slow),
        pytest.param(Bound("recall", 0.8), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_stated_confidence_holds_for_new_classes(target):
    """Of 60 thresholds with 90 % confidence, no more than chance allows miss; naive ones do."""
    rng = np.random.default_rng(1)
    truth = evidence_of(*population(500, 3, rng))
    missed = naive = shown = 0
    for _ in range(60):
        evidence = evidence_of(*population(40, 4, rng))
        curve = evidence.curve(evidence.thresholds)
        error = {
            "fmr": curve.fmr,
            "recall": 1 - curve.recall,
            "precision": 1 - curve.precision(0.5),
        }[target.measure]
        met = np.flatnonzero(error <= target.error)
        plain = evidence.thresholds[met[0 if target.measure == "recall" else -1]]
        naive += misses(truth, target, float(plain))
        try:
            found = choose_threshold(evidence, target, prevalence=0.5, confidence=0.9)
        except TargetNotCertifiedError:
            continue
        shown += 1
        missed += misses(truth, target, found.threshold)
    assert shown > 30
    assert binomtest(missed, shown, 0.1, alternative="greater").pvalue > 0.01
    assert naive > 18


def misses(truth, target, threshold):
    rates = truth.rates(threshold)[0]
    if target.measure == "fmr":
        return bool(rates.fmr > target.value)
    figure = rates.recall if target.measure == "recall" else rates.precision(0.5)
    return bool(figure < target.value)


def test_copies_of_rows_show_nothing_more():
    X, y = population(30, 3, np.random.default_rng(0))
    one, two = evidence_of(X, y), evidence_of(np.repeat(X, 3, axis=0), np.repeat(y, 3))
    target = Bound("fmr", 0.05)
    first, second = (choose_threshold(evidence, target) for evidence in (one, two))
    assert second.effective_pairs < 1.05 * first.effective_pairs
    assert second.threshold == pytest.approx(first.threshold, rel=0.05)


def test_a_refusal_says_how_many_are_needed():
    rng = np.random.default_rng(0)
    target = Bound("fmr", 0.003)
    with pytest.raises(TargetNotCertifiedError) as refusal:
        choose_threshold(evidence_of(*population(12, 4, rng)), target)
    error = refusal.value
    needed = (
        f"about {error.classes_needed} classes to calibrate on ({error.pairs_needed} dissimilar"
    )
    assert needed in str(error)
    assert str(error).startswith(
        "fmr<=0.003 cannot be certified at 95 % confidence with 12 classes"
    )
    assert 12 < error.classes_needed < 2000
    assert str(error).endswith(f" With these pairs, {error.strongest} can be certified.")
    choose_threshold(evidence_of(*population(3 * error.classes_needed, 4, rng)), target)


@pytest.mark.parametrize("measure", ["fmr", "recall", "precision"])
def test_a_refusal_names_the_strongest_target_that_can_be_certified(measure):
    evidence = evidence_of(*population(40, 4, np.random.default_rng(0)))
    strict = Bound(measure, 0.0001 if measure == "fmr" else 0.9999)
    with pytest.raises(TargetNotCertifiedError) as refusal:
        choose_threshold(evidence, strict, prevalence=0.5)
    strongest = parse_target(refusal.value.strongest)
    choose_threshold(evidence, strongest, prevalence=0.5)
    stronger = [bound for bound in strict.weaker if bound.error < strongest.error]
    assert stronger
    with pytest.raises(TargetNotCertifiedError):
        choose_threshold(evidence, stronger[-1], prevalence=0.5)


def test_the_rule_of_three():
    """Pairs that share no class count half; without an error, the bound is 3 / that."""
    n = 600
    index = np.arange(4 * n).reshape(-1, 2)
    similar = np.arange(2 * n) < n
    distances = np.where(similar, np.linspace(0, 1, 2 * n), np.linspace(2, 3, 2 * n))
    evidence = PairEvidence(distances, similar, np.where(similar[:, None], index // 2 * 2, index))
    found = choose_threshold(evidence, Bound("fmr", 0.0105))
    assert found.fmr == 0
    assert found.bound == pytest.approx(1 - 0.05 ** (2 / n), rel=0.01)
    with pytest.raises(TargetNotCertifiedError):
        choose_threshold(evidence, Bound("fmr", 0.0095))


def test_without_an_error_pairs_of_different_classes_are_independent():
    y = np.repeat(np.arange(60), 2)
    pairs = all_pairs(y)
    evidence = PairEvidence(np.where(pairs.similar, 1.0, 5.0), pairs.similar, y[pairs.index])
    found = choose_threshold(evidence, Bound("recall", 0.9))
    effective = 60 * (norm.ppf(0.95) / student.ppf(0.95, 59)) ** 2
    assert (found.threshold, found.recall) == (1.0, 1.0)
    assert found.effective_pairs == pytest.approx(effective)
    assert found.bound == pytest.approx(0.05 ** (1 / effective))


def test_a_precision_that_no_threshold_has():
    index = np.arange(40).reshape(-1, 2)
    similar = np.arange(20) >= 10
    evidence = PairEvidence(
        np.arange(20.0), similar, np.where(similar[:, None], index // 2 * 2, index)
    )
    with pytest.raises(TargetNotCertifiedError, match=r"largest precision .* is 0.5") as refusal:
        choose_threshold(evidence, Bound("precision", 0.9))
    assert refusal.value.classes_needed is None


def test_two_classes_show_nothing():
    with pytest.raises(TargetNotCertifiedError, match="at least 3 are needed"):
        choose_threshold(
            evidence_of(*population(2, 9, np.random.default_rng(0))), Bound("fmr", 0.1)
        )


def test_classes_without_similar_pairs_do_not_count_for_recall():
    X, y = population(20, 4, np.random.default_rng(0))
    alone = np.concatenate([y, 20 + np.arange(60)])
    X = np.concatenate([X, population(60, 1, np.random.default_rng(1))[0]])
    few, many = evidence_of(X[:80], y), evidence_of(X, alone)
    target = Bound("recall", 0.7)
    one, other = (choose_threshold(evidence, target) for evidence in (few, many))
    assert other.n_classes == one.n_classes + 60
    assert other.effective_pairs == pytest.approx(one.effective_pairs, rel=0.1)


def test_precision_depends_on_the_prevalence():
    target = Bound("precision", 0.9)
    rare, common = (choose_threshold(EVIDENCE, target, prevalence=p) for p in (0.2, 0.8))
    assert rare.threshold < common.threshold
    natural = choose_threshold(EVIDENCE, Bound("fmr", 0.02))
    assert natural.prevalence == EVIDENCE.prevalence


def test_a_precision_of_unlabelled_pairs_needs_no_prevalence():
    """Half as many of the pairs are similar as among those that calibrate."""
    rng = np.random.default_rng(0)

    def classes(n_classes, n_rows):
        y = np.repeat(np.arange(n_classes), n_rows)
        return rng.normal(size=(n_classes, 8))[y] + 0.15 * rng.normal(size=(len(y), 8)), y

    evidence = evidence_of(*classes(400, 3))
    X, y = classes(600, 2)
    pairs = all_pairs(y)
    distances = Metric.identity(8).pair_distances(X, pairs)
    used = UnlabelledPairs(np.sort(distances), len(distances))
    known, assumed = (
        choose_threshold(evidence, Bound("precision", 0.5), unlabelled=each)
        for each in (used, None)
    )
    truth = [pairs.similar[distances <= each.threshold].mean() for each in (known, assumed)]
    assert truth[1] < 0.5 <= truth[0]
    assert 0.5 <= known.bound < known.precision == known.estimate
    assert known.precision == pytest.approx(used.precision(known.threshold, known.fmr))
    assert known.prevalence == pytest.approx(pairs.similar.mean(), rel=0.2)
    few = UnlabelledPairs(used.distances[:20], 400)
    with pytest.raises(TargetNotCertifiedError, match="too few of the 400 pairs without labels"):
        choose_threshold(evidence, Bound("precision", 0.95), unlabelled=few)


def test_the_share_of_similar_pairs_follows_from_those_found():
    used = UnlabelledPairs(np.arange(30.0), 1000)
    rates = Rates(np.array(0.01), np.array(0.5))
    assert used.found([9.0, 9.5]).tolist() == [10, 10]
    # Of 20, ten are false; the others are half of the similar ones.
    assert used.precision(19.0, 0.01) == pytest.approx(0.5)
    assert used.prevalence(19.0, rates) == pytest.approx(0.02)
