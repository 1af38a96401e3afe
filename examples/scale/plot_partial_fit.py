"""
New rows every day
==================

``partial_fit`` updates a metric with new rows; the old ones are not needed. For closed forms such
as `RCA` the result is that of one fit to all rows.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from nearfar import RCA, BoostMetric, Metric
from nearfar.evaluate import knn_error

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
learners = {"RCA": RCA(), "BoostMetric": BoostMetric(max_iter=20, random_state=0)}
errors = {name: [] for name in learners}
sizes = range(180, len(X) + 1, 180)
for end in sizes:
    for name, learner in learners.items():
        learner.partial_fit(X[end - 180 : end], y[end - 180 : end])
        errors[name].append(100 * knn_error(learner.metric_, X, y, X_test, y_test))

fig, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
for name, found in errors.items():
    ax.plot(sizes, found, "o-", label=name)
euclidean = 100 * knn_error(Metric.identity(64), X, y, X_test, y_test)
ax.axhline(euclidean, color="C7", linestyle="--", label="Euclidean")
ax.set(xlabel="rows learned from", ylabel="error of three neighbours, %", ylim=(0, None))
ax.legend()
