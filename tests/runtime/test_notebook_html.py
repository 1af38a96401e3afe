"""What a notebook shows of results."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline

from nearfar import AutoMetric, Metric, compare
from nearfar.learners.selection.expectation import Expected
from nearfar.runtime.messages import bars, fragment


class Balanced(HTMLParser):
    """Fails on tags that are not closed in order."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check(markup):
    parser = Balanced()
    parser.feed(markup)
    assert parser.open == []
    assert not re.search(r'(?:src|href)="', markup)


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def auto(wine):
    return AutoMetric(candidates=["RCA", "NCA"]).fit(*wine)


def test_metric_names_are_escaped_and_the_most_important_comes_first():
    markup = Metric([[1.0, 0.0], [0.0, 3.0]], ["a", "<script>"])._repr_html_()
    check(markup)
    assert "<script>" not in markup
    assert markup.index("&lt;script&gt;") < markup.index(">a<")
    assert "90.0%" in markup
    assert "10.0%" in markup


def test_auto_metric_shows_its_blend(auto):
    assert AutoMetric()._fit_html() == ""
    assert "AutoMetric" in AutoMetric()._repr_html_()
    markup = auto._fit_html()
    check(markup)
    assert auto._repr_html_().endswith(markup)
    for name, share in auto.weights_.items():
        assert (f">{name}</td>" in markup) == (share > 0.0005)
    assert str(auto.expected_) in markup
    assert auto._repr_mimebundle_()["text/html"].endswith(markup)
    assert "AutoMetric" in make_pipeline(auto)._repr_mimebundle_()["text/html"]


def test_expected_writes_its_measure():
    markup = Expected("MAP@R", 0.5, 0.4, 0.6, 0.25, 10)._repr_html_()
    check(markup)
    assert "0.250" in markup
    assert "width:50.0%" in markup


def test_comparison_has_bars_and_the_table(wine):
    found = compare(*wine, ["RCA"], cv=3, classifiers=False)
    markup = found._repr_html_()
    check(markup)
    assert markup.endswith(found.to_html(verdict=False))
    assert f"{found['RCA'].losses['error'].mean():.1%}" in markup


def test_many_bars_are_cut():
    markup = bars({f"f{k}": 1.0 for k in range(20)})
    assert markup.count("<tr") == 12
    assert "and 8 more" in markup
    check(fragment("a", ["b & c"], markup))
