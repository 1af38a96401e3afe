"""
How hard should pairs be separated?
===================================

`MaxMarginMetric` learns from similar and dissimilar pairs. ``C`` weighs their errors against
staying near Euclidean distance. `max_margin_path` fits several values, each from the last, and
cross-validates them. On the right are the distances of the pairs under the best metric.
"""

import matplotlib.pyplot as plt
import numpy as np

from nearfar import Pairs, max_margin_path
from nearfar.datasets import make_known_metric

X, y, _ = make_known_metric(200, n_features=15, random_state=0)
rng = np.random.RandomState(0)
index = rng.randint(len(X), size=(600, 2))
index = index[index[:, 0] != index[:, 1]]
pairs = Pairs(index, similar=y[index[:, 0]] == y[index[:, 1]])

path = max_margin_path(X, pairs, C=(1e2, 1e3, 1e4, 1e5, 1e6), random_state=0)
mean, spread = path.scores.mean(axis=1), path.scores.std(axis=1)

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
left.errorbar(path.C, mean, spread, fmt="o-", capsize=3)
left.set(xscale="log", xlabel="C", ylabel="held-out pairs classified correctly")
left.axvline(path.best.C, color="C1", linestyle="--", label=f"best: {path.best.C:g}")
left.legend()

distances = path.best.metric_.pair_distances(X, pairs)
bins = np.linspace(0, distances.max(), 40)
for similar, name in ((True, "similar"), (False, "dissimilar")):
    right.hist(distances[pairs.similar == similar], bins, alpha=0.6, label=name)
right.set(xlabel="learned distance", ylabel="pairs")
right.legend()
