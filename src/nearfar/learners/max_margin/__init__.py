"""Max-margin learners: of a metric and a threshold from pairs, and of a metric from triplets."""

from nearfar.learners.max_margin.c_path import C_path, CPath
from nearfar.learners.max_margin.frob_metric import FrobMetric
from nearfar.learners.max_margin.max_margin_metric import MaxMarginMetric

__all__ = ["CPath", "C_path", "FrobMetric", "MaxMarginMetric"]
