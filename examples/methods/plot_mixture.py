"""
A mixture with its regions
==========================

In one region the class depends on one group of columns, in another region on the other group. No
single metric can serve both. `MixtureNCA` learns two, and a gate that tells which one applies.
"""

import matplotlib.pyplot as plt
import numpy as np

from nearfar import NCA, MixtureNCA
from nearfar.datasets import make_two_regions
from nearfar.measures import knn_error
from nearfar.metrics.explanations import feature_importances

X, y, region = make_two_regions(800, random_state=0)
X_test, y_test, _ = make_two_regions(1000, random_state=1)
one = NCA(random_state=0).fit(X, y)
two = MixtureNCA(n_metrics=2, n_init=3, max_iter=50, random_state=0).fit(X, y)
for learner in (one, two):
    error = knn_error(learner.metric_, X, y, X_test, y_test)
    print(f"{type(learner).__name__}: {error:.1%} error")

# %%
# Each metric uses the columns that count where it applies.
names = ["region", *(f"a{k}" for k in range(4)), *(f"b{k}" for k in range(4))]
metrics = {"NCA": one.metric_}
metrics |= {f"metric {k}": part for k, part in enumerate(two.metric_.parts, 1)}
shares = np.array([feature_importances(metric, X) for metric in metrics.values()])
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
image = ax.imshow(100 * shares, cmap="Blues")
ax.set_xticks(range(9), names)
ax.set_yticks(range(len(metrics)), list(metrics))
fig.colorbar(image, label="share, %")

# %%
# The gate has found the regions:
print(np.unique(np.column_stack([region, two.metric_.assign(X)]), axis=0).tolist())
