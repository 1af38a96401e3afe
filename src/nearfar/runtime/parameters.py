"""Checks of parameters, declared as data.

    rules = {"tol": number(at_least=0.0), "max_iter": integer(at_least=1)}
    check_parameters(rules, {"tol": 1e-6, "max_iter": 0})   ->   ValueError

scikit-learn's public `check_scalar` accepts NaN and raises two kinds of errors; these rules refuse
NaN and always raise ValueError.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ParameterRule:
    """What a parameter may be.

    Attributes
    ----------
    expected: The allowed values, in words.
    accepts: Value -> whether it is allowed.
    """

    expected: str
    accepts: Callable[[object], bool]


def check_parameters(rules: Mapping[str, ParameterRule], values: Mapping[str, object]) -> None:
    """Raise ValueError for the first value that breaks its rule."""
    for name, rule in rules.items():
        if not rule.accepts(values[name]):
            value = values[name]
            text = repr(value)
            if isinstance(value, np.ndarray) and value.ndim > 1:
                text = f"an array of shape {value.shape}"
            raise ValueError(f"{name} must be {rule.expected}; got {text}.")


def number(
    *,
    at_least: float = -math.inf,
    above: float = -math.inf,
    at_most: float = math.inf,
    below: float = math.inf,
) -> ParameterRule:
    """Accept finite numbers within bounds."""
    bounds = [f">= {at_least:g}"] if at_least > -math.inf else []
    bounds += [f"> {above:g}"] if above > -math.inf else []
    bounds += [f"<= {at_most:g}"] if at_most < math.inf else []
    bounds += [f"< {below:g}"] if below < math.inf else []

    def accepts(value: object) -> bool:
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            return False
        size = float(value)
        return math.isfinite(size) and above < size < below and at_least <= size <= at_most

    return ParameterRule(f"a number {' and '.join(bounds)}".strip(), accepts)


def integer(*, at_least: float = -math.inf, nonzero: bool = False) -> ParameterRule:
    """Accept integers, from a smallest one on, or any but zero."""

    def accepts(value: object) -> bool:
        if not isinstance(value, numbers.Integral) or isinstance(value, bool):
            return False
        return int(value) >= at_least and not (nonzero and value == 0)

    if nonzero:
        return ParameterRule("a nonzero integer", accepts)
    expected = "an integer" if at_least == -math.inf else f"an integer >= {at_least}"
    return ParameterRule(expected, accepts)


def boolean() -> ParameterRule:
    """Accept True and False."""
    return ParameterRule("True or False", lambda value: isinstance(value, bool | np.bool_))


def choice(*allowed: str) -> ParameterRule:
    """Accept one of several words."""
    words = [f'"{word}"' for word in allowed]
    expected = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    return ParameterRule(expected, lambda value: isinstance(value, str) and value in allowed)


def instance(kind: type, expected: str) -> ParameterRule:
    """Accept objects of a class."""
    return ParameterRule(expected, lambda value: isinstance(value, kind))


def either(*rules: ParameterRule) -> ParameterRule:
    """Accept what one of several rules accepts."""
    expected = " or ".join(rule.expected for rule in rules)
    return ParameterRule(expected, lambda value: any(rule.accepts(value) for rule in rules))


def optional(rule: ParameterRule) -> ParameterRule:
    """Accept None as well."""
    return ParameterRule(
        f"None or {rule.expected}", lambda value: value is None or rule.accepts(value)
    )
