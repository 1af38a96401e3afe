from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfar import Metric
from nearfar.runtime.parameters import (
    boolean,
    check_parameters,
    choice,
    either,
    instance,
    integer,
    number,
    optional,
)

NOT_NUMBERS = [None, "1", True, False, np.True_, math.nan, np.float64("nan"), math.inf, -math.inf]
NOT_NUMBERS += [1j, np.array(1.0), np.array([1.0]), [1.0], Metric]
RULES = {
    "a number": (number(), [0, -1, 1.5, np.float32(2), np.int64(-3)], NOT_NUMBERS),
    "a number >= 0": (
        number(at_least=0.0),
        [0, 0.0, 1e300, np.float64(0)],
        [-1e-300, *NOT_NUMBERS],
    ),
    "a number > 0 and < 1": (number(above=0.0, below=1.0), [0.5], [0, 1, 0.0, 1.0, *NOT_NUMBERS]),
    "a number > 0 and <= 1": (number(above=0.0, at_most=1.0), [1, 0.1], [0, 1.1, *NOT_NUMBERS]),
    "an integer": (integer(), [0, -5, np.int32(3)], [0.0, 1.5, *NOT_NUMBERS]),
    "an integer >= 1": (integer(at_least=1), [1, 10**30, np.uint8(1)], [0, 1.0, *NOT_NUMBERS]),
    "True or False": (boolean(), [True, False, np.True_], [0, 1, None, "True", math.nan]),
    '"a"': (choice("a"), ["a", np.str_("a")], ["b", "", None, 1, ["a"], np.array("a")]),
    '"a", "b" or "c"': (choice("a", "b", "c"), ["a", "b", "c"], ["ab", None, ("a", "b")]),
    "a Metric": (
        instance(Metric, "a Metric"),
        [Metric.identity(2)],
        [Metric, None, "identity", np.eye(2)],
    ),
    '"auto" or an integer >= 1': (
        either(choice("auto"), integer(at_least=1)),
        ["auto", 1, np.int64(4)],
        ["4", 0, None, 1.0, True, math.nan],
    ),
    "None or an integer >= 2": (
        optional(integer(at_least=2)),
        [None, 2, np.int64(2)],
        [1, 2.0, "None", True, math.nan],
    ),
}


@pytest.mark.parametrize("expected", RULES)
def test_rules(expected):
    rule, accepted, refused = RULES[expected]
    assert rule.expected == expected
    for value in accepted:
        assert rule.accepts(value), value
        check_parameters({"name": rule}, {"name": value})
    for value in refused:
        assert not rule.accepts(value), value


@pytest.mark.parametrize("expected", RULES)
@settings(max_examples=10)
@given(name=st.text(min_size=1))
def test_messages_name_the_parameter_and_the_value(expected, name):
    rule, accepted, refused = RULES[expected]
    for value in refused:
        with pytest.raises(ValueError, match="must be") as error:
            check_parameters({"fine": rule, name: rule}, {"fine": accepted[0], name: value})
        got = "an array of shape (2, 2)" if np.ndim(value) == 2 else repr(value)
        assert str(error.value) == f"{name} must be {expected}; got {got}."


def test_the_first_bad_value_is_reported():
    rules = {"a": number(), "b": number(), "c": number()}
    with pytest.raises(ValueError, match="b must be"):
        check_parameters(rules, {"a": 1, "b": "x", "c": "y", "without a rule": None})
