"""
A metric in the space of a kernel
=================================

Two half moons: no linear map brings the points of a class together. `MaxMarginMetric` with
``kernel="rbf"`` learns in the space of a kernel. The pictures show the distance from one point
(cross) to everywhere.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from nearfar import MaxMarginMetric
from nearfar.measures import leave_one_out_error

X, y = make_moons(120, noise=0.12, random_state=0)
learners = {
    "linear": MaxMarginMetric(random_state=0),
    "RBF kernel": MaxMarginMetric(kernel="rbf", gamma=3.0, n_basis=60, random_state=0),
}
a, b = np.meshgrid(np.linspace(-1.5, 2.5, 120), np.linspace(-1, 1.5, 80))
grid = np.column_stack([a.ravel(), b.ravel()])
query = X[:1]

fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for ax, (name, learner) in zip(axes, learners.items(), strict=True):
    metric = learner.fit(X, y).metric_
    away = metric.distances(query, grid).reshape(a.shape)
    ax.contourf(a, b, away, 20, cmap="viridis_r")
    ax.scatter(*X.T, c=np.where(y == y[0], "white", "black"), s=14, edgecolor="grey")
    ax.plot(*query[0], "rX", markersize=12)
    error = leave_one_out_error(metric, X, y, n_neighbors=15)
    ax.set_title(f"{name}: {error:.1%} error of 15 neighbours")
