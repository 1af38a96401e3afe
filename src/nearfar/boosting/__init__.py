"""Learners that add one rank-one term a round."""

from nearfar.boosting.boostmetric import BoostMetric
from nearfar.boosting.drmetric import DRMetric
from nearfar.boosting.metricboost import MetricBoost

__all__ = ["BoostMetric", "DRMetric", "MetricBoost"]
