"""Files to read, and the notes of a test."""

from __future__ import annotations

import pytest

from nearfar.runtime.messages import collecting_notes
from table_files import fail, files, folder, iris, run

__all__ = ["fail", "files", "folder", "iris", "run"]


@pytest.fixture
def notes():
    """Return the notes of this test."""
    with collecting_notes() as collected:
        yield collected
