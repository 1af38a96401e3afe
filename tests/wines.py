"""Wines, and metrics of every kind on them, for the tests of pictures."""

from __future__ import annotations

from functools import cache

import numpy as np
from sklearn.datasets import load_wine

from nearfar import GatedMetric, MaxMarginMetric, Metric

X, Y = load_wine(return_X_y=True)
NAMES = np.array(["barolo", "grignolino", "barbera"])[Y]
BROKEN = np.where(np.arange(13) == 5, np.nan, X)
PLAIN = Metric(np.diag(1 / X.std(axis=0)))
BY_ALCOHOL = np.eye(13)[[0, 0]] * [[1], [-1]]
GATED = GatedMetric([PLAIN, Metric(PLAIN.L[:3])], BY_ALCOHOL, [-13, 13])


@cache
def kernel_metric() -> Metric:
    return MaxMarginMetric(kernel="rbf", random_state=0).fit(X[::2], Y[::2]).metric_
