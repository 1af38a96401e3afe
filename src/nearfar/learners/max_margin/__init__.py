"""Max-margin learners of pairs and of triplets."""

from nearfar.learners.max_margin.frob_metric import FrobMetric
from nearfar.learners.max_margin.max_margin_metric import MaxMarginMetric

__all__ = ["FrobMetric", "MaxMarginMetric"]
