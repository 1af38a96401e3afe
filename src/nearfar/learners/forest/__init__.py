"""Learners of metrics that bend: the leaves of a forest, and columns divided into pieces."""

from nearfar.learners.forest.forest_metric import ForestMetric
from nearfar.learners.forest.piecewise_metric import PiecewiseMetric

__all__ = ["ForestMetric", "PiecewiseMetric"]
