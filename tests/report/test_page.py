"""What reports say, and that their files are complete and self-contained."""

from __future__ import annotations

import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine

from nearfar import BoostMetric, Metric, compare
from nearfar.neighbors import kneighbors
from nearfar.runtime.messages import Note
from nearfar.tables.report import render, write_report
from nearfar.tables.report_study import Study
from studies import KINDS, boost, wine_study

OTHER_KINDS = [kind for kind in KINDS if kind != "images"]


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.headings, self.words = [], [], [], []
        self.tag = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tag = tag
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "src", "xlink:href"):
                self.links.append(value)

    def handle_data(self, data):
        self.words.append(data)
        if self.tag == "h2" and data.strip():
            self.headings.append(data)


@pytest.mark.parametrize("kind", [*OTHER_KINDS, pytest.param("images", marks=pytest.mark.slow)])
def test_nothing_is_fetched_and_ids_are_unique(report_file, kind):
    text = report_file(kind).read_text()
    page = Page(text)
    assert len(set(page.ids)) == len(page.ids)
    for link in page.links:
        assert link.startswith(("#", "data:")), link
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_sections(report_file):
    headings = Page(report_file("table").read_text()).headings
    assert headings == [
        "Does learning help?",
        "Which classes are confused",
        "Rows on a map",
        "Neighbours before and after",
        "Which features matter",
        "The data",
        "Use the metric",
        "Appendix",
    ]
    assert "Which features matter" not in Page(report_file("kernel").read_text()).headings
    assert "Does learning help?" not in Page(report_file("plain").read_text()).headings


@pytest.mark.parametrize("kind", ["triplets", "pairs"])
def test_judgements_need_no_labels(report_file, kind):
    text = report_file(kind).read_text()
    page = Page(text)
    assert "Which classes are confused" not in page.headings
    words = " ".join(Page(re.sub(r"<(style|script)>.*?</\1>", "", text, flags=re.DOTALL)).words)
    assert "class" not in words
    assert f"held-out {kind}" in words
    assert ("ROC curve" in words) == (kind == "pairs")


def test_what_it_says(report_file):
    text = " ".join(Page(report_file("table").read_text()).words)
    assert "178 rows, 13 features, 3 classes." in text
    assert "For classification, " in text
    assert "flavanoids" in text
    assert "Metric.load('wine.safetensors')" in text
    assert report_file("table").read_text().count("<svg") == 9


def test_long_tables_are_folded(report_file):
    text = report_file("many").read_text()
    folded = " ".join(re.findall(r"<details>.*?</details>", text, re.DOTALL))
    for summary in (
        "Errors of all 40 classes",
        "Sizes of all 40 classes",
        "All methods as a table",
    ):
        assert f"<summary>{summary}</summary>" in folded
    assert 'class="matrix"' not in text
    assert "The largest confusions, with the number of rows (" in text
    few = report_file("table").read_text()
    assert "Errors of all" not in few
    assert few.count('class="matrix"') == 2


def test_shares_that_cancel_are_explained(report_file):
    assert "features mostly cancel each other" in report_file("many").read_text()
    assert "features mostly cancel each other" not in report_file("table").read_text()


def test_curves_are_in_the_appendix(report_file):
    text = report_file("table").read_text()
    before, appendix = text.split('<section id="appendix">')
    for caption in ("how often the k-th nearest neighbour", "The fit, iteration by iteration."):
        assert caption not in before
        assert caption in appendix


@pytest.mark.usefixtures("plain_figures")
def test_notes_are_at_the_top_with_warnings_first():
    notes = [Note("Took 3 columns."), Note("id leaks <the> label.", warning=True)]
    header = render(wine_study(findings=[*notes, *notes], relearn=None)).split("</header>")[0]
    shown = re.findall(r"<li( class=\"warning\")?>(.*?)</li>", header.split("<nav")[0])
    assert shown == [
        (' class="warning"', "id leaks &lt;the&gt; label."),
        ("", "Took 3 columns."),
    ]


@pytest.mark.usefixtures("plain_figures")
def test_findings_of_the_comparison_are_at_the_top():
    X, y = load_wine(return_X_y=True)
    comparison = compare(X, y, [BoostMetric(max_iter=3)], cv=5)
    comparison.sample = np.arange(100)
    (finding,) = comparison.findings
    page = render(wine_study(comparison=comparison, relearn=None))
    assert finding.text in page.split("</header>")[0]
    assert page.count(finding.text) == 1


