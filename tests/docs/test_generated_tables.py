"""Tables of measurements in the documentation are made from stored results of today's defaults."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from docs.pages import PATHS, ROOT
from nearfar.learners.base import known_learners

PAGES = runpy.run_path(str(ROOT / "benchmarks/fill_pages.py"))
BLOCKS = [
    pytest.param(found["script"], found["text"], id=f"{page.stem}-{Path(found['script']).stem}")
    for page in sorted((ROOT / "docs").rglob("*.md"))
    for found in PAGES["BLOCK"].finditer(page.read_text())
]


@pytest.mark.parametrize(("script", "text"), BLOCKS)
def test_tables_are_those_of_the_stored_results(script, text):
    assert text == PAGES["made"](script), "run `python benchmarks/fill_pages.py`"


@pytest.mark.parametrize("name", ["default_times", "untuned"])
def test_results_are_those_of_todays_defaults(name):
    rows = runpy.run_path(str(ROOT / f"benchmarks/{name}.py"))["stored"]()
    assert rows
    for row in rows:
        learner = known_learners().get(row.get("learner") or row["method"])
        if learner is not None and row.get("label") != "earlier":
            today = learner(**_seed(row)).get_params()
            if "form" not in row["parameters"]:
                # The pages say that these are of form="linear", which was the only one.
                today.pop("form", None)
            if "expected_folds" not in row["parameters"]:
                # Nothing but `expected_` and the time of small tables depends on it.
                today.pop("expected_folds", None)
            if "max_rows" not in row["parameters"]:
                # No table has more rows than are all learned from.
                today.pop("max_rows", None)
            if "line_search" not in row["parameters"]:
                # The step is the same to rounding, and the default as before.
                today.pop("line_search", None)
            assert row["parameters"] == {key: repr(value) for key, value in today.items()}, row


@pytest.mark.parametrize("name", ["claims", "claims_features"])
def test_claims_are_those_of_todays_parameters(name):
    benchmark = runpy.run_path(str(ROOT / f"benchmarks/{name}.py"))
    today = benchmark["parameters"]()
    assert benchmark["stored"]()
    assert all(row["parameters"] == today for row in benchmark["stored"]())


def _seed(row):
    """The benchmark of tables sets the seed, where there is one."""
    return {"random_state": 0} if row["parameters"].get("random_state") == "0" else {}


ALLOWED = {
    "docs/development/testing.md": "counts of mutants and of random inputs, which are no results",
    "docs/reference/cli.md": "exit codes, and what packages weigh",
    "docs/reference/scale.md": "formulas of the cost of an iteration",
}
"""Pages with tables of numbers that no run has measured, or none that can be stored, and why."""


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_measurements_are_between_markers(path):
    found = typed_tables(path.read_text())
    if path.relative_to(ROOT).as_posix() in ALLOWED:
        assert found, "Take the page off the list."
    else:
        assert found == []


def test_typed_tables_are_found():
    numbers = (
        "| set | error |\n| --- | --- |\n| wine | 3.1 (0.2) |\n| iris | 2 % |\n| a | 1 to 2 s |\n"
    )
    begin, end = "<!-- benchmarks/losses.py: begin -->\n", "<!-- benchmarks/losses.py: end -->\n"
    words = "| set | rows |\n| --- | --- |\n| wine | few |\n| iris | 2 or more |\n| a | no |\n"
    assert typed_tables(f"one\n\n{numbers}") == ["| set | error |"]
    assert typed_tables(f"{begin}{numbers}{end}{words}") == []
    assert typed_tables(f"{begin}{numbers}{end}\n{numbers}") == ["| set | error |"]


MARKED = re.compile(
    r"<!-- ((?:benchmarks|\.ci)/(\w+)\.py: begin|papers: [^>]+?) -->\n.*?"
    r"<!-- ((?:benchmarks|\.ci)/\w+\.py: end|end of papers) -->",
    re.DOTALL,
)
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
QUANTITY = re.compile(
    r"[*~<>+−-]*\d[\d,.]*(?:e[+-]?\d+)?(?:(?: ?(?:±|→|/|to|\() ?)[\d,.]+\)?)*"
    r" ?(?:%|s|ms|[kMG]?B|points?)?\**"
)
FEWEST = 3


def typed_tables(text):
    """Return the headings of tables outside markers that have some quantities."""
    found = []
    for table in TABLE.findall(FENCED.sub("", MARKED.sub("", text))):
        rows = table.splitlines()
        cells = [cell.strip() for row in rows[2:] for cell in row.strip("|").split("|")]
        if sum(bool(QUANTITY.fullmatch(cell)) for cell in cells) >= FEWEST:
            found.append(rows[0])
    return found
