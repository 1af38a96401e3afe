"""The generated page and figure: equal to what is stored, and no other number on them."""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np
import pytest

from papers import checking, report, results
from papers.__main__ import parser, seconds
from papers.cells import published
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


SHARED = ("cell", "table", "split_rule", "k", "parameters", "vote", "ties")
"""What runs have in common that readings share."""


def test_every_number_of_the_tables_is_stored_or_printed():
    means, settings = set(), defaultdict(lambda: defaultdict(dict))
    confirmed = dict(results.same_code())
    for line in results.read():
        key = line["cell"], line["reading"], line["variant"], line.get("ties")
        shared = repr([line.get(name) for name in SHARED])
        for code in {line["code"], confirmed.get(line["code"], line["code"])}:
            settings[key][code][line["run"]] = line["value"]
            settings["of any reading"][shared + code][line["run"]] = line["value"]
    for by_code in settings.values():
        means |= {f"{np.mean(list(values.values())):.2f}" for values in by_code.values()}
    printed = {f"{cell.value:.{cell.decimals}f}" for cell in published()}
    found = re.findall(r"\| (\S+) \(([\d.]+)\)", report.PAGE.read_text("utf-8"))
    assert len(found) > 300
    assert {ours for ours, _ in found} - means == {"–"}
    assert {theirs for _, theirs in found} <= printed


def test_every_point_of_the_figure_is_on_the_page():
    page = report.PAGE.read_text("utf-8")
    points = re.findall(r": ([\d.]+), printed", report.FIGURE.read_text("utf-8"))
    assert points
    assert all(f"| {value} (" in page for value in points)


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


def test_the_page_says_why_a_protocol_is_unknown_and_what_is_stale():
    cell = next(cell for cell in published() if cell.id == "boostmetric/T1/Wine/BoostMetric")
    line = {"run": 0, "split": "", "value": 3.5, "n": [125, 53], "seconds": 1, "machine": "m"}
    line |= {"commit": "c", "versions": {"nearfar": "1"}}
    why = "Euclid is 5.00, printed 26.23"
    outcome = Outcome(cell, "B1", "paper", (line,), True, "protocol unknown", why)
    page = report.text({(cell.id, "B1", "paper"): outcome})
    assert f"| T1 | Wine | B1 | {why} |" in page
    assert "| 3.50 (2.64) · † |" in page
    assert "| boostmetric | own, as printed | 32 | 32 | 1 | 0 | 0 | 0 | 0 | 1 |" in page
    assert "1 runs of one thread" in page
