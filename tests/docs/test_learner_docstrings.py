"""Docstrings of learners, partly generated, have every parameter once and with its default."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter

import pytest

import nearfar
from docs.package import numpydoc
from nearfar.learners.base import MetricLearner, known_learners
from nearfar.learners.declaration import learner

LEARNERS = known_learners()
SECTIONS = ["Parameters", "Attributes", "Notes", "References", "Examples"]


def docstring_problems(cls):
    """Return what is wrong with the docstring of a learner."""
    doc = inspect.getdoc(cls) or ""
    stated = list(numpydoc(doc, "Parameters"))
    parameters = inspect.signature(cls).parameters
    times = Counter(name for name, _ in stated)
    problems = [f"{name}: {times[name]} times" for name in parameters if times[name] != 1]
    problems += [f"{name}: no parameter" for name in times if name not in parameters]
    for name, kind in stated:
        default = parameters[name].default if name in parameters else inspect.Parameter.empty
        if name in parameters and not _states(kind, default):
            problems.append(f"{name}: {kind!r}, but the default is {default!r}")
    attributes = Counter(name for name, _ in numpydoc(doc, "Attributes"))
    problems += [f"{name}: {n} times" for name, n in attributes.items() if n > 1]
    titles = re.findall(r"^(\w+)\n-{3,}$", doc, re.MULTILINE)
    if titles != [title for title in SECTIONS if title in titles]:
        problems.append(f"sections: {', '.join(titles)}")
    return problems


def _states(kind, default):
    """Tell whether a type ends with the default; test_pages checks what None stands for."""
    text = kind.partition(", default=")[2]
    if default is None and (kind.endswith(", optional") or re.fullmatch(r"[A-Z]\w+\(.*\)", text)):
        return True
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return type(value) is type(default) and value == default


def test_every_public_learner_is_checked():
    public = [getattr(nearfar, name) for name in nearfar.__all__]
    classes = [item for item in public if inspect.isclass(item)]
    assert {c.__name__ for c in classes if issubclass(c, MetricLearner)} == set(LEARNERS)


@pytest.mark.parametrize("name", LEARNERS)
def test_docstring(name):
    assert docstring_problems(LEARNERS[name]) == []


@pytest.mark.parametrize("name", LEARNERS)
def test_attributes_are_those_of_a_fit(name):
    documented = {n for n, _ in numpydoc(inspect.getdoc(LEARNERS[name]), "Attributes")}
    assert {"metric_", "components_", "history_", "n_iter_", "scale_"} <= documented
    assert all(name.endswith("_") for name in documented)


DOC = """Toy.

    Parameters
    ----------
    rate : float, default=0.5
        Rate.

    Attributes
    ----------
    gap_ : float
        Gap.

    Examples
    --------
    >>> 1
    1
    """


def toy(doc):
    class Toy(MetricLearner):
        __doc__ = doc
        rate: float = 0.5

    Toy.__annotations__ = {"rate": "float"}
    return learner(Toy)


def test_a_true_docstring():
    made = toy(DOC)
    assert docstring_problems(made) == []
    assert 'scale : {"auto", "standard", "unit", "cosine"} or None, default="auto"' in made.__doc__


@pytest.mark.parametrize(
    ("true", "false", "problem"),
    [
        ("default=0.5", "default=0.7", "rate: 'float, default=0.7', but the default is 0.5"),
        ("float, default=0.5", "float", "rate: 'float', but the default is 0.5"),
        ("default=0.5", "optional", "rate: 'float, optional', but the default is 0.5"),
        ("    rate :", "    rates :", "rate: 0 times"),
        ("    rate :", "    rate : float\n    rate :", "rate: 2 times"),
        ("    rate :", "    speed : int\n    rate :", "speed: no parameter"),
        (
            "    rate :",
            '    scale : str, default="unit"\n    rate :',
            "scale: 'str, default=\"unit\"', but the default is 'auto'",
        ),
        ("    gap_ :", "    gap_ : int\n    gap_ :", "gap_: 2 times"),
        (
            "    Examples",
            "    Examples\n    --------\n    >>> 0\n    0\n\n    Notes",
            "sections: Parameters, Attributes, Examples, Notes",
        ),
    ],
)
def test_an_untrue_docstring(true, false, problem):
    assert problem in docstring_problems(toy(DOC.replace(true, false, 1)))
