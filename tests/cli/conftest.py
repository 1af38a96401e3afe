"""Commands with --json, and quick learners."""

from __future__ import annotations

import json

import pytest

from table_files import NAMES, fail, files, folder, iris, run

__all__ = ["NAMES", "fail", "files", "folder", "iris", "run"]
LABELS = ["--label", "species", "--drop", "name"]
QUICK = ["--method", "rca", "--write"]
NCA_ONLY = ["--set", "candidates=['NCA']"]
"""Makes autometric quick."""


@pytest.fixture
def document(run):
    """Run a command with --json, and return what it prints."""
    return lambda *arguments, **options: json.loads(run(*arguments, "--json", **options).stdout)
