"""The workflows of the repository run what `.ci/run` runs, on the declared versions of Python."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = [c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
RUN = (ROOT / ".ci/run").read_text()
README = (ROOT / "README.md").read_text()
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text())
    for path in sorted(ROOT.glob(".github/workflows/*.yml"))
}
JOBS = {
    f"{name}.{job}": content
    for name, workflow in WORKFLOWS.items()
    for job, content in workflow["jobs"].items()
}
every_job = pytest.mark.parametrize("job", JOBS)


def commands(job: str) -> list[str]:
    return [step["run"] for step in JOBS[job]["steps"] if "run" in step]


def run_by_ci() -> list[str]:
    """Return the commands of `.ci/run` as they are in an environment that is active."""
    lines = [re.sub(r"^\$(site_)?bin/", "", line.strip()) for line in RUN.splitlines()]
    return [line.removesuffix(" &") for line in lines]


@every_job
def test_commands_are_those_of_ci(job):
    for command in commands(job):
        program, *arguments = command.split()
        if command.startswith("pip install -q -e "):
            extras = re.search(r"\[(.*)\]", command)[1].split(",")
            assert set(extras) <= set(PROJECT["optional-dependencies"])
        elif program.startswith(".ci/"):
            assert os.access(ROOT / program, os.X_OK), command
            assert all(word in (ROOT / program).read_text() for word in arguments)
        elif program == "pytest":
            assert f".venv/bin/{command}\n" in README
        elif job.startswith("release.") or command == "pip install -q uv":
            continue
        else:
            assert command in run_by_ci(), command


def test_nothing_of_the_checks_is_left_out():
    lint = [line for line in RUN.splitlines() if re.match(r"\$bin/(ruff|mypy|lint-imports)", line)]
    assert [line.removeprefix("$bin/") for line in lint] == commands("checks.lint")[1:]
    pieces = {command for job in JOBS for command in commands(job) if command.startswith(".ci/")}
    assert {".ci/run", ".ci/long", ".ci/package", ".ci/versions oldest"} == pieces
    for piece in (".ci/package", ".ci/versions oldest"):
        assert re.search(rf"^{re.escape(piece)}\b", RUN, re.MULTILINE)
    assert any("sphinx" in command for command in commands("checks.docs"))


def test_the_versions_are_the_declared_ones():
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    matrix = JOBS["checks.tests"]["strategy"]["matrix"]
    assert matrix["python"] == [PYTHONS[0], PYTHONS[-1]]
    assert {system.split("-")[0] for system in matrix["os"]} == {"ubuntu", "macos", "windows"}
    assert [each["python"] for each in matrix["include"]] == PYTHONS[1:-1]


@every_job
def test_other_jobs_run_on_the_oldest_python(job):
    if job == "checks.tests":
        return
    steps = JOBS[job]["steps"]
    chosen = {
        step["with"]["python-version"] for step in steps if "setup-python" in step.get("uses", "")
    }
    image = JOBS[job].get("container", f"python:{PYTHONS[0]}-")
    assert chosen | {image.split(":")[1].split("-")[0]} == {PYTHONS[0]}


@every_job
def test_only_the_upload_may_more_than_read(job):
    assert all(workflow["permissions"] == {"contents": "read"} for workflow in WORKFLOWS.values())
    if job == "release.publish":
        assert JOBS[job]["permissions"] == {"id-token": "write"}
        assert JOBS[job]["environment"] == "release"
        assert JOBS[job]["needs"] == "build"
        assert commands(job)[-1] == "uv publish --trusted-publishing always dist/*"
        assert "uv publish dist/*" in (ROOT / ".ci/release").read_text()
    else:
        assert "permissions" not in JOBS[job]
    assert 0 < JOBS[job]["timeout-minutes"] <= 360
