"""Parameters and defaults in docstrings are those of the signatures.

Sphinx checks the docstrings of public names with numpydoc when it builds the site (`docs/conf.py`):
every parameter is documented, and sections are complete and in order.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections import Counter
from importlib import import_module
from types import ModuleType

import numpy as np
import pytest

import nearfar
from nearfar.learners.selection.auto import known_learners

LEFT_OUT = {"nearfar.deploy.sentence_transformers"}
"""Modules that run a command, or need packages that are not always installed."""

_SECTION = re.compile(r"^(\w+(?: \w+)?)\n-{3,}$", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : (.*))?$", re.MULTILINE)


def entries(documented: object, section: str) -> list[tuple[str, str]]:
    """Return names and types of the entries in a section of a docstring."""
    parts = _SECTION.split(inspect.getdoc(documented) or "")
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    return [
        (name, entry[2] or "")
        for entry in _ENTRY.finditer(texts.get(section, ""))
        for name in entry[1].split(", ")
    ]


def definitions(module: ModuleType):
    """Yield the functions and classes that a module defines, and the methods of the latter."""
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) == module.__name__ and callable(value):
            yield name, value
            if inspect.isclass(value):
                for method_name, method in vars(value).items():
                    if inspect.isfunction(method):
                        yield f"{name}.{method_name}", method


def problems(documented: object, module: ModuleType) -> list[str]:
    """Return what a docstring says of parameters that the signature does not."""
    stated = entries(documented, "Parameters")
    if not stated:
        return []
    parameters = inspect.signature(documented).parameters
    found = []
    for name, kind in stated:
        parameter = parameters.get(name)
        text = kind.partition("default=")[2]
        if name.startswith("*"):
            continue
        if parameter is None:
            found.append(f"no parameter {name}")
        elif kind.endswith("optional") and parameter.default is parameter.empty:
            found.append(f"{name} is not optional")
        elif text and not states(text, parameter.default, module):
            found.append(f"the default of {name} is {parameter.default!r}, not {text}")
    return found


def states(text: str, default: object, module: ModuleType) -> bool:
    """Tell whether a text is the default, or what None stands for in the module."""
    names = {**vars(np), **vars(nearfar), **vars(module)}
    try:
        value = eval(text, names)
    except SyntaxError:
        return False
    except NameError:  # the text speaks of the data, as in RandomTriplets(10 * n_samples)
        return default is None and f"{text.partition('(')[0]}(" in inspect.getsource(module)
    if default is None and re.match(r"[A-Z]\w*\(", text):
        plain = f"{type(value).__name__}()"
        return repr(value) == repr(eval(plain, names)) and plain in inspect.getsource(module)
    both_bool = isinstance(value, bool) == isinstance(default, bool)
    return both_bool and (value == default or repr(value) == repr(default))


def test_parameters_and_defaults_are_true():
    names = {info.name for info in pkgutil.walk_packages(nearfar.__path__, "nearfar.")}
    found = [
        f"{module.__name__}.{path}: {problem}"
        for module in map(import_module, sorted(names - LEFT_OUT))
        for path, value in definitions(module)
        for problem in problems(value, module)
    ]
    assert found == []


def example(rate: float = 0.5, strategy: object = None, *, size: int = 3) -> None:
    """Example.

    Parameters
    ----------
    rate : float, default=0.7
    strategy : strategy, default=RandomPairs(7)
    size : int, optional
    speed : float
    """


def test_untrue_docstrings_are_found():
    assert problems(example, import_module(__name__)) == [
        "the default of rate is 0.5, not 0.7",
        "the default of strategy is None, not RandomPairs(7)",
        "no parameter speed",
    ]


@pytest.mark.parametrize("cls", known_learners().values(), ids=lambda cls: cls.__name__)
def test_docstrings_of_learners_are_complete(cls):
    stated = entries(cls, "Parameters")
    assert sorted(name for name, _ in stated) == sorted(cls().get_params())
    assert all(re.search(r", (optional$|default=)", kind) for _, kind in stated), stated
    attributes = Counter(name for name, _ in entries(cls, "Attributes"))
    assert {"metric_", "components_", "history_", "n_iter_", "scale_"} <= set(attributes)
    assert all(name.endswith("_") for name in attributes)
    assert max(attributes.values()) == 1
