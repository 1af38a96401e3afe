"""Losses of margins: what learners minimise.

A margin says how well a constraint is satisfied; larger is better. For a triplet it is the squared
distance to far minus that to near. A loss falls with the margins, and its negative derivatives are
the weights of the constraints.

    Exponential     log of the sum of exp(-m)       BoostMetric, MetricBoost
    Logistic        mean of log(1 + exp(-m))        a wrong constraint has a bounded weight
    SquaredHinge    mean of max(0, a - m)^2         LSML
    Hinge           mean of max(0, a - m)           LMNN, MaxMarginMetric, FrobMetric
    SoftMargin      minus the smallest weighted mean, with capped weights      DRMetric

To write your own, derive from `Loss`.
"""

from nearfar.losses.loss import (
    Exponential,
    Hinge,
    Logistic,
    Loss,
    SoftMargin,
    SquaredHinge,
    named_loss,
)

__all__ = ["Exponential", "Hinge", "Logistic", "Loss", "SoftMargin", "SquaredHinge", "named_loss"]
