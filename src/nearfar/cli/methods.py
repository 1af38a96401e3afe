"""Learners by the names that the command line knows."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from nearfar.cli.source import SourceError
from nearfar.comparison import Method, default_methods, learners
from nearfar.learners.base import MetricLearner

AUTO = "auto"
METHODS = {name.lower(): kind for name, kind in learners().items()}
PLAIN = {
    c.name.lower().replace(" ", "-"): c for c in default_methods([]) if c.kind == "plain" and c.maps
}
"""Plain methods that end in a map, and so in a metric."""


def find_method(name: str) -> type[MetricLearner]:
    """Find a learner by its name or the beginning of it.

    Examples
    --------
    >>> from nearfar.cli.methods import find_method
    >>> find_method("boost").__name__
    'BoostMetric'
    """
    fitting = [key for key in METHODS if key.startswith(name.lower())]
    if name.lower() in METHODS:
        return METHODS[name.lower()]
    if len(fitting) != 1:
        known = ", ".join([*METHODS, *PLAIN, AUTO])
        raise SourceError(f"There is no method {name!r}; there is {known}.")
    return METHODS[fitting[0]]


def make_learner(
    name: str, *, rounds: int | None, settings: Sequence[str], seed: int
) -> MetricLearner | Method | None:
    """Make a learner with at most so many rounds, and parameters given as NAME=VALUE.

    A plain method is returned as the contender that it is, and ``auto`` as None; they have nothing
    to set.
    """
    if name.lower() in [*PLAIN, AUTO]:
        if rounds is not None or settings:
            raise SourceError(f"--rounds and --set are for learners, not for {name}.")
        return PLAIN.get(name.lower())
    learner = find_method(name)(random_state=seed)
    parameters = learner.get_params()
    if rounds is not None:
        learner.set_params(max_iter=rounds)
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or key not in parameters:
            wrong = f"there is no parameter {key!r}" if equals else "write NAME=VALUE"
            raise SourceError(
                f"--set {setting}: {wrong}; {type(learner).__name__} has "
                f"{', '.join(sorted(parameters))}."
            )
        learner.set_params(**{key: _value(value)})
    return learner


def _value(text: str) -> Any:
    """Read a Python literal, or text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