@pytest.mark.usefixtures("plain_figures")
def test_title():
    page = render(wine_study(title="Three <growers>", relearn=None))
    assert "<title>Three &lt;growers&gt;</title>" in page
    assert "<h1>Three &lt;growers&gt;</h1>" in page


def test_appendix(report_file):
    text = report_file("many").read_text()
    appendix = text[text.index('<section id="appendix">') :]
    words = " ".join(Page(appendix).words)
    assert "nearfar report many.csv --label class" in words
    assert "colour: one column for each of 3 values" in words
    assert re.search(r"Python 3\.\d+\.\d+, nearfar", words)
    assert "gain, MAP@R" in words
    assert "penalty=1e-07," in report_file("table").read_text()


def test_foreign_text_stays_text(report_file):
    markup = report_file("texts").read_text()
    assert markup.count("<script") == 1
    assert "<b>" not in markup
    assert "&lt;script&gt;alert(1)" in markup


@pytest.mark.usefixtures("plain_figures")
def test_neighbours_are_those_of_the_metric_learned_without_the_query():
    subject = wine_study()
    train, test = subject.split
    assert len(np.intersect1d(train, test)) == 0
    rows = subject.most_changed(4, 5)
    assert set(rows) <= set(test)
    metric = boost(subject.X[train], subject.y[train]).metric_
    found = kneighbors(metric, subject.X[train], subject.X[rows[:1]], n_neighbors=5)[1][0]
    text = render(subject)
    column = text[text.index("<h4>BoostMetric</h4>") :]
    shown = [int(row) for row in re.findall(r"row (\d+) \[", column)[:5]]
    assert shown == train[found].tolist()


def test_names_are_no_mathematics(report_file):
    words = Page(report_file("texts").read_text()).words
    assert "$a_$" in words
    assert any(word.strip() == "_b" for word in words)
    assert "<&> $3$" in words


def test_what_is_held_out_is_said(report_file):
    assert "54 held-out rows." in report_file("table").read_text()
    taken = report_file("gated").read_text()
    assert "eld-out" not in taken
    assert "was not learned again for this report" in taken


def test_few_rows(tmp_path):
    X, y = np.arange(18.0).reshape(9, 2), np.arange(9) % 2
    small = Study("small", X, y, Metric.identity(2), "none")
    with pytest.raises(ValueError, match="at least 10 rows"):
        write_report(tmp_path / "report.html", small)
    X, y = np.arange(20.0).reshape(10, 2) ** 2, np.arange(10)
    write_report(tmp_path / "report.html", Study("small", X, y, Metric.identity(2), "none"))


@pytest.mark.usefixtures("plain_figures")
def test_constant_features_are_named():
    X, _ = load_wine(return_X_y=True)
    X[:, 3] = 0.1
    text = render(wine_study(comparison=None, metric=Metric.identity(13), relearn=None, X=X))
    assert "the same value in all rows: alcalinity_of_ash." in text
    assert "by a factor of up to 2,5" in text


@pytest.mark.usefixtures("plain_figures")
def test_a_failed_report_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(self, target):
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_report(path, wine_study(comparison=None, relearn=None, learner=None))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_what_is_missing_is_named(tmp_path, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"nearfar\[(report|plots)\]"):
        write_report(tmp_path / "report.html", wine_study(comparison=None))


@pytest.mark.usefixtures("plain_figures")
def test_code_in_notes_is_code():
    note = Note("see `nearfar show M --columns` & use --drop", warning=True)
    page = render(wine_study(findings=[note]))
    assert (
        'see <code>nearfar show M <span class="option">--columns</span></code> &amp; use '
        '<span class="option">--drop</span></li>'
    ) in page


@pytest.mark.usefixtures("plain_figures")
def test_copies_are_not_called_groups():
    study = wine_study(
        groups=np.arange(178) // 2, n_copies=89, relearn=lambda X, y, groups: boost(X, y)
    )
    page = render(study).split("<main>")[1]
    assert "copies of other rows, or nearly: 89." in page
    assert "A row and its copies are on one side." in page
    assert "group is" not in page


@pytest.mark.usefixtures("plain_figures")
def test_confusions_are_told_from_cross_validated_errors():
    page = render(wine_study())
    assert "Confusion matrix of BoostMetric, one more split: 124 rows to learn from and 54" in page
