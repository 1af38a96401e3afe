"""matplotlib is optional, and imported only to draw."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nearfar import Metric, plots
from wines import PLAIN, X


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"nearfar\[plots\]"):
        plots.projections(Metric.identity(13), X)
    assert "row" in plots.neighbor_lines({"plain": PLAIN}, X, [0], ["row"] * 178)


def test_matplotlib_is_not_imported_with_the_library():
    code = "import sys, nearfar.plots; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
