"""The command line of matching."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.records.people import known_matches, persons


@pytest.fixture
def tables(folder):
    left, right = persons(80)
    left.write_csv("left.csv")
    right.write_csv("right.csv")
    known_matches(40).write_csv("known.csv")


@pytest.mark.usefixtures("tables")
def test_matches_a_matcher_questions_and_a_report(run, document):
    pairs = ["match", "left.csv", "right.csv", "--pairs", "known.csv"]
    written = ["--out", "m.csv", "--save", "m.safetensors", "--report", "m.html"]
    shown = run(*pairs, *written, "--ask", "q.csv", "--questions", "10").stdout
    for line in ("Matches written to m.csv", "Questions written to q.csv", "known matches"):
        assert line in shown
    table = pl.read_csv("m.csv").filter("same")
    assert (table["left"].str.slice(1) == table["right"].str.slice(1)).mean() > 0.9
    assert len(pl.read_csv("q.csv")) == 10
    page = Path("m.html").read_text("utf-8")
    assert "<mark>" in page
    assert "--questions 10" in page
    again = document("match", "left.csv", "right.csv", "--matcher", "m.safetensors")
    same = [each for each in again["matches"] if each["same"]]
    assert [each["left"] for each in same] == table["left"].to_list()


@pytest.mark.usefixtures("tables")
def test_first_questions_and_their_answers(run):
    tables = ["match", "left.csv", "right.csv"]
    shown = run(*tables, "--ask", "q.csv", "--questions", "80").stdout
    assert "Nothing is known yet" in shown
    questions = pl.read_csv("q.csv")
    same = questions["left"].str.slice(1) == questions["right"].str.slice(1)
    assert 30 <= same.sum() < 60
    assert questions.select("left", "right").n_unique() == 80
    questions.with_columns(same=same).write_csv("answers.csv")
    shown = run(*tables, "--pairs", "answers.csv", "--ask", "more.csv").stdout
    assert "Questions written to more.csv" in shown
    # Questions are candidates, so that they say nothing about candidates.
    assert "known matches are among them" not in shown
    asked = pl.read_csv("more.csv").select("left", "right").rows()
    assert not set(asked) & set(questions.select("left", "right").rows())


@pytest.mark.usefixtures("tables")
def test_mistakes(fail):
    tables = ["match", "left.csv", "right.csv"]
    assert "left.csv" in fail(*tables, "--out", "left.csv")
    assert "--pairs" in fail(*tables, "--target", "fmr<=0.1")
    assert "m.csv" in fail(*tables, "--report", "m.csv")
    assert "m.safetensors" in fail(*tables, "--matcher", "m.safetensors")
    assert "first questions" in fail(*tables, "--ask", "q.csv", "--out", "m.csv")


@pytest.mark.usefixtures("tables")
def test_what_is_not_written_is_said(run):
    shown = run("match", "left.csv", "right.csv", "--pairs", "known.csv").stdout
    assert "The matches were not written." in shown
    next_line = "Next: nearfar match left.csv right.csv --pairs known.csv --out matches.csv"
    assert next_line in shown.splitlines()
