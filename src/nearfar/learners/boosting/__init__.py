"""Learners that add one rank-one term per iteration."""

from nearfar.learners.boosting.boostmetric import BoostMetric
from nearfar.learners.boosting.drmetric import DRMetric
from nearfar.learners.boosting.metricboost import MetricBoost
from nearfar.learners.boosting.psdboost import PSDBoost

__all__ = ["BoostMetric", "DRMetric", "MetricBoost", "PSDBoost"]
