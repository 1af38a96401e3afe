"""The generated first page and its figure: equal to what is stored."""

from __future__ import annotations

import re
import tomllib

import pytest

from papers import checking, pages, report
from papers.__main__ import parser, seconds
from papers.cells import published
from papers.task import PAPERS
from papers.verdicts import Outcome


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    report.write(page=folder / "report.md", figure=folder / "figures" / "figure.svg")
    return (folder / "report.md").read_text("utf-8"), (folder / "figures/figure.svg").read_text()


@pytest.mark.slow
def test_the_page_is_the_one_that_the_results_give(written):
    assert report.PAGE.read_text("utf-8") == written[0], "Run `python -m papers report`."


@pytest.mark.slow
def test_the_figure_is_the_one_that_the_results_give(written):
    assert report.FIGURE.read_text("utf-8") == written[1], "Run `python -m papers report`."


def test_answers_are_two_sentences_with_figures_of_the_results():
    """No figure is typed by hand: what is left without the braces has no digit but names."""
    for text in tomllib.loads(report.ANSWERS.read_text("utf-8")).values():
        told = re.sub(r"{[^}]*}", "N", text)
        assert not re.search(r"\d", re.sub(r"[A-Z]\d|-NN|T\d", "", told))
        assert len(re.findall(r"\.(?: |$)", told)) == 2


def test_the_first_screen_has_answers_the_figure_and_the_counts(written):
    page = report.PAGE.read_text("utf-8")
    places = [page.index(each) for each in ("## An answer", "figures/ours-", "## Counts")]
    assert places == sorted(places)
    assert len(page.splitlines()) < 150
    assert all(f"/{pages.page_of(paper).name})** (" in page for paper in PAPERS)


def test_every_point_of_the_figure_is_on_a_page():
    told = "".join(pages.page_of(paper).read_text("utf-8") for paper in PAPERS)
    points = re.findall(r": ([\d.]+), printed", report.FIGURE.read_text("utf-8"))
    assert len(points) > 300
    assert [value for value in points if f"| {value} ±" not in told] == []


def test_explain_says_what_is_known():
    text = "\n".join(checking.explain("boostmetric/T1/Wine/Euclid"))
    assert "printed 26.23 (5.52), page 7" in text
    assert "B-T1-scale.raw" in text
    assert "reading B1, reference: " in text
    assert text.endswith("python -m papers run --cell 'boostmetric/T1/Wine/Euclid'")
    with pytest.raises(SystemExit, match="No cell is named 'wine'"):
        list(checking.explain("wine"))


def test_explain_a_cell_with_slashes_in_its_row():
    assert "page 7" in next(checking.explain("msnca/text/AT&T 5/5/msNCA"))


@pytest.mark.parametrize(
    ("text", "value"), [("90", 90), ("90s", 90), ("20m", 1200), ("1.5h", 5400)]
)
def test_durations(text, value):
    assert seconds(text) == value


def test_the_command_line(capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["run", "--budget", "soon"])
    assert "'soon' is no duration" in capsys.readouterr().err
    assert parser().parse_args(["run", "--budget", "5m"]).budget == 300


def test_the_counts_are_those_of_the_verdicts():
    cell = next(cell for cell in published() if cell.id == "boostmetric/T1/Wine/BoostMetric")
    line = {"run": 0, "split": "", "value": 3.5, "n": [125, 53], "seconds": 1, "machine": "m"}
    line |= {"commit": "c", "versions": {"nearfar": "1"}}
    outcome = Outcome(cell, "B1", "paper", (line,), True, "worse")
    page = "\n".join(report.counted({(cell.id, "B1", "paper"): outcome}))
    assert "| boostmetric | own, as printed | 20 | 1 | 0 | 0 | 0 | 1 | 0 | 0 |" in page
    assert "| **all** | own, as printed |  | 1 | 0 | 0 | 0 | 1 | 0 | 0 |" in page
