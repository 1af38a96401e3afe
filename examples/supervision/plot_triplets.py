"""
"This one is more like that one"
================================

People rarely know distances, but can say which of two things is more like a third. Here a simulated
person compares colours, sees green more clearly than blue, and is wrong in 10 % of the cases. How
many judgements does a metric need? The strips show the colours nearest to the first one.
"""

import matplotlib.pyplot as plt
import numpy as np

from nearfar import FrobMetric, Metric, Triplets
from nearfar.datasets import make_triplets_from_metric
from nearfar.measures import triplet_accuracy

rng = np.random.RandomState(0)
colours = rng.uniform(size=(200, 3))
eye = np.diag([2.0, 4.0, 0.3])
judged = make_triplets_from_metric(colours, eye, 1200, noise=0.1, random_state=0)
fresh = make_triplets_from_metric(colours, eye, 3000, random_state=1)

sizes = [25, 50, 100, 200, 400, 800, 1200]
metrics = [FrobMetric(random_state=0).fit(colours, Triplets(judged[:m])).metric_ for m in sizes]
right = [triplet_accuracy(metric, colours, fresh) for metric in metrics]

fig, (left, strip) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(sizes, right, "o-", label="learned")
euclidean = triplet_accuracy(Metric.identity(3), colours, fresh)
left.axhline(euclidean, color="C7", linestyle="--", label="Euclidean")
left.set(xlabel="judgements", ylabel="new judgements in the right order", xscale="log")
left.legend()

pictures = []
for metric in (Metric.identity(3), metrics[-1]):
    order = metric.distances(colours[:1], colours)[0].argsort()[:12]
    pictures.append(colours[order])
strip.imshow(np.array(pictures))
strip.set_yticks([0, 1], ["Euclidean", "learned"])
strip.set_xticks([])

# %%
# The diagonal of the learned matrix follows the eye: 2, 4 and 0.3, up to a common factor.
found = np.diag(metrics[-1].matrix)
print((found / found[1] * 4).round(1))
