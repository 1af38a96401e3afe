"""Max-margin learners: of a metric and a threshold from pairs, and of a metric from triplets."""

from nearfar.learners.max_margin.frob_metric import FrobMetric
from nearfar.learners.max_margin.max_margin_metric import MaxMarginMetric
from nearfar.learners.max_margin.max_margin_path import MaxMarginPath, max_margin_path
from nearfar.runtime.deprecation import renamed

__all__ = ["FrobMetric", "MaxMarginMetric", "MaxMarginPath", "max_margin_path"]

__getattr__ = renamed(__name__, {"C_path": "max_margin_path", "CPath": "MaxMarginPath"})
