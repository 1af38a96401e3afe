"""Tables in the documentation: what the results give today, with today's defaults."""

from __future__ import annotations

import re

import numpy as np
import pytest

from papers import pages, results
from papers.methods import all_parameters
from papers.task import tasks
from papers.verdicts import outcomes

PAGES = list(pages.marked_pages())


@pytest.fixture(scope="module")
def found():
    return outcomes()


def test_the_five_learners_have_tables():
    names = {path.stem for path in PAGES}
    assert names >= {"boostmetric", "metricboost", "drmetric", "maxmargin", "nca"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_tables_are_those_of_the_stored_results(path, found):
    text = path.read_text("utf-8")
    assert pages.filled(text, found) == text, "Run `python -m papers report`."


def test_shown_numbers_have_the_parameters_of_today():
    """A changed default must not leave an old number on a page."""
    today = {}
    for task in tasks():
        key = task.cell, task.variant
        today.setdefault(key, []).append(all_parameters(task.method, task.parameters))
    runs: dict[tuple[str, ...], dict[int, float]] = {}
    for line in results.read():
        if line["parameters"] in today.get((line["cell"], line["variant"]), []):
            parameters = str(sorted(line["parameters"].items()))
            names = ("table", "split_rule", "k", "vote", "measure", "code")
            preparation = (str(line.get(name)) for name in names)
            key = (line["cell"], line["variant"], parameters, *preparation)
            runs.setdefault(key, {})[line["run"]] = line["value"]
    valid = {f"{np.mean(list(values.values())):.1f}" for values in runs.values()}
    shown = set()
    for path in PAGES:
        for match in pages.MARKED.finditer(path.read_text("utf-8")):
            shown |= set(re.findall(r"\| (\d[\d.]*) \(", match[0]))
    assert shown
    assert shown <= valid


def test_only_what_is_between_the_markers_changes():
    text = "before 1.0\n<!-- papers: drmetric T2 -->\nold 2.0\n<!-- end of papers -->\nafter 3.0\n"
    new = pages.filled(text, {})
    assert new.startswith("before 1.0\n<!-- papers: drmetric T2 -->\n3-NN")
    assert new.endswith("<!-- end of papers -->\nafter 3.0\n")
    assert "old 2.0" not in new
    assert "| Glass | – (61.14) |" in new
