"""Learners from soft neighbours: one metric, or a gated mixture of several."""

from nearfar.learners.nca.mixture_nca import MixtureNCA
from nearfar.learners.nca.nca import NCA, SparseNCA

__all__ = ["NCA", "MixtureNCA", "SparseNCA"]
