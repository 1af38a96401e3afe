"""Labels that are nearly the same."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from nearfar.tables.labels import read_labels


def classes(labels):
    return read_labels(pl.Series("status", labels), Path("t.csv"), numeric=False).tolist()


def test_spaces_do_not_matter(notes):
    assert classes(["a b", " a  b", "c "]) == ["a b", "a b", "c"]
    assert classes([" 1", "2 "]) == [1, 2]
    assert notes == []


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["good", "GOOD", "bad"], "differ in capitals alone: 'GOOD', 'good'. They count"),
        (["good", "Good ", "bad", "BAD", "Bad", "GOOD"], " and 1 more. They count"),
    ],
)
def test_capitals_are_noted(labels, said, notes):
    assert len(set(classes(labels))) == len({label.strip() for label in labels})
    assert said in notes[0].text


def test_single_letters_are_meant(notes):
    assert classes(["a", "A", "b"]) == ["a", "A", "b"]
    assert notes == []
