"""
Neighbours that one can see
===========================

The nearest pictures of some digits, by Euclidean distance and by a metric learned from the digits
of other writers. Frames mark neighbours of another class.
"""

import numpy as np
from sklearn.datasets import load_digits

from nearfar import LMNN, Metric, plots
from nearfar.neighbors import kneighbors

X, y = load_digits(return_X_y=True)
train, test = slice(0, 1200), slice(1200, None)
X_train, X_test, y_train, y_test = X[train], X[test], y[train], y[test]
metrics = {"Euclidean": Metric.identity(64), "LMNN": LMNN().fit(X_train, y_train).metric_}

# %%
# Show the digits whose nearest neighbour is wrong by Euclidean distance.
_, nearest = kneighbors(metrics["Euclidean"], X_train, X_test, n_neighbors=1)
wrong = np.flatnonzero(y_train[nearest[:, 0]] != y_test)
plots.neighbor_pictures(metrics, X, 1200 + wrong[:4], image_shape=(8, 8), n_neighbors=5, y=y)

# %%
# The share of right first neighbours among all test digits:
for name, metric in metrics.items():
    _, nearest = kneighbors(metric, X_train, X_test, n_neighbors=1)
    print(f"{name}: {(y_train[nearest[:, 0]] == y_test).mean():.1%}")
