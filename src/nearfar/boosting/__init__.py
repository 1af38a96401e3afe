"""Learners that add one rank-one term a round."""

from nearfar.boosting.boostmetric import BoostMetric

__all__ = ["BoostMetric"]
