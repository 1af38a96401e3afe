"""Tables of measurements in the documentation are made from stored results of today's defaults."""

from __future__ import annotations

import runpy

import pytest

from docs.pages import ROOT
from nearfar.learners.selection.auto import known_learners

PAGES = runpy.run_path(str(ROOT / "benchmarks/fill_pages.py"))
BLOCKS = [
    pytest.param(found["name"], found["text"], id=f"{page.stem}-{found['name']}")
    for page in sorted((ROOT / "docs").rglob("*.md"))
    for found in PAGES["BLOCK"].finditer(page.read_text())
]


@pytest.mark.parametrize(("name", "text"), BLOCKS)
def test_tables_are_those_of_the_stored_results(name, text):
    assert text == PAGES["made"](name), "run `python benchmarks/fill_pages.py`"


@pytest.mark.parametrize("name", ["default_times", "untuned"])
def test_results_are_those_of_todays_defaults(name):
    rows = runpy.run_path(str(ROOT / f"benchmarks/{name}.py"))["stored"]()
    assert rows
    for row in rows:
        learner = known_learners().get(row.get("learner") or row["method"])
        if learner is not None and row.get("label") != "earlier":
            today = learner(**_seed(row)).get_params()
            assert row["parameters"] == {key: repr(value) for key, value in today.items()}, row


def test_claims_are_those_of_todays_parameters():
    benchmark = runpy.run_path(str(ROOT / "benchmarks/claims.py"))
    today = benchmark["parameters"]()
    assert benchmark["stored"]()
    assert all(row["parameters"] == today for row in benchmark["stored"]())


def _seed(row):
    """The benchmark of tables sets the seed, where there is one."""
    return {"random_state": 0} if row["parameters"].get("random_state") == "0" else {}
