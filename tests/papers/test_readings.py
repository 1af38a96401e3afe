"""Readings: names, statuses, the cells they concern, and the arithmetic behind settled ones."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase

import pytest

from papers.cells import Cell, documents, published
from papers.grim import fits, folds_fit, spread_fits
from papers.readings import SOURCES, STATUSES, experiment, experiments, readings
from papers.verdicts import counts, headline, of_reading, outcomes

CELLS = published()
READINGS = readings()

BOOSTMETRIC = {
    "ORL-1": 120,
    "ORL-2": 120,
    "COIL20": 432,
    "Wine": 53,
    "Bal": 187,
    "Iris": 45,
    "Vehicle": 253,
    "BCancer": 204,
    "Diabetes": 230,
}
"""Test rows of Table 1 under B-T1-split.floor30."""


def text(cell: Cell) -> str:
    return f"{cell.value:.{cell.decimals}f}"


def row(paper: str, table: str, name: str) -> list[Cell]:
    return [cell for cell in CELLS if (cell.paper, cell.table, cell.row) == (paper, table, name)]


def test_names_are_unique_and_say_where_they_belong():
    names = [reading.id for reading in READINGS]
    names += [candidate.id for reading in READINGS for candidate in reading.candidates]
    assert Counter(names).most_common(1)[0][1] == 1
    for reading in READINGS:
        for candidate in reading.candidates:
            assert candidate.id.startswith(f"{reading.id}.")


def test_statuses_and_sources():
    for reading in READINGS:
        assert reading.question.endswith("?")
        for candidate in reading.candidates:
            assert candidate.status in STATUSES
            assert candidate.what
            assert candidate.how
            assert candidate.evidence
            for item in candidate.evidence:
                assert item.source in SOURCES
                assert item.says.endswith(".")


def test_worse_cells_have_an_experiment():
    """Of the own methods, where the baselines agree, under the one reading of their paper."""
    found = outcomes()
    best = of_reading(found, headline(found)["one reading"])
    worse = [
        key
        for key, each in best.items()
        if each.cell.own and each.word == "worse" and counts(each.cell)
    ]
    assert worse
    assert [key for key in worse if experiment(*key) is None] == []


def test_experiments_concern_own_methods():
    own = [cell.id for cell in CELLS if cell.own]
    for each in experiments():
        assert set(each.variants) <= {"paper", "default"}
        assert each.says.endswith(".")
        for pattern in each.cells:
            assert any(fnmatchcase(name, pattern) for name in own), pattern


def test_the_first_experiment_that_matches_counts():
    wine = experiment("metricboost/T2/wine/bin A", "paper")
    other = experiment("metricboost/T2/sonar/bin A", "paper")
    assert wine is not other
    assert experiment("metricboost/T2/wine/Euclid", "reference") is None


def test_settled_leaves_no_other_candidate():
    for reading in READINGS:
        statuses = Counter(candidate.status for candidate in reading.candidates)
        assert statuses["settled"] <= 1
        assert statuses["refuted"] < len(reading.candidates)
        if statuses["settled"]:
            assert statuses["open"] == 0, reading.id


@pytest.mark.parametrize("reading", READINGS, ids=lambda reading: reading.id)
def test_every_pattern_matches_cells(reading):
    for pattern in reading.cells:
        assert any(type(reading)("", (pattern,), "", ()).concerns(cell.id) for cell in CELLS)


def test_every_cell_that_can_be_had_has_a_reading():
    assert [cell.id for cell in CELLS if cell.obtainable and not readings(cell.id)] == []


def test_sizes_of_boostmetric_are_thirty_percent_rounded_down():
    """The nine sets of B-T1-split: floor(0.3 n) fits ten runs, one row more does not."""
    table = documents()["boostmetric"]["table"][0]
    for name, rows in BOOSTMETRIC.items():
        means = [text(cell) for cell in row("boostmetric", "T1", name)]
        (total,) = table["sizes"][name]
        assert rows == 3 * total // 10
        assert fits(means, 10 * rows)
        if 3 * total % 10:
            assert not fits(means, 10 * (rows + 1))


def test_spreads_of_boostmetric_are_divided_by_nine():
    found = Counter()
    for name, rows in BOOSTMETRIC.items():
        for cell in row("boostmetric", "T1", name):
            spread = f"{cell.sd:.{cell.sd_decimals}f}"
            found["cells"] += 1
            for ddof in (0, 1):
                found[ddof] += spread_fits(text(cell), spread, rows, 10, ddof=ddof)
    assert found == {"cells": 50, 0: 21, 1: 50}


def test_stratified_sizes_of_boostmetric_do_not_fit():
    """Thirty percent of each class, rounded down or to the nearest, misses a printed size."""
    classes = {"Wine": (59, 71, 48), "Bal": (49, 288, 288), "Vehicle": (218, 212, 217, 199)}
    assert sum(3 * n // 10 for n in classes["Wine"]) == 52
    assert sum(3 * n // 10 for n in classes["Bal"]) == 186
    assert sum(round(0.3 * n) for n in classes["Vehicle"]) == 254
    for name, rows in {"Wine": 52, "Bal": 186, "Vehicle": 254}.items():
        assert not fits([text(cell) for cell in row("boostmetric", "T1", name)], 10 * rows)


def test_means_of_halves_in_max_margin():
    """X-T1-runs: which sets exclude ten, 20, 50 and 100 halves."""
    tests = {
        "Balance": (312, 313),
        "Breast": (341, 342),
        "Diabetes": (384,),
        "Segmentation": (105,),
        "Sonar": (103, 104, 105),
        "Wine": (88, 89, 90),
        "BreastScaled": (341, 342),
    }
    fitting = {
        runs: {
            (name, size)
            for name, sizes in tests.items()
            for size in sizes
            if fits([text(cell) for cell in row("maxmargin", "T1", name)], size * runs)
        }
        for runs in (10, 20, 50, 100)
    }
    assert fitting[10] == set()
    assert fitting[20] == {("Balance", 313), ("BreastScaled", 341)}
    assert {name for name, _ in fitting[50]}.isdisjoint({"Sonar", "Wine"})
    assert {size for name, size in fitting[100] if name == "Wine"} == {88, 90}
    assert {name for name, _ in fitting[100]} == set(tests)


def test_means_of_folds():
    """D-T2-folds and N-T1-folds: how many means one cross-validation can give."""
    sizes = {"Characters": 6000, "Glass": 214, "Digits": 5620, "Wine": 178}
    impossible = {
        name: sum(not folds_fit(text(cell), rows, 5) for cell in row("drmetric", "T2", name))
        for name, rows in sizes.items()
    }
    assert impossible == {"Characters": 4, "Glass": 1, "Digits": 1, "Wine": 5}
    sizes = {"iris": 150, "wine": 178, "segment": 2310, "iono": 351, "vehicle": 846}
    sizes["waveform"] = 5000
    possible = Counter(
        cell.method
        for name, rows in sizes.items()
        for cell in row("msnca", "T1", name)
        if folds_fit(text(cell), rows, 10)
    )
    assert possible == {"SVM": 3, "kNN": 2, "LMNN": 5, "ITML": 2, "NCA": 6, "msNCA": 6}


def test_fifty_runs_of_msnca_do_not_give_the_printed_means():
    for name, pictures, impossible in [
        ("AT&T", 120, {"kNN", "LMNN", "NCA", "msNCA"}),
        ("Yale", 60, {"LMNN", "ITML", "NCA"}),
    ]:
        cells = row("msnca", "T2", name)
        assert {
            cell.method for cell in cells if not fits([text(cell)], 50 * pictures)
        } == impossible
        means = [text(cell) for cell in cells]
        assert not any(fits(means, runs * pictures) for runs in range(1, 44))
