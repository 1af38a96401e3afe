"""The lowest versions that pyproject.toml declares are those that `.ci/versions` tests."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import nearfar

ROOT = Path(__file__).parents[2]
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = CONFIGURATION["project"]
EXTRAS = PROJECT["optional-dependencies"]
UNTESTED = {"sentence-transformers"}
"""Needs torch, which is tested in one version."""

TOOLS = {"dev", "ci", "docs"}
"""Extras for those who work on nearfar, and not for its users."""

REQUIREMENT = re.compile(r"([\w-]+)(?:\[[\w,-]+\])?(?:>=([\d.]+))?")


def floors() -> dict[str, str | None]:
    """Return the declared floors of what users and tests install, by package."""
    found = {}
    for extra, requirements in {"": PROJECT["dependencies"], **EXTRAS}.items():
        if extra in TOOLS:
            continue
        for requirement in requirements:
            name, floor = REQUIREMENT.fullmatch(requirement).groups()
            if name not in {"nearfar", *UNTESTED}:
                found[name] = floor
    return found


def version(text: str) -> tuple[int, ...]:
    numbers = [int(number) for number in text.split(".")]
    while numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def test_tested_versions_are_the_declared_floors():
    lines = (ROOT / ".ci/oldest.txt").read_text().split()
    tested = dict(line.split("==") for line in lines)
    declared = floors()
    assert [name for name, floor in declared.items() if floor is None] == []
    assert {name: version(text) for name, text in tested.items()} == {
        name: version(floor) for name, floor in declared.items()
    }


def test_the_oldest_python_is_a_declared_one():
    classifiers = [c for c in PROJECT["classifiers"] if re.fullmatch(r".*:: 3\.\d+", c)]
    assert PROJECT["requires-python"] == ">=3.11"
    assert [c.rsplit(" ", 1)[1] for c in classifiers] == ["3.11", "3.12", "3.13", "3.14"]


def test_copies_without_a_tag_have_one_version():
    source = (ROOT / "src/nearfar/__init__.py").read_text()
    (version,) = re.findall(r'^    __version__ = "(.*)"$', source, re.MULTILINE)
    assert CONFIGURATION["tool"]["hatch"]["version"]["fallback-version"] == version
    newest = re.search(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert version in (citation()["version"], f"{newest}.dev0")
    assert re.match(r"\d+\.\d+\.\d+", nearfar.__version__)


def citation() -> dict[str, str]:
    text = (ROOT / "CITATION.cff").read_text()
    return dict(re.findall(r"^([\w-]+): (\S+)$", text, re.MULTILINE))


def test_the_citation_has_the_licence():
    found = citation()
    assert found["license"] == PROJECT["license"]
    assert found["cff-version"] == "1.2.0"
