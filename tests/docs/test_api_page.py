"""The API reference has every public name once, and each name has an example."""

from __future__ import annotations

import re
from importlib import import_module
from types import ModuleType

import nearfar
from docs.pages import ROOT

PAGE = (ROOT / "docs/api/index.rst").read_text()
MODULES = ["nearfar"] + [
    f"nearfar.{name}" for name in ("ask", "columns", "losses", "measures", "plots", "search")
]
WITHOUT_EXAMPLE = {
    "Table": "that of read_table",
    "TableError": "an error",
}


def listed():
    """Return the names on the page, with the module that each is listed under."""
    found, module = [], ""
    for line in PAGE.splitlines():
        if match := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        elif match := re.fullmatch(r"   (\w+)", line):
            found.append((module, match[1]))
    return found


def test_every_public_name_is_listed_once():
    known = listed()
    assert len(known) == len(set(known))
    names = {name for _, name in known}
    for module in MODULES:
        package = import_module(module)
        for name in package.__all__:
            if not name.startswith("__") and not isinstance(getattr(package, name), ModuleType):
                assert name in names, f"{module}.{name}"


def test_every_name_has_an_example():
    docs = {name: getattr(import_module(module), name).__doc__ for module, name in listed()}
    assert {name for name, doc in docs.items() if ">>>" not in doc} == set(WITHOUT_EXAMPLE)


def test_modules_are_on_the_page():
    for name in nearfar.__all__:
        if isinstance(getattr(nearfar, name), ModuleType):
            assert f".. currentmodule:: nearfar.{name}\n" in PAGE
