"""Learners from soft neighbours: one metric, or a gated mixture of several."""

from nearfar.mixture.msnca import MixtureNCA
from nearfar.mixture.nca import NCA, SparseNCA

__all__ = ["NCA", "MixtureNCA", "SparseNCA"]
