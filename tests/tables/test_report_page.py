"""What reports say, and that their files are complete and self-contained."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

from nearfar import BoostMetric, Metric, learn
from nearfar.metrics.training_facts import save_learned
from nearfar.neighbors import kneighbors
from nearfar.runtime.messages import Note
from nearfar.tables.report import headline, render, write_report
from studies import KINDS, judgements_study, study_of, wine_study, wines

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
    assert "BoostMetric" in text
    assert "flavanoids" in text
    assert "Metric.load('wine.safetensors')" in text
    assert report_file("table").read_text().count("<svg") >= 7


def test_long_tables_are_folded(report_file):
    text = report_file("many").read_text()
    folded = " ".join(re.findall(r"<details>.*?</details>", text, re.DOTALL))
    for summary in (
        "Errors of all 40 classes",
        "Sizes of all 40 classes",
        "The same as a table",
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
    header = render(replace(wine_study(), findings=(*notes, *notes))).split("</header>")[0]
    shown = re.findall(r"<li( class=\"warning\")?>(.*?)</li>", header.split("<nav")[0])
    assert shown == [
        (' class="warning"', "id leaks &lt;the&gt; label."),
        ("", "Took 3 columns."),
    ]


@pytest.mark.usefixtures("plain_figures")
def test_title():
    page = render(replace(wine_study(), title="Three <growers>"))
    assert "<title>Three &lt;growers&gt;</title>" in page
    assert "<h1>Three &lt;growers&gt;</h1>" in page


def test_appendix(report_file):
    text = report_file("many").read_text()
    appendix = text[text.index('<section id="appendix">') :]
    words = " ".join(Page(appendix).words)
    assert "nearfar report many.csv --label class" in words
    assert re.search(r"Python 3\.\d+\.\d+, nearfar", words)
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
    metric = subject.metrics["BoostMetric"]
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
    assert "Measured on 178 held-out rows." in report_file("table").read_text()
    taken = report_file("gated").read_text()
    assert "was not learned again for this report" in taken


def test_few_rows(tmp_path):
    small = study_of(wines().take(np.arange(55, 64)), Metric.identity(13))
    with pytest.raises(ValueError, match="at least 10 rows"):
        write_report(tmp_path / "report.html", small)


@pytest.mark.usefixtures("plain_figures")
def test_constant_features_are_named():
    table = wines()
    X = table.X.copy()
    X[:, 3] = 0.1
    text = render(study_of(replace(table, X=X), Metric.identity(13)))
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
        write_report(path, wine_study())
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_what_is_missing_is_named(tmp_path, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"nearfar\[(report|plots)\]"):
        write_report(tmp_path / "report.html", wine_study())


@pytest.mark.usefixtures("plain_figures")
def test_code_in_notes_is_code():
    note = Note("see `nearfar show M --columns` & use --drop", warning=True)
    page = render(replace(wine_study(), findings=(note,)))
    assert (
        'see <code>nearfar show M <span class="option">--columns</span></code> &amp; use '
        '<span class="option">--drop</span></li>'
    ) in page


@pytest.mark.usefixtures("plain_figures")
def test_copies_are_not_called_groups():
    table = wines(groups=np.arange(178) // 2, n_copies=89)
    page = render(study_of(table, BoostMetric(max_iter=3))).split("<main>")[1]
    assert "copies of other rows, or nearly: 89." in page
    assert "A row and its copies are on one side." in page
    assert "group is" not in page


@pytest.mark.usefixtures("plain_figures")
def test_figures_are_those_of_what_was_learned(tmp_path):
    found = learn("iris", method="lda")
    found.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    for line in found.held_out.lines[1]:
        assert all(cell in page for cell in line[1:])
    study = wine_study()
    first, second = (headline(study, goal) for goal in study.goals)
    assert first.after == f"{100 * study.held_out.results[0].error:.1f} %"
    assert second.measure == "MAP@R"


@pytest.mark.usefixtures("plain_figures")
def test_numbers(tmp_path):
    X, y = make_friedman1(150, n_features=5, noise=0.5, random_state=0)
    found = learn(X, label=y, method="mlkr")
    found.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    for text in ("R² of numbers that neighbours predict", "MAE", "gradient boosting", "Neighbours"):
        assert text in page
    for text in ("confus", "classified", "1 class"):
        assert text not in page
    assert f"Numbers from {y.min():g} to {y.max():g}" in page


@pytest.mark.parametrize("kind", ["triplets", "pairs"])
def test_headlines_of_judgements(kind):
    study = judgements_study(kind)
    (one,) = (headline(study, goal) for goal in study.goals)
    assert one.basis == f"Measured on {study.held_out.n} held-out {kind}."
    assert one.badge == study.goals[0].category(study.held_out.results[0]).text(kind)


def test_a_metric_that_was_learned_from_these_rows(tmp_path):
    study = study_of(wines(), Metric(np.eye(13)[:1]), metric_file=str(tmp_path / "m"))
    save_learned(study.metric, tmp_path / "m", study.table.X)
    one = headline(study, study.goals[0])
    assert one.basis.endswith("the metric was learned from 100% of all rows.")
    assert "Keep" in one.sentence
