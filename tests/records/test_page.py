"""The report on matched records."""

from __future__ import annotations

import html
import re

import polars as pl
import pytest

from nearfar import match
from nearfar.records.page import _marked
from tests.records.people import known_matches, persons


@pytest.mark.parametrize(
    ("a", "b"), [("Ann <b>", "Anne & <b>"), ("", "x"), (None, None), ("same", "same")]
)
def test_marks_hide_nothing(a, b):
    for text, marked in zip((a, b), _marked(a, b), strict=True):
        assert html.unescape(re.sub("</?mark>", "", marked)) == (text or "")
    assert (a == b) == ("<mark>" not in "".join(_marked(a, b)))


def test_a_page_with_rates_fields_and_pairs(tmp_path):
    left, right = persons(90)
    right = right.with_columns(pl.col("surname") + "<script>")
    matched = match(left, right, known_matches(50))
    matched.report(tmp_path / "page.html", "people")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "&lt;script&gt;" in page
    assert page.count("<script>") == 1
    for name in ("precision", "recall", "known matches among candidates", *left.columns[1:]):
        assert name in page
    assert page.count("<caption>") == 8
    assert page.count(" matches among ") >= 1
