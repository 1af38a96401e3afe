"""
Metrics that bend, and why two rows are near
============================================

A class of flowers may be in the middle of a column, with others on both sides. A linear map weighs
a column the same everywhere. Columns in pieces and the leaves of trees do not.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

from nearfar import LDA, ForestMetric, PiecewiseMetric, measures, plots
from nearfar.metrics.explanations import explain_pair

data = load_iris(as_frame=True)
X, X_new, y, y_new = train_test_split(data.data, data.target, test_size=0.5, random_state=0)
metrics = {
    type(each).__name__: each.fit(X, y).metric_
    for each in (LDA(), PiecewiseMetric(), ForestMetric())
}

# %%
# How far flowers move if the width of the petal changes and all else stays:
fig, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
for ax, (name, metric) in zip(axes, metrics.items(), strict=True):
    plots.column_curve(metric, X, "petal width (cm)", ax=ax)
    ax.set_title(name)

# %%
# Which conditions two flowers of a class have in common, in the trees that lead both to one leaf:
forest = metrics["ForestMetric"]
a, b = np.flatnonzero(y_new == 1)[:2]
print(explain_pair(forest, X_new.iloc[[a]], X_new.iloc[[b]]))

# %%
# Fewer dimensions, and the share of the ten nearest rows that they find:
for width in (8, 16, 32):
    narrow = forest.narrowed(X, width)
    print(f"{width} dimensions: {measures.neighbor_recall(forest, narrow, X, X_new):.0%}")
