"""docs/reference/losses.md: its example runs, and its stored results are complete."""

from __future__ import annotations

import runpy

import pytest

from docs.pages import ROOT, Page
from nearfar import BoostMetric


@pytest.fixture(scope="module")
def page():
    return Page.read(ROOT / "docs/reference/losses.md")


@pytest.fixture(scope="module")
def benchmark():
    return runpy.run_path(str(ROOT / "benchmarks/losses.py"))


def test_the_example_runs(page):
    (code,) = [block.text for block in page.blocks if block.kind == "python"]
    names = {"__name__": "example"}
    exec(compile(code, page.name, "exec"), names)
    assert names["learner"].n_iter_ > 0


def test_the_stored_results_are_complete(benchmark):
    rows = benchmark["stored"]()
    keys = ("dataset", "loss", "level", "validated", "split")
    settings = [tuple(row[key] for key in keys) for row in rows]
    sizes = [len({setting[i] for setting in settings}) for i in range(len(keys))]
    assert sizes == [10, 3, 3, 2, 5]
    assert len(set(settings)) == len(settings) == 900
    for row in rows:
        learner = BoostMetric(**row["parameters"])
        assert learner.loss == row["loss"]
        assert (learner.validation_fraction is not None) == row["validated"]
