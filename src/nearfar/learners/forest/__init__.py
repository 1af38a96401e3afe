"""A learner that grows trees."""

from nearfar.learners.forest.forest_metric import ForestMetric

__all__ = ["ForestMetric"]
