"""Which sizes can give printed means: against counting by hand."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from statistics import mean, pstdev, stdev

import pytest

from papers.grim import chance, fits, folds_fit, main, pairs, spread_fits, usual_sizes

WINE = ["26.23", "10.38", "2.26", "27.36", "5.47", "2.64"]
USPS = ["5.18", "32.71", "7.51", "2.96"]


def roundings(count: int, answers: int, decimals: int) -> set[str]:
    """Both roundings of a share in percent, with integers only."""
    units = 100 * 10**decimals
    low, rest = divmod(count * units, answers)
    nearest = {low} if 2 * rest < answers else {low + 1}
    if 2 * rest == answers:
        nearest = {low, low + 1}
    whole = [divmod(number, 10**decimals) for number in nearest]
    return {f"{a}.{b:0{decimals}d}" if decimals else str(a) for a, b in whole}


@pytest.mark.parametrize("answers", [1, 3, 7, 8, 45, 53, 80, 120, 640])
@pytest.mark.parametrize("decimals", [0, 1])
def test_fits_is_what_counting_says(answers, decimals):
    possible = set().union(*(roundings(k, answers, decimals) for k in range(answers + 1)))
    units = 10**decimals
    every = [f"{p / units:.{decimals}f}" for p in range(100 * units + 1)]
    assert {text for text in every if fits([text], answers)} == possible


def test_fits_with_two_decimals():
    possible = set().union(*(roundings(k, 530, 2) for k in range(531)))
    assert set(WINE) <= possible
    assert fits(WINE, 530)
    assert not fits([*WINE, "26.22"], 530)
    assert "26.22" not in possible


@pytest.mark.parametrize(("answers", "decimals"), [(7, 0), (45, 1), (53, 1), (530, 2)])
def test_chance_is_the_share_of_possible_means(answers, decimals):
    """Below one answer per unit each count has a rounding of its own."""
    assert len({max(roundings(k, answers, decimals)) for k in range(answers + 1)}) == answers + 1
    zero = f"{0:.{decimals}f}"
    assert chance([zero], answers) == pytest.approx((answers + 1) / (100 * 10**decimals + 1))


def test_equal_means_count_once_and_many_answers_say_nothing():
    assert chance(["2.22", "2.22"], 450) == chance(["2.22"], 450)
    assert chance(USPS, 5500) == pytest.approx(0.0915, abs=1e-3)
    assert chance(USPS, 10_000) == 1.0
    assert list(pairs(USPS, [10_000, 5_500], [1])) == list(pairs(USPS, [5_500], [1]))


def test_known_rows():
    assert [(f.test_rows, f.runs) for f in pairs(WINE, range(45, 90), [10])] == [(53, 10)]
    assert fits(USPS, 5500)
    assert [text for text in USPS if not fits([text], 2007)] == ["32.71", "7.51", "2.96"]


def test_spread_is_what_enumeration_says():
    """All ways in which four runs of six rows can go, against the necessary condition."""
    for counts in product(range(7), repeat=4):
        percent = [100 * count / 6 for count in counts]
        text = f"{mean(percent):.2f}"
        assert spread_fits(text, f"{pstdev(percent):.2f}", 6, 4, ddof=0)
        assert spread_fits(text, f"{stdev(percent):.2f}", 6, 4, ddof=1)


def test_impossible_spreads_are_refused():
    """Three rows in ten runs: the squares add up to 3, 5 or 9, and to nothing between."""
    text = f"{100 * 3 / 450:.2f}"
    possible = {
        f"{stdev(counts) / 0.45:.2f}"
        for counts in ([3] + [0] * 9, [2, 1] + [0] * 8, [1] * 3 + [0] * 7)
    }
    every = {f"{units / 100:.2f}" for units in range(400)}
    found = {sd for sd in every if spread_fits(text, sd, 45, 10, ddof=1)}
    assert possible <= found
    assert len(found) < len(every) / 20


@pytest.mark.parametrize(("rows", "sizes"), [(7, (3, 2, 2)), (6, (2, 2, 2)), (11, (4, 4, 3))])
def test_folds_are_what_enumeration_says(rows, sizes):
    possible = set()
    for right in product(*(range(size + 1) for size in sizes)):
        share = 100 * sum(Fraction(r, size) for r, size in zip(right, sizes, strict=True)) / 3
        possible |= roundings(share.numerator, 100 * share.denominator, 1)
    every = {f"{units / 10:.1f}" for units in range(1001)}
    assert {text for text in every if folds_fit(text, rows, 3)} == possible


def test_the_usual_sizes():
    sizes = usual_sizes(150)
    assert sizes["30 %"] == 45
    assert "30 % down" not in sizes
    assert (usual_sizes(683)["30 % down"], usual_sizes(683)["30 % up"]) == (204, 205)
    assert usual_sizes(683)["all"] == 683


def test_report_of_a_row(capsys):
    assert main(["--paper", "boostmetric", "--table", "T1", "--row", "Wine"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "boostmetric/T1/Wine: 26.23, 10.38, 2.26, 27.36, 5.47, 2.64"
    assert lines[1].startswith("  30 % down (53 rows): 10*, 20, 30,")
    assert lines[2] == "    10*: 6 of 6 spreads fit if divided by runs - 1, 0 if by runs"
    assert "  The printed number of runs: 1 of 12 fit" in "\n".join(lines)


def test_report_of_a_printed_size_that_does_not_fit(capsys):
    assert main(["--paper", "msnca", "--row", "AT&T"]) == 0
    out = capsys.readouterr().out
    assert "50*: no; fewest runs for SVM 1, kNN 7, LMNN 8, ITML 3, NCA 3, msNCA 9" in out


def test_report_of_a_given_size(capsys):
    assert main(["--paper", "boostmetric", "--row", "USPS-1", "--test", "2007", "--runs", "1"]) == 0
    assert "Any number of runs: 0 of 1 fit" in capsys.readouterr().out
    assert main(["--paper", "boostmetric", "--row", "nothing"]) == 1
