"""Verdicts: intervals, words, baselines and orders, on runs made up for the purpose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_ind_from_stats, ttest_rel

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
    from scipy.stats import t

    a, b = values.var(ddof=1) / 10, 1.59**2 / 10
    return t.ppf(0.975, (a + b) ** 2 / (a**2 / 9 + b**2 / 9))


@pytest.mark.parametrize(
    ("values", "word"),
    [
        (np.full(10, 2.7), "reproduced"),
        (np.full(10, 0.2), "better"),
        (np.full(10, 9.0), "worse"),
        (np.tile([0.0, 5.5], 5), "undecided"),
    ],
)
def test_words_of_lower_is_better(values, word):
    assert compared(outcome(WINE, values)) == word


def test_a_narrow_interval_with_zero_is_reproduced():
    cell = replace(WINE, sd=0.3)
    assert compared(outcome(cell, np.tile([2.4, 2.9], 5))) == "reproduced"


def test_a_small_significant_difference_is_reproduced():
    cell = replace(WINE, value=20.0, sd=0.1)
    assert compared(outcome(cell, np.full(10, 21.9))) == "reproduced"
    assert compared(outcome(cell, np.full(10, 22.1))) == "worse"


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


AGREES = np.tile([20.0, 32], 5)


@pytest.mark.parametrize(
    ("euclid", "rca", "word", "why"),
    [
        (AGREES, np.tile([0.5, 4.0], 5), "worse", ""),
        (AGREES, np.full(10, 9.0), "protocol unknown", "RCA is 9.00, printed 2.26"),
        (AGREES, np.full(10, 0.2), "protocol unknown", "RCA is 0.20, printed 2.26"),
        (np.full(10, 5.0), np.full(10, 2.26), "protocol unknown", "Euclid is 5.00, printed 26.23"),
        (AGREES, [], "protocol unknown", "RCA is not run"),
    ],
)
def test_baselines_come_first_and_both_sides_count(euclid, rca, word, why):
    own = row(euclid, rca, np.full(10, 9.0))["boostmetric/T1/Wine/BoostMetric", "B1", "paper"]
    assert (own.word, own.why) == (word, why)


def test_euclidean_distance_and_one_other_baseline_are_enough():
    found = row(AGREES, np.full(10, 9.0), np.full(10, 9.0))
    cell = CELLS["boostmetric/T1/Wine/LMNN"]
    found[cell.id, "B1", "reference"] = outcome(cell, np.tile([4.0, 7.0], 5), "reference")
    judged = {key: verdicts._judged(each, found) for key, each in found.items()}
    assert judged["boostmetric/T1/Wine/BoostMetric", "B1", "paper"].word == "worse"
    lmnn = judged[cell.id, "B1", "reference"]
    assert (lmnn.word, lmnn.why) == ("protocol unknown", "RCA is 9.00, printed 2.26")


def test_baselines_have_a_wider_interval():
    """A difference between the two quantiles counts against a method, not against a baseline."""
    values = np.tile([27.0, 35.0], 5)
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
    assert printed_runs(CELLS["metricboost/T2/wine/bin A"]) == 40


def test_a_row_without_printed_baseline_has_an_unknown_protocol():
    cell = CELLS["boostmetric/T2/Bal/v=1e-7"]
    one = outcome(cell, [9.0, 8.0])
    judged = verdicts._judged(one, {(cell.id, "B1", "paper"): one})
    assert (judged.word, judged.why) == ("protocol unknown", "no baseline is printed")


def test_the_reading_with_agreeing_baselines_is_chosen():
    bad = row(np.full(10, 5.0), np.full(10, 9.0), np.full(10, 2.6))
    good = {
        (cell, "B2", variant): replace(each, reading="B2")
        for (cell, _, variant), each in row(AGREES, np.full(10, 2.26), np.full(10, 2.6)).items()
    }
    best = verdicts.chosen(bad | good)
    assert {each.reading for each in best.values()} == {"B2"}


def test_one_reading_of_a_paper_explains_most():
    values = np.tile([2.0, 3.2], 5)
    first = row(AGREES, np.full(10, 2.26), np.full(10, 9.0))
    later = row(AGREES, np.full(10, 2.26), values)
    found = first | {
        (cell, "B2", variant): replace(each, reading="B2")
        for (cell, _, variant), each in later.items()
    }
    key = ("boostmetric/T1/Wine/BoostMetric", "paper")
    assert verdicts.chosen(found)[key].word == "worse"
    assert verdicts.explaining(found)[key].word == "reproduced"


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


def test_other_splits_are_not_paired():
    found = row(AGREES, AGREES, AGREES - 5)
    key = ("boostmetric/T1/Wine/BoostMetric", "B1", "paper")
    lines = tuple(line | {"split": "other"} for line in found[key].lines)
    assert list(orders(found | {key: replace(found[key], lines=lines)})) == []
