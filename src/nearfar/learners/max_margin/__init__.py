"""The max-margin learner: a metric and a threshold from pairs."""

from nearfar.learners.max_margin.c_path import C_path, CPath
from nearfar.learners.max_margin.max_margin_metric import MaxMarginMetric

__all__ = ["CPath", "C_path", "MaxMarginMetric"]
