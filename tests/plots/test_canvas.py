"""matplotlib is optional, and imported only to draw."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nearfar import Metric, plots
from nearfar.plots.canvas import METHOD_PALETTE, PALETTE
from wines import PLAIN, X


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"nearfar\[plots\]"):
        plots.projections(Metric.identity(13), X)
    assert len(plots.eigenvalues(PLAIN)) == 13


def test_matplotlib_is_not_imported_with_the_library():
    code = "import sys, nearfar.plots; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_classes_and_methods_differ_in_colour():
    assert len({*PALETTE, *METHOD_PALETTE}) == len(PALETTE) + len(METHOD_PALETTE)
    curve = plots.spectra({"plain": PLAIN}).lines[0]
    assert curve.get_color() == METHOD_PALETTE[0]
