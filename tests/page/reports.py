"""Reports that several tests read."""

from __future__ import annotations

import os

import pytest

from nearfar.tables.report import write_report
from studies import make_study


@pytest.fixture(scope="session")
def report_file(tmp_path_factory):
    """Return the report of a kind of study; parallel workers share the files."""
    if run := os.environ.get("PYTEST_XDIST_TESTRUNUID"):
        folder = tmp_path_factory.getbasetemp().parent / f"reports-{run}"
        folder.mkdir(exist_ok=True)
    else:
        folder = tmp_path_factory.mktemp("reports")

    def file(kind):
        path = folder / f"{kind}.html"
        if not path.exists():
            write_report(path, make_study(kind))
        return path

    return file
