"""
Neighbours that one can see
===========================

The nearest training pictures of some digits, by Euclidean distance and by a learned metric. Frames
mark neighbours of another class.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from nearfar import RCA, Metric, plots
from nearfar.neighbors import kneighbors

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
metrics = {"Euclidean": Metric.identity(64), "RCA": RCA().fit(X_train, y_train).metric_}

# %%
# Show the digits whose nearest neighbour is wrong by Euclidean distance.
_, nearest = kneighbors(metrics["Euclidean"], X_train, X_test, n_neighbors=1)
wrong = np.flatnonzero(y_train[nearest[:, 0]] != y_test)
rows = len(X_train) + wrong[:4]
both, classes = np.vstack([X_train, X_test]), np.append(y_train, y_test)
plots.neighbor_pictures(metrics, both, rows, image_shape=(8, 8), n_neighbors=5, y=classes)

# %%
# The share of right first neighbours among all test digits:
for name, metric in metrics.items():
    _, nearest = kneighbors(metric, X_train, X_test, n_neighbors=1)
    print(f"{name}: {(y_train[nearest[:, 0]] == y_test).mean():.1%}")
