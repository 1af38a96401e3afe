"""
Numbers instead of classes
==========================

If the target is a number, `MLKR` learns a metric whose neighbours have similar numbers. With two
components it is a map of the data. Twenty of the 25 columns are noise.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_friedman1

from nearfar import MLKR, Metric
from nearfar.evaluate import knn_r2

X, y = make_friedman1(600, n_features=25, noise=0.5, random_state=0)
train, test = slice(0, 400), slice(400, None)
learner = MLKR(n_components=2, random_state=0).fit(X[train], y[train])

fig, ax = plt.subplots(figsize=(6, 4.2), layout="constrained")
points = ax.scatter(*learner.transform(X[test]).T, c=y[test], cmap="viridis")
fig.colorbar(points, label="number to predict")
ax.set(title="200 new rows", xlabel="first component", ylabel="second component")

# %%
# R² of ten nearest neighbours on these rows:
for name, metric in {"Euclidean": Metric.identity(25), "MLKR": learner.metric_}.items():
    r2 = knn_r2(metric, X[train], y[train], X[test], y[test], n_neighbors=10)
    print(f"{name}: {r2:.2f}")
