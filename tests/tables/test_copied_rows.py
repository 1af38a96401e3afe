"""Copies of rows: commands say that there are some, and keep them on one side of every split."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from nearfar import Metric

RNG = np.random.default_rng(0)
PLACE = RNG.permutation(np.tile(np.arange(60), 3))
X = RNG.standard_normal((60, 4))[PLACE]
Y = RNG.integers(0, 2, 60)[PLACE]
NOTE = (
    "Note: 120 of 180 rows are equal to earlier rows; equal rows stay on one side of every split."
)
LABELLED = ["copies.csv", "--label", "kind", "--drop", "row"]


@pytest.fixture(autouse=True)
def tables(folder):
    """Rows of which each is there three times, with random classes."""
    pl.DataFrame(X, schema=list("abcd")).with_columns(
        pl.Series("kind", np.array(["x", "y"])[Y]), pl.Series("row", np.arange(180))
    ).write_csv("copies.csv")
    i, j = RNG.integers(180, size=(2, 400))
    apart = PLACE[i] != PLACE[j]
    pl.DataFrame({"a": i, "b": j, "similar": Y[i] == Y[j]}).filter(apart).write_csv("judged.csv")
    Metric.identity(4).named(list("abcd")).save("metric.safetensors")
    return folder


def test_compare(run, document):
    found = document("compare", *LABELLED, "--method", "rca", "--folds", 3)
    assert found["n_groups"] == 60
    assert min(method["error"] for method in found["methods"]) > 0.3
    assert run("compare", *LABELLED, "--method", "rca", "--folds", 3).stderr.count(NOTE) == 1


def test_groups_of_the_user_come_first(document, run):
    by_row = ["copies.csv", "--label", "kind", "--group", "row", "--method", "rca", "--folds", 3]
    assert document("compare", *by_row)["n_groups"] == 180
    assert "equal to earlier" not in run("compare", *by_row).stderr


def test_learn(run):
    result = run("learn", *LABELLED, "--method", "rca", code=3)
    assert NOTE in result.stderr
    assert "UserWarning" not in result.stderr


def test_learn_from_pairs(run):
    options = ["--pairs", "judged.csv", "--drop", "row", "--drop", "kind", "--method", "rca"]
    result = run("learn", "copies.csv", *options, code=None)
    assert result.stderr.count("rows are equal to earlier rows") == 1
    assert "rows are equal to earlier rows" not in result.stdout


@pytest.mark.usefixtures("plain_figures")
def test_report(run, folder):
    result = run("report", *LABELLED, "--method", "rca", "--out", "report.html")
    assert NOTE in result.stderr
    page = (folder / "report.html").read_text()
    assert "Rows that are copies of other rows, or nearly: 120." in page
    assert "groups" not in page.split("<main>")[1].split("appendix")[0]


def test_verify(run):
    """The classes are random: nothing but copies of pairs could be told."""
    result = run("verify", "metric.safetensors", "copies.csv", "judged.csv", "--drop", "kind")
    assert "rows are equal to earlier rows" in result.stderr
