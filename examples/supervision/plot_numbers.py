"""
Numbers instead of classes
==========================

If the target is a number, `MLKR` learns a metric whose neighbours have similar numbers. With two
components it is a map of the data.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

from nearfar import MLKR, Metric
from nearfar.evaluate import knn_r2

X, y = load_diabetes(return_X_y=True)
train, test = slice(0, 300), slice(300, None)
learner = MLKR(n_components=2, random_state=0).fit(X[train], y[train])

fig, ax = plt.subplots(figsize=(6, 4.2), layout="constrained")
points = ax.scatter(*learner.transform(X[test]).T, c=y[test], cmap="viridis")
fig.colorbar(points, label="progression of diabetes")
ax.set(title="142 new patients", xlabel="first component", ylabel="second component")

# %%
# R² of ten nearest neighbours on these patients:
for name, metric in {"Euclidean": Metric.identity(10), "MLKR": learner.metric_}.items():
    r2 = knn_r2(metric, X[train], y[train], X[test], y[test], n_neighbors=10)
    print(f"{name}: {r2:.2f}")
