"""Learners that collect planes below a loss on pairs."""

from nearfar.cutting_plane.maxmargin import MaxMarginMetric
from nearfar.cutting_plane.path import C_path, CPath

__all__ = ["CPath", "C_path", "MaxMarginMetric"]
