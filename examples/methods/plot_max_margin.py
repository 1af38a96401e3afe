"""
How hard should pairs be separated?
===================================

`MaxMarginMetric` learns from similar and dissimilar pairs. ``C`` weighs their errors against
staying near Euclidean distance. Held-out pairs choose it. On the right are their distances under
the best metric.
"""

import matplotlib.pyplot as plt
import numpy as np

from nearfar import MaxMarginMetric, Pairs
from nearfar.datasets import make_known_metric

X, y, _ = make_known_metric(200, n_features=15, random_state=0)
rng = np.random.RandomState(0)
index = rng.randint(len(X), size=(600, 2))
index = index[index[:, 0] != index[:, 1]]
pairs = Pairs(index, similar=y[index[:, 0]] == y[index[:, 1]])
learned, held_out = pairs.take(np.arange(400)), pairs.take(np.arange(400, len(pairs)))

fits = {C: MaxMarginMetric(C=C).fit(X, learned) for C in (1e2, 1e3, 1e4, 1e5, 1e6)}
right_share = [np.mean(fit.predict(X, held_out) == held_out.similar) for fit in fits.values()]
best = list(fits)[int(np.argmax(right_share))]

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
left.plot(list(fits), right_share, "o-")
left.set(xscale="log", xlabel="C", ylabel="held-out pairs classified correctly")
left.axvline(best, color="C1", linestyle="--", label=f"best: {best:g}")
left.legend()

distances = fits[best].metric_.pair_distances(X, held_out)
bins = np.linspace(0, distances.max(), 40)
for similar, name in ((True, "similar"), (False, "dissimilar")):
    right.hist(distances[held_out.similar == similar], bins, alpha=0.6, label=name)
right.set(xlabel="learned distance", ylabel="pairs")
right.legend()
