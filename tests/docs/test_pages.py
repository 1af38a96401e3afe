"""What the documentation names exists: files, names, parameters, options, and defaults."""

from __future__ import annotations

import re

import pytest

from docs.defaults import wrong_defaults, wrong_docstrings
from docs.files import missing_paths
from docs.names import broken_blocks, unknown_names
from docs.options import unknown_options, wrong_option_defaults
from docs.pages import PATHS, ROOT, Page

PAGES = [Page.read(path) for path in PATHS]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@every_page
def test_files_and_headings(page):
    assert list(missing_paths(page)) == []


@every_page
def test_names(page, package):
    assert list(unknown_names(page, package)) == []


@every_page
def test_blocks_of_python(page, package):
    assert list(broken_blocks(page, package)) == []


@every_page
def test_options(page, known_commands):
    assert list(unknown_options(page, known_commands)) == []
    assert list(wrong_option_defaults(page, known_commands)) == []


@every_page
def test_defaults(page, package):
    assert list(wrong_defaults(page, package)) == []


def test_docstrings(package):
    assert list(wrong_docstrings(package)) == []


def test_default_learners_of_compare(package):
    methods = package.modules["nearfar.comparison.compared_methods"].names
    usual = re.findall(r"\w+", methods["DEFAULT_LEARNERS"])
    judged = re.findall(r"'(\w+)'", methods["DEFAULT_JUDGEMENT_LEARNERS"])
    assert usual
    assert judged
    page = (ROOT / "docs/reference/comparison.md").read_text()
    doc = package.find("comparison.runner.compare").doc
    for text, first, second in (
        (page, r"^\| learners \|(.*?), with", r"^\| learners \|.*pairs also (.*?);"),
        (page, r"^\| learners \|(.*?), with", r"learners above that learn from these, and (.*?)\."),
        (doc, r"By default (AutoMetric.*?), and for", r"for triplets and\s+pairs also (.*?):"),
    ):
        for pattern, expected in ((first, usual), (second, judged)):
            flags = re.MULTILINE if pattern.startswith("^") else re.DOTALL
            words = re.findall(r"\w+", re.search(pattern, text, flags)[1])
            assert sorted(w for w in words if w in package.classes) == sorted(expected)
