"""Plots are drawn without a display, to the end, and closed after each test."""

from __future__ import annotations

import matplotlib as mpl
import pytest
from matplotlib import pyplot

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _draw_and_close_figures():
    yield
    for number in pyplot.get_fignums():
        pyplot.figure(number).canvas.draw()
    pyplot.close("all")
