"""Commands in a folder of files."""

from __future__ import annotations

import json

import pytest

from table_files import fail, files, folder, iris, run

__all__ = ["fail", "files", "folder", "iris", "run"]


@pytest.fixture
def document(run):
    """Run a command with --json, and return what it prints."""
    return lambda *arguments, **options: json.loads(run(*arguments, "--json", **options).stdout)
