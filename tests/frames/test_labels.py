"""Labels that are nearly the same."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from nearfar.frames.judgements import read_labels


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


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([0.5, 1.0], "f"),
        (["0.5", "1"], "f"),
        (list(range(31)), "f"),
        ([str(each) for each in range(31)], "f"),
        (list(range(30)), "i"),
        (list(range(31)) * 5, "i"),
        (["a"] + [str(each) for each in range(40)], "O"),
    ],
)
def test_columns_of_many_numbers_are_numbers(labels, kind):
    series = pl.Series("price", labels)
    assert read_labels(series, Path("t.csv"), numeric=None).dtype.kind == kind
    if "." not in str(labels[0]):
        assert read_labels(series, Path("t.csv"), numeric=False).dtype.kind != "f"
