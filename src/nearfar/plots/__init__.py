"""Plots of metrics, fits and neighbours.

Every function draws on the axes it is given, or on new ones, and returns them. This needs
matplotlib (``pip install "nearfar[plots]"``), which is imported only when axes are made. Text and
lines use the colours of matplotlib's settings, so that dark styles work. Classes and metrics differ
in marker as well as in colour.

`eigenvalues` returns numbers, and does not need matplotlib.
"""

from nearfar.plots.curves import (
    accuracy_by_rank,
    curves,
    eigenvalues,
    iterations,
    neighbor_curve,
    roc,
    spectra,
)
from nearfar.plots.features import column_curve, importances
from nearfar.plots.neighbors import neighbor_pictures
from nearfar.plots.scatters import before_and_after, projections

__all__ = [
    "accuracy_by_rank",
    "before_and_after",
    "column_curve",
    "curves",
    "eigenvalues",
    "importances",
    "iterations",
    "neighbor_curve",
    "neighbor_pictures",
    "projections",
    "roc",
    "spectra",
]
