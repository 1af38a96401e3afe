"""
What AutoMetric blends
======================

`AutoMetric` tries the learners on held-out rows and adds up those that help. Euclidean distance is
a candidate too, so that the result is not worse than that beyond noise.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine

from nearfar import AutoMetric

X, y = load_wine(return_X_y=True)
auto = AutoMetric().fit(X, y)

board = sorted(auto.leaderboard_, key=lambda row: row["log_likelihood"])[-10:]
names = [row["name"] for row in board]
weights = [auto.weights_.get(name, 0.0) for name in names]

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.5), sharey=True, layout="constrained")
left.plot([row["log_likelihood"] for row in board], names, "o")
left.set_xlabel("mean log-likelihood of held-out rows")
right.barh(names, weights)
right.set_xlabel("share in the blend")

# %%
# What to expect on new rows, with and without learning:
print(auto.expected_)
