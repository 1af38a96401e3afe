"""
Numbers instead of classes
==========================

If the target is a number, `AutoMetric` learns a metric whose neighbours have similar numbers, and
says how well their mean predicts. `MLKR` is the linear learner among its candidates; with two
components it is a map of the data. Fifteen of the 20 columns are noise.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_friedman1

from nearfar import MLKR, AutoMetric, Metric
from nearfar.measures import knn_r2

X, y = make_friedman1(600, n_features=20, noise=0.5, random_state=0)
train, test = slice(0, 400), slice(400, None)
auto = AutoMetric(random_state=0).fit(X[train], y[train])
mlkr = MLKR(random_state=0).fit(X[train], y[train])
plane = MLKR(n_components=2, random_state=0).fit(X[train], y[train])

numbers = range(1, 31)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
metrics = {"Euclidean": Metric.identity(20), "MLKR": mlkr.metric_, "AutoMetric": auto.metric_}
for name, metric in metrics.items():
    known, new = (X[train], y[train]), (X[test], y[test])
    left.plot(numbers, [knn_r2(metric, *known, *new, n_neighbors=k) for k in numbers], label=name)
left.axvline(auto.n_neighbors_, color="grey", linestyle=":", label="chosen without these rows")
left.set(title="200 new rows", xlabel="neighbours", ylabel="R²")
left.legend()
points = right.scatter(*plane.transform(X[test]).T, c=y[test], cmap="viridis", s=15)
fig.colorbar(points, label="number to predict")
right.set(title="MLKR in the plane", xlabel="first component", ylabel="second component")

# %%
# What AutoMetric expects on new rows, from the 400 that it has:
print(auto.expected_)
