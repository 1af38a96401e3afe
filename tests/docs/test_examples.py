"""The gallery: every example is short and has a picture. The site, when it is built, runs them."""

from __future__ import annotations

import ast
import re

import pytest

from docs.pages import ROOT

EXAMPLES = sorted(ROOT.glob("examples/*/plot_*.py"))
every_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


def test_there_are_enough():
    assert len(EXAMPLES) >= 20


@every_example
def test_it_is_short_and_explained(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 60
    title, line, *more = ast.get_docstring(ast.parse(text)).splitlines()
    assert line == "=" * len(title)
    assert any(more)
    assert "NEARFAR_DATA" not in text
    assert re.search(r"\bplots?\.|\bplt\.|\.plot\(", text)
