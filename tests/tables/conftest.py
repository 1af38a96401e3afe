"""The files and commands of the tests of the command line; quick tests of held-out rows."""

from __future__ import annotations

import pytest

from cli.conftest import document
from nearfar.tables import held_out
from page.reports import report_file
from table_files import fail, files, folder, iris, run

__all__ = ["document", "fail", "files", "folder", "iris", "report_file", "run"]


@pytest.fixture
def metrics_alone(monkeypatch):
    """Leave out forests and boosting, which take longer than all the rest."""
    monkeypatch.setattr(held_out, "_others", lambda *_: iter(()))
