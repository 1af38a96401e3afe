"""The printed numbers: loader, names, totals, and the second typing."""

from __future__ import annotations

import csv
import os
from collections import Counter
from pathlib import Path

import pytest

from papers.cells import Cell, documents, parse, published, table_cells

CELLS = {cell.id: cell for cell in published()}

TOTALS = {  # cells, own cells, obtainable cells, obtainable own cells
    "boostmetric": (95, 32, 95, 32),
    "drmetric": (43, 6, 40, 5),
    "maxmargin": (46, 8, 46, 8),
    "metricboost": (146, 55, 144, 54),
    "msnca": (62, 12, 50, 10),
}


def test_ids_are_unique():
    assert Counter(cell.id for cell in published()).most_common(1)[0][1] == 1


def test_totals():
    found = {}
    for paper in TOTALS:
        cells = [cell for cell in CELLS.values() if cell.paper == paper]
        own = [cell for cell in cells if cell.own]
        found[paper] = (
            len(cells),
            len(own),
            sum(cell.obtainable for cell in cells),
            sum(cell.obtainable for cell in own),
        )
    assert found == TOTALS
    assert len(CELLS) == 392


@pytest.mark.parametrize(
    ("name", "value", "sd", "better", "own", "page"),
    [
        ("boostmetric/T1/Wine/BoostMetric", 2.64, 1.59, "lower", True, 7),
        ("boostmetric/T2/Diabetes/v=1e-4", 26.0, 1.46, "lower", True, 7),
        ("boostmetric/Fig2/text/100w/Euclid", 15.0, 1.0, "lower", False, 8),
        ("metricboost/T1/spect/Mahal", 35.2, 2.8, "higher", False, 6),
        ("metricboost/T3/lung/own s", 22.1, None, "lower", True, 7),
        ("drmetric/T2/Digits/DRMetric", 82.9, None, "higher", True, 10),
        ("maxmargin/T1/Segmentation/own", 10.9, None, "lower", True, 6),
        ("msnca/T1/vehicle/msNCA", 82.45, 5.3, "higher", True, 4),
        ("msnca/text/AT&T 5/5/msNCA", 97.5, None, "higher", True, 7),
    ],
)
def test_known_cells(name, value, sd, better, own, page):
    cell = CELLS[name]
    assert (cell.value, cell.sd, cell.better, cell.own, cell.page) == (value, sd, better, own, page)


def test_the_second_typing_agrees():
    """Every cell of the other list, typed by somebody else, is here with the same number."""
    folder = os.environ.get("NEARFAR_DATA")
    path = Path(folder).parent / "papers" / "published.csv" if folder else None
    if path is None or not path.exists():
        pytest.skip("papers/published.csv is not beside the folder of NEARFAR_DATA.")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = {
        "/".join(row[name] for name in ("paper", "table", "row", "method")): (
            float(row["value"]),
            float(row["sd"]) if row["sd"] else None,
            row["better"],
            row["own"] == "1",
            row["obtainable"] == "1",
        )
        for row in rows
    }
    found = {
        name: (cell.value, cell.sd, cell.better, cell.own, cell.obtainable)
        for name, cell in CELLS.items()
    }
    assert found == expected


def test_decimals_are_those_printed():
    assert CELLS["boostmetric/T2/Diabetes/v=1e-8"].decimals == 1
    assert CELLS["boostmetric/T2/Diabetes/v=1e-8"].sd_decimals == 2
    assert CELLS["boostmetric/Fig2/text/100w/Euclid"].decimals == 0
    assert CELLS["drmetric/T2/Digits/DRMetric"].decimals == 2


def test_what_cannot_be_had_has_a_reason():
    for cell in CELLS.values():
        assert cell.obtainable or cell.reason.endswith("."), cell.id
    assert not CELLS["msnca/T3/Graz-02/msNCA"].obtainable
    assert CELLS["boostmetric/T1/Helix/RCA"].reason
    assert not CELLS["boostmetric/T1/Iris/RCA"].reason


@pytest.mark.parametrize("text", ["", "3.56(0.28)", "3,56", "-", "3.56 (0.28", ".5"])
def test_unreadable_numbers_are_refused(text):
    with pytest.raises(ValueError, match="Cannot read"):
        parse(text)


def test_a_short_row_is_refused():
    table = {
        "id": "T",
        "page": 1,
        "measure": "error",
        "better": "lower",
        "columns": ["A", "B"],
        "own": ["B"],
        "rows": {"set": ["1.0"]},
    }
    with pytest.raises(ValueError, match="shorter"):
        list(table_cells("paper", table))


def test_every_document_is_complete():
    """Each figure says whether it can be drawn, and patterns name rows that exist."""
    for paper, document in documents().items():
        figures = [figure["id"] for figure in document["figure"]]
        assert len(set(figures)) == len(figures)
        for figure in document["figure"]:
            assert {"page", "kind", "x", "y", "shows", "obtainable", "reason"} <= set(figure)
        for table in document["table"]:
            names = [f"{cell.row}/{cell.method}" for cell in table_cells(paper, table)]
            rows = {cell.row for cell in table_cells(paper, table)}
            assert set(table["own"]) <= {cell.method for cell in table_cells(paper, table)}
            assert rows >= set(table.get("sizes", {})) | set(table.get("test_rows", {}))
            for pattern in [*table.get("unobtainable", {}), *table.get("stand_in", {})]:
                assert any(Path(name).match(pattern) for name in names) or pattern == "*"


def printed_figures() -> dict[str, list[bool]]:
    return {
        paper: [f["obtainable"] for f in document["figure"] if f["id"].startswith("F")]
        for paper, document in documents().items()
    }


def test_twenty_figures_of_which_fifteen_can_be_drawn():
    figures = printed_figures()
    assert {paper: len(found) for paper, found in figures.items()} == {
        "boostmetric": 2,
        "drmetric": 5,
        "maxmargin": 1,
        "metricboost": 2,
        "msnca": 10,
    }
    assert sum(sum(found) for found in figures.values()) == 15


def rows_led(paper: str, table: str) -> set[str]:
    """Rows in which a cell of the paper's own method is the best, ties excluded."""
    rows: dict[str, list[Cell]] = {}
    for cell in CELLS.values():
        if (cell.paper, cell.table) == (paper, table):
            rows.setdefault(cell.row, []).append(cell)
    led = set()
    for row, cells in rows.items():
        sign = 1 if cells[0].better == "higher" else -1
        best = max(sign * cell.value for cell in cells)
        if all(cell.own for cell in cells if sign * cell.value == best):
            led.add(row)
    return led


def test_claims_about_the_order_are_what_the_numbers_say():
    """The papers' claims of being ahead, recomputed from the printed means."""
    others = {"ORL-2", "Wine", "Bal", "Iris"}
    assert rows_led("boostmetric", "T1").isdisjoint(others)
    assert len(rows_led("boostmetric", "T1")) == 11
    assert rows_led("drmetric", "T2") == {"Characters", "Glass", "Adult", "Digits", "Wine"}
    assert rows_led("maxmargin", "T1") == {"Segmentation", "Sonar", "Wine", "USPS"}
    assert rows_led("metricboost", "T1") == {"spect", "sonar", "iono", "wdbc"}
    assert rows_led("metricboost", "T2") == {"wine", "sonar", "iono", "wdbc"}
    assert rows_led("msnca", "T1") == {"wine", "iono", "vehicle"}
