"""
New rows every day
==================

``partial_fit`` updates a metric with new rows; the old ones are not needed. For closed forms such
as `RCA` the result is that of one fit to all rows.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import train_test_split

from nearfar import RCA, BoostMetric, Metric
from nearfar.datasets import make_known_metric
from nearfar.measures import knn_error

X, y, _ = make_known_metric(1500, n_features=20, random_state=0)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
learners = {"RCA": RCA(), "BoostMetric": BoostMetric(max_iter=20, random_state=0)}
errors = {name: [] for name in learners}
sizes = range(90, len(X) + 1, 90)
for end in sizes:
    for name, learner in learners.items():
        learner.partial_fit(X[end - 90 : end], y[end - 90 : end])
        errors[name].append(100 * knn_error(learner.metric_, X, y, X_test, y_test))

fig, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
for name, found in errors.items():
    ax.plot(sizes, found, "o-", label=name)
euclidean = 100 * knn_error(Metric.identity(20), X, y, X_test, y_test)
ax.axhline(euclidean, color="C7", linestyle="--", label="Euclidean")
ax.set(xlabel="rows learned from", ylabel="error of three neighbours, %", ylim=(0, None))
ax.legend()
