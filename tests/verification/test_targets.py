from __future__ import annotations

import pytest

from nearfar.verification import Bound, parse_target


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("precision>=0.99", Bound("precision", 0.99)),
        (" fmr <= 1e-3 ", Bound("fmr", 1e-3)),
        ("recall>=0.9", Bound("recall", 0.9)),
    ],
)
def test_what_targets_mean(text, expected):
    found = parse_target(text)
    assert found == expected
    assert parse_target(found) == parse_target(str(found)) == expected


def test_the_allowed_error():
    assert Bound("fmr", 0.01).error == 0.01
    assert Bound("precision", 0.75).error == 0.25


@pytest.mark.parametrize(
    "target",
    ["precision<=0.9", "fmr>=0.1", "fmr<=0", "recall>=1", "fmr<=x", "f1>=0.9", 0.99, "", []],
)
def test_what_is_no_target(target):
    with pytest.raises(ValueError, match="target must be"):
        parse_target(target)


@pytest.mark.parametrize(
    ("target", "meant"),
    [
        ("fpr<=0.05", "fmr<=0.05"),
        ("fmr<0.05", "fmr<=0.05"),
        ("FMR <= 5%", "fmr<=0.05"),
        ("tpr>=0.9", "recall>=0.9"),
        ("precision=0.99", "precision>=0.99"),
    ],
)
def test_what_is_nearly_a_target(target, meant):
    with pytest.raises(ValueError, match=f'Did you mean "{meant}"'):
        parse_target(target)
