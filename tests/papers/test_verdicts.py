"""Verdicts: intervals, words, baselines and orders, on runs made up for the purpose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2, norm, ttest_ind_from_stats, ttest_rel
from scipy.stats import t as student

from papers import verdicts
from papers.cells import published
from papers.verdicts import Outcome, compared, interval, orders, printed_runs

CELLS = {cell.id: cell for cell in published()}
WINE = CELLS["boostmetric/T1/Wine/BoostMetric"]


def outcome(cell, values, variant="paper", reading="B1", n=(125, 53)):
    lines = tuple(
        {"run": run, "split": str(run), "value": float(value), "n": list(n)}
        for run, value in enumerate(values)
    )
    return Outcome(cell, reading, variant, lines, stale=False)


def test_the_interval_is_welchs():
    values = np.array([1.0, 3, 4, 5, 2, 0, 3, 5, 4, 1])
    found = interval(outcome(WINE, values))
    test = ttest_ind_from_stats(
        2.64, 1.59, 10, values.mean(), values.std(ddof=1), 10, equal_var=False
    )
    low, high = sorted((found[1], found[2]))
    assert found[0] == pytest.approx(2.64 - 2.8)
    width = (2.64 - 2.8) / test.statistic  # the standard error
    assert (high - low) / 2 == pytest.approx(width * _quantile(values), rel=1e-6)


def _quantile(values):
    a, b = values.var(ddof=1) / 10, 1.59**2 / 10
    return student.ppf(0.975, (a + b) ** 2 / (a**2 / 9 + b**2 / 9))


@pytest.mark.parametrize(
    ("values", "word"),
    [
        (np.full(200, 2.7), "reproduced"),
        (np.full(10, 0.2), "better"),
        (np.full(10, 9.0), "worse"),
        (np.tile([2.6, 5.0], 5), "consistent"),  # the paper's ten runs leave it open
        (np.tile([0.0, 5.5], 5), "undecided"),  # ours do
    ],
)
def test_words_of_lower_is_better(values, word):
    assert compared(outcome(WINE, values)) == word


@pytest.mark.parametrize(
    ("value", "sd", "points"),
    [(20.0, 1.2, 1.2), (20.0, 0.1, 0.5), (20.0, 5.0, 2.0), (8.0, None, 0.8), (90.0, None, 2.0)],
)
def test_the_bound_is_a_printed_spread_or_a_tenth_of_the_error(value, sd, points):
    cell = replace(WINE, value=value, sd=sd)
    assert verdicts.bound(cell) == pytest.approx(points)
    assert verdicts.bound(replace(cell, value=100 - value, better="higher")) == pytest.approx(
        points
    )


def test_equivalence_is_two_one_sided_tests():
    """Reproduced exactly if both tests at 5 % reject a difference of the bound."""
    rng = np.random.default_rng(0)
    cell = replace(WINE, value=20.0, sd=1.0)
    words = set()
    for shift in np.linspace(-1.5, 1.5, 13):
        values = 20.0 + shift + rng.normal(0, 0.6, 60)
        mine = values.mean(), values.std(ddof=1), 60
        above = ttest_ind_from_stats(*mine, 19.0, 1.0, 10, equal_var=False, alternative="greater")
        below = ttest_ind_from_stats(*mine, 21.0, 1.0, 10, equal_var=False, alternative="less")
        equivalent = max(above.pvalue, below.pvalue) <= 0.05
        word = compared(outcome(cell, values))
        assert (word == "reproduced") == equivalent
        words.add(word)
    assert words >= {"reproduced", "better", "worse"}


def test_a_small_significant_difference_within_the_bound_is_reproduced():
    cell = replace(WINE, value=20.0, sd=0.1)
    assert compared(outcome(cell, np.full(10, 20.3))) == "reproduced"
    assert compared(outcome(cell, np.full(10, 20.7))) == "worse"


def test_higher_is_better_for_accuracies():
    cell = replace(WINE, value=90.0, sd=0.1, better="higher")
    assert compared(outcome(cell, np.full(10, 92.0))) == "better"
    assert compared(outcome(cell, np.full(10, 88.0))) == "worse"


def test_a_single_run_has_the_spread_of_its_errors():
    single = outcome(WINE, [10.0], n=(100, 400))
    assert single.sd == pytest.approx(100 * np.sqrt(0.1 * 0.9 / 400))


def test_printed_runs():
    assert printed_runs(WINE) == 10
    assert printed_runs(CELLS["boostmetric/T1/USPS-1/RCA"]) == 1
    assert printed_runs(CELLS["maxmargin/T1/Wine/own"]) is None


def row(euclid, rca, own):
    cells = (
        ("Euclid", "reference", euclid),
        ("RCA", "reference", rca),
        ("BoostMetric", "paper", own),
    )
    found = {}
    for method, variant, values in cells:
        cell = CELLS[f"boostmetric/T1/Wine/{method}"]
        found[cell.id, "B1", variant] = outcome(cell, values, variant)
    return {key: verdicts._judged(each, found) for key, each in found.items()}


AGREES = np.tile([25.0, 27.5], 5)


@pytest.mark.parametrize(
    ("euclid", "rca", "word", "why"),
    [
        (AGREES, np.tile([1.5, 3.0], 5), "worse", ""),
        (AGREES, np.full(10, 9.0), "protocol unknown", "RCA is 9.00, printed 2.26"),
        (AGREES, np.full(10, 0.2), "protocol unknown", "RCA is 0.20, printed 2.26"),
        (np.full(10, 5.0), np.full(10, 2.26), "protocol unknown", "Euclid is 5.00, printed 26.23"),
        (AGREES, [], "protocol unknown", "RCA is not run"),
        (AGREES, np.tile([-9.0, 14.0], 5), "protocol unknown", "RCA has too few runs"),
        (np.tile([10.0, 42.0], 5), AGREES, "protocol unknown", "Euclid has too few runs"),
    ],
)
def test_baselines_come_first_and_both_sides_count(euclid, rca, word, why):
    own = row(euclid, rca, np.full(10, 9.0))["boostmetric/T1/Wine/BoostMetric", "B1", "paper"]
    assert (own.word, own.why) == (word, why)


def test_euclidean_distance_and_one_other_baseline_are_enough():
    found = row(AGREES, np.full(10, 9.0), np.full(10, 9.0))
    cell = CELLS["boostmetric/T1/Wine/LMNN"]
    found[cell.id, "B1", "reference"] = outcome(cell, np.tile([5.0, 6.0], 5), "reference")
    judged = {key: verdicts._judged(each, found) for key, each in found.items()}
    assert judged["boostmetric/T1/Wine/BoostMetric", "B1", "paper"].word == "worse"
    lmnn = judged[cell.id, "B1", "reference"]
    assert (lmnn.word, lmnn.why) == ("protocol unknown", "RCA is 9.00, printed 2.26")


def test_baselines_have_a_wider_interval():
    """A difference between the two quantiles counts against a method, not against a baseline."""
    values = np.tile([30.4, 31.6], 5)
    euclid = outcome(CELLS["boostmetric/T1/Wine/Euclid"], values)
    assert compared(euclid) == "worse"
    assert verdicts._disagrees(euclid) == ""


def test_more_runs_of_ours_decide():
    few, many = np.tile([1.0, 5.0], 2), np.tile([1.0, 5.0], 50)
    assert compared(outcome(WINE, few)) == "undecided"
    assert compared(outcome(WINE, many)) == "reproduced"


def test_folds_count_as_runs_where_no_spread_is_printed():
    assert printed_runs(CELLS["drmetric/T2/Wine/DRMetric"]) == 5
    assert printed_runs(CELLS["msnca/T1/iris/msNCA"]) == 10
    assert printed_runs(CELLS["metricboost/T1/wine/bin A"]) == 40
    assert printed_runs(CELLS["metricboost/T2/wine/bin A"]) == 40


def test_a_row_without_printed_baseline_has_an_unknown_protocol():
    cell = CELLS["boostmetric/T2/Bal/v=1e-7"]
    one = outcome(cell, [9.0, 8.0])
    judged = verdicts._judged(one, {(cell.id, "B1", "paper"): one})
    assert (judged.word, judged.why) == ("protocol unknown", "no baseline is printed")


def test_the_joint_test_is_chi_square_and_normal():
    """A direction that no single cell shows is seen in all of them together."""
    found = {}
    scores = []
    for number, name in enumerate(("Wine", "Bal", "Iris", "Vehicle", "BCancer")):
        cell = CELLS[f"boostmetric/T1/{name}/BoostMetric"]
        values = cell.value + 0.6 * cell.sd + cell.sd * np.tile([-0.1, 0.1], 5)
        each = replace(outcome(cell, values), word="worse")
        found[cell.id, "B1", "paper"] = each
        difference, error, degrees = verdicts.welch(each)
        tail = student.cdf(difference / error, degrees)
        scores.append(norm.ppf(tail))
        assert verdicts.standardised(each) == pytest.approx(scores[number])
    (joint,) = verdicts.joint_tests(found)
    assert joint.rows == 5
    assert joint.chi_square == pytest.approx(np.sum(np.square(scores)))
    assert joint.p_value == pytest.approx(chi2.sf(joint.chi_square, 5))
    assert joint.mean == pytest.approx(np.mean(scores))
    assert joint.p_direction == pytest.approx(2 * norm.sf(abs(np.mean(scores)) * np.sqrt(5)))
    assert joint.p_direction < 1e-3 < 0.05 < 2 * norm.sf(max(map(abs, scores)))


def test_unknown_protocols_take_no_part_in_the_joint_test():
    each = replace(outcome(WINE, np.full(10, 9.0)), word="protocol unknown")
    assert list(verdicts.joint_tests({(WINE.id, "B1", "paper"): each})) == []


def test_columns_of_the_same_fits_count_once():
    cells = [cell for cell in published() if cell.id.startswith("boostmetric/T2/Bal/")]
    assert [cell.method for cell in cells if verdicts.counts(cell)] == ["v=1e-7"]
    assert all(map(verdicts.counts, (WINE, CELLS["metricboost/T2/wine/bin A"])))


def test_one_reading_of_a_paper_is_the_nearest_among_the_complete_ones():
    """B7 explains more, but lacks a row; the capped mean of squares decides between the others."""
    cells = [CELLS[f"boostmetric/T1/{name}/BoostMetric"] for name in ("Wine", "Iris", "Vehicle")]
    shifts = {"B1": (3.0, 3.0, 3.0), "B9": (9.0, 0.0, 0.0), "B7": (0.0, 0.0)}
    found = {}
    for reading, far in shifts.items():
        for cell, shift in zip(cells, far, strict=False):
            values = cell.value + shift * cell.sd + np.tile([-0.1, 0.1], 5)
            found[cell.id, reading, "paper"] = outcome(cell, values, reading=reading)
    assert verdicts.literal("boostmetric") == "B1"
    assert verdicts.single(found, "boostmetric") == "B9"
    best = verdicts.of_reading(found, {"boostmetric": "B7"})
    assert [best[cell.id, "paper"].reading for cell in cells] == ["B7", "B7", "B1"]


def test_orders_are_paired_by_split():
    rng = np.random.default_rng(0)
    base = rng.normal(20, 5, 10)
    ahead = base - 6 + rng.normal(0, 0.5, 10)
    found = row(base, base + rng.normal(0, 1, 10) - 6, ahead)
    words = {each.other.cell.method: each for each in orders(found)}
    assert words["Euclid"].word == "holds"
    assert words["Euclid"].ahead == pytest.approx((base - ahead).mean())
    assert words["RCA"].word == "not significant"
    assert not words["RCA"].printed_ahead  # RCA has 2.26 and BoostMetric 2.64
    uncorrected = ttest_rel(base, ahead).pvalue
    assert words["Euclid"].p_value > uncorrected


@pytest.mark.parametrize(("n", "share"), [((125, 53), 53 / 125), ((36, 142), 142 / 36)])
def test_orders_are_corrected_by_the_ratio_of_the_split(n, share):
    """Also of swapped folds, where four times as many rows are tested as learned from."""
    rng = np.random.default_rng(1)
    base, own = rng.normal(20, 5, 10), rng.normal(18, 5, 10)
    found = row(base, base, own)
    lines = {
        key: tuple(line | {"n": list(n)} for line in each.lines) for key, each in found.items()
    }
    found = {key: replace(each, lines=lines[key]) for key, each in found.items()}
    order = next(each for each in orders(found) if each.other.cell.method == "Euclid")
    ahead = base - own
    statistic = ahead.mean() / np.sqrt((1 / 10 + share) * ahead.var(ddof=1))
    assert order.p_value == pytest.approx(2 * student.sf(abs(statistic), 9))


def test_other_splits_are_not_paired():
    found = row(AGREES, AGREES, AGREES - 5)
    key = ("boostmetric/T1/Wine/BoostMetric", "B1", "paper")
    lines = tuple(line | {"split": "other"} for line in found[key].lines)
    assert list(orders(found | {key: replace(found[key], lines=lines)})) == []
