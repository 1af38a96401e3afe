"""A learner that divides columns into pieces."""

from nearfar.learners.pieces.piecewise_metric import PiecewiseMetric

__all__ = ["PiecewiseMetric"]
