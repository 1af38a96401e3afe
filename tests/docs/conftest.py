from __future__ import annotations

import pytest

from docs.options import commands
from docs.package import Package, imported_docstring
from docs.pages import ROOT


@pytest.fixture(scope="session")
def package():
    return Package(ROOT / "src/nearfar", imported_docstring)


@pytest.fixture(scope="session")
def known_commands():
    return commands()
