"""Max-margin learners: of a metric and a threshold from pairs, and of a metric from triplets."""

from nearfar.learners.max_margin.frob_metric import FrobMetric
from nearfar.learners.max_margin.max_margin_metric import MaxMarginMetric
from nearfar.learners.max_margin.max_margin_path import MaxMarginPath, max_margin_path

__all__ = ["FrobMetric", "MaxMarginMetric", "MaxMarginPath", "max_margin_path"]
