"""
Clusters under a metric
=======================

Clustering methods use Euclidean distance. Map the rows first, and they use the learned one. Here
labels of 60 rows are known, and HDBSCAN clusters the other 840.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import HDBSCAN
from sklearn.metrics import adjusted_rand_score

from nearfar import LDA

rng = np.random.default_rng(0)
y = rng.integers(0, 4, 900)
X = np.array([[0, 0], [4, 0], [0, 4], [4, 4]])[y] + 0.6 * rng.normal(size=(900, 2))
X = np.hstack([X, 4 * rng.normal(size=(900, 6))])
known, rest = slice(0, 60), slice(60, None)
metric = LDA(n_components=2).fit(X[known], y[known]).metric_

fig, axes = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
for ax, rows, name in ((axes[0], X, "Euclidean"), (axes[1], metric.transform(X), "learned")):
    clusters = HDBSCAN(min_cluster_size=25, copy=True).fit_predict(rows[rest])
    ax.scatter(*X[rest, :2].T, c=np.where(clusters < 0, np.nan, clusters), cmap="tab10", s=10)
    noise = clusters < 0
    ax.scatter(*X[rest, :2][noise].T, c="0.7", s=6)
    score = adjusted_rand_score(y[rest], clusters)
    ax.set_title(f"{name}: {clusters.max() + 1} clusters, adjusted Rand index {score:.2f}")
