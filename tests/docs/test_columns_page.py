"""docs/reference/columns.md: forms are read as it says."""

from __future__ import annotations

import re

import numpy as np
import pytest

from docs.pages import ROOT, Page
from nearfar.columns.cells import GAP_WORDS
from nearfar.columns.numbers import survey

PAGE = Page.read(ROOT / "docs/reference/columns.md")
FORMS = re.findall(r"^\| (``.*``.*) \| (-?[\d.]+.*) \|$", PAGE.text, re.MULTILINE)


@pytest.mark.parametrize(("written", "read"), FORMS)
def test_numbers_are_read_as_the_page_says(written, read):
    cells = re.findall(r"``([^`]+)``", written)
    expected = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", read)]
    together = len(cells) > 1 and "beside" in written
    columns = [cells] if together else [[cell] for cell in cells]
    found = [v for part in columns for v in _numbers(part)]
    np.testing.assert_allclose(
        found, expected * (len(found) if len(expected) == 1 else 1), rtol=3e-3
    )


def _numbers(cells):
    values = np.array(cells, dtype=object)
    return survey(values).notation.read(values).tolist()


def test_every_form_is_tested():
    assert len(FORMS) == PAGE.text.count("\n| ``") - 1


def test_missing_words():
    (row,) = re.findall(r"^\| (.*) \| missing \|$", PAGE.text, re.MULTILINE)
    assert {word.lower() for word in re.findall(r"``([^`]+)``", row)} <= GAP_WORDS
