from __future__ import annotations

import pytest

from nearfar.runtime.progress import parse_seconds


@pytest.mark.parametrize(
    ("text", "length"), [("60s", 60), ("1.5m", 90), ("2h", 7200), ("7", 7), (None, None)]
)
def test_lengths_of_time(text, length):
    assert parse_seconds(text) == length


@pytest.mark.parametrize("text", ["", "s", "-1s", "nan", "inf", "5 apples"])
def test_what_is_not_a_length_of_time(text):
    with pytest.raises(ValueError, match="not a length of time"):
        parse_seconds(text)
