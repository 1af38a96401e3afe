"""The conda recipe requires what pyproject.toml requires."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = CONFIGURATION["project"]
EXTRAS = PROJECT["optional-dependencies"]
RECIPE = yaml.safe_load((ROOT / "conda/recipe.yaml").read_text())
REQUIRED = RECIPE["requirements"]
TOOLS = {"all", "test", "dev", "ci", "docs"}
CONDA_NAMES = {"matplotlib": "matplotlib-base", "dask": "dask-core"}
"""The parts that are needed of packages that conda splits."""


def as_conda(requirements: list[str]) -> list[str]:
    """Return requirements on other packages in the words of conda."""
    found = [re.fullmatch(r"([\w-]+)(?:\[.*\])?(.*)", each).groups() for each in requirements]
    return [f"{CONDA_NAMES.get(name, name)} {floor}" for name, floor in found if name != "nearfar"]


def test_the_command_works_without_more():
    python = f"python {PROJECT['requires-python'].replace('3.11', '${{ python_min }}')}"
    assert RECIPE["context"]["python_min"] == PROJECT["requires-python"].removeprefix(">=")
    assert REQUIRED["run"] == [python, *as_conda(PROJECT["dependencies"] + EXTRAS["cli"])]


def test_other_extras_have_their_floors():
    others = [extra for extra in EXTRAS if extra not in {*TOOLS, "cli"}]
    assert REQUIRED["run_constraints"] == as_conda([e for name in others for e in EXTRAS[name]])


def test_it_is_built_as_the_wheel_is():
    build = as_conda(CONFIGURATION["build-system"]["requires"])
    assert REQUIRED["host"] == ["python ${{ python_min }}.*", "pip", *build]
    (command,) = RECIPE["build"]["python"]["entry_points"]
    assert command == f"nearfar = {PROJECT['scripts']['nearfar']}"
    fallback = CONFIGURATION["tool"]["hatch"]["version"]["fallback-version"]
    assert f'default="{fallback}"' in RECIPE["context"]["version"]
    assert RECIPE["about"]["license"] == PROJECT["license"]
    assert RECIPE["about"]["summary"] == PROJECT["description"]
