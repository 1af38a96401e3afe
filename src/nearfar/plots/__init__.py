"""Pictures of metrics. Every function takes axes to draw on, or makes some, and returns them.

Needs matplotlib, which is imported only where axes must be made: ``pip install "nearfar[plots]"``.
Text, lines and boxes take their colours from matplotlib's settings, so that dark styles work;
classes and metrics differ in mark as well as in colour.

`neighbor_lines` and `eigenvalues` give text and numbers, and need no matplotlib.
"""

from nearfar.plots.answers import neighbor_lines, neighbor_pictures
from nearfar.plots.features import importances
from nearfar.plots.fits import accuracy_by_rank, eigenvalues, rounds, spectra
from nearfar.plots.judgement import curves, neighbor_curve, roc
from nearfar.plots.scatters import before_and_after, projections

__all__ = [
    "accuracy_by_rank",
    "before_and_after",
    "curves",
    "eigenvalues",
    "importances",
    "neighbor_curve",
    "neighbor_lines",
    "neighbor_pictures",
    "projections",
    "roc",
    "rounds",
    "spectra",
]
