"""
Five methods side by side
=========================

The methods of five papers learn from the same 300 rows of the circles. Each picture shows new rows
along the two leading axes of the learned metric, and the error of three nearest neighbours.
"""

import matplotlib.pyplot as plt

from nearfar import (
    BoostMetric,
    DRMetric,
    MaxMarginMetric,
    Metric,
    MetricBoost,
    MixtureNCA,
    datasets,
    plots,
)
from nearfar.measures import knn_error

X, y = datasets.make_circles(600, n_features=10, n_classes=3, random_state=0)
X_test, y_test = X[300:], y[300:]

learners = [
    BoostMetric(random_state=0),
    MetricBoost(random_state=0),
    DRMetric(random_state=0),
    MaxMarginMetric(random_state=0),
    MixtureNCA(n_metrics=1, random_state=0),
]
metrics = {"Euclidean": Metric.identity(10)}
for learner in learners:
    metrics[type(learner).__name__] = learner.fit(X[:300], y[:300]).metric_

fig, axes = plt.subplots(2, 3, figsize=(9.5, 6.5), layout="constrained")
for ax, (name, metric) in zip(axes.flat, metrics.items(), strict=True):
    plots.projections(metric, X_test, y_test, axes=[ax])
    error = knn_error(metric, X[:300], y[:300], X_test, y_test)
    ax.set_title(f"{name}: {error:.0%} error")

# %%
# No method is the best on every table. :class:`~nearfar.AutoMetric` tries them on held-out data
# and blends what they learn.
