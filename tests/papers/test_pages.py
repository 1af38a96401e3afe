"""Pages of the papers in the documentation: what the results give today, a reading a row."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from papers import pages, results
from papers.cells import published
from papers.task import PAPERS, protocol, tasks
from papers.verdicts import headline, outcomes

CELL = r"(\d+\.\d\d) ± (\d+\.\d\d) \("
"""Our mean and standard deviation, before what is printed."""

same_digests = pytest.mark.skipif(
    sys.version_info[:2] in ((3, 12), (3, 13)),
    reason="ast.unparse of Python 3.12 and 3.13 quotes f-strings otherwise: digests of code differ",
)


@pytest.fixture(scope="module")
def found():
    return outcomes()


@same_digests
@pytest.mark.parametrize("paper", PAPERS)
def test_pages_are_those_of_the_stored_results(paper, found):
    text = pages.page_of(paper).read_text("utf-8")
    assert f"<!-- papers: {paper} -->" in text
    assert pages.filled(text, found) == text, "Run `python -m papers report`."


@same_digests
def test_shown_numbers_are_those_of_stored_runs_with_the_settings_of_today(found):
    """A changed default must not leave an old number on a page without a mark."""
    today = {task.key: results.described(task) for task in tasks()}
    stored = results.by_cell()
    valid = set()
    for (cell, _, variant), settings in today.items():
        lines = [line for line in stored[cell, variant] if results.is_current(line, settings)]
        runs = {line["run"]: line["value"] for line in lines}
        values = [runs[run] for run in sorted(runs)]
        if len(values) > 1:
            valid.add((f"{np.mean(values):.2f}", f"{np.std(values, ddof=1):.2f}"))
        elif values:  # a single run has the spread of its errors
            spread = np.sqrt(values[0] * (100 - values[0]) / lines[-1]["n"][1])
            valid.add((f"{values[0]:.2f}", f"{spread:.2f}"))
    shown = set()
    for paper in PAPERS:
        for line in pages.page_of(paper).read_text("utf-8").splitlines():
            shown |= {tuple(each) for each in re.findall(CELL + r"[^|†]*\|", line)}
    assert len(shown) > 200
    assert shown <= valid


def test_rows_have_one_reading_and_no_cell_of_another(found):
    """Of BoostMetric's first table, each number comes from runs of the reading of its row."""
    text = pages.page_of("boostmetric").read_text("utf-8")
    readings = set()
    for line in re.findall(r"^\| Wine \|.*$", text, re.MULTILINE)[:2]:
        _, reading, _, *cells = (each.strip() for each in line.strip("|").split("|"))
        readings.add(reading)
        own = [each for each in found.values() if each.cell.row == "Wine" and each.lines]
        own = [each for each in own if (each.cell.table, each.reading) == ("T1", reading)]
        means = {f"{each.mean:.2f}" for each in own}
        assert {each.split(" ±")[0] for each in cells if each and each[0] != "–"} <= means
    assert readings == {each["boostmetric"] for each in headline(found).values()}


def test_only_what_is_between_the_markers_changes(found):
    text = "before 1.0\n<!-- papers: drmetric -->\nold 2.0\n<!-- end of papers -->\nafter 3.0\n"
    first = next(iter(protocol("drmetric").READINGS))
    key = "drmetric/T2/Glass/Euclid", first, "reference"
    cell = next(cell for cell in published() if cell.id == key[0])
    lines = [{"run": run, "value": value, "n": [171, 43]} for run, value in enumerate((60.0, 64.0))]
    one = replace(found[key], cell=cell, lines=tuple(lines), word="undecided", stale=True)
    new = pages.filled(text, {key: one})
    assert new.startswith("before 1.0\n<!-- papers: drmetric -->\nCells are our mean")
    assert new.endswith("<!-- end of papers -->\nafter 3.0\n")
    assert "old 2.0" not in new
    assert f"| Glass | {first} | 2 | 62.00 ± 2.83 (61.14) ? † |" in new
