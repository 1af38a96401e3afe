"""
Classes that nobody has seen yet
================================

New persons, products or intents are not in the training data. A metric that separates the known
classes perfectly can be worse on new ones. ``validation="classes"`` holds out whole classes, so
that the choice is made for new ones.
"""

import matplotlib.pyplot as plt
import numpy as np

from nearfar import LMNN, AutoMetric, Metric
from nearfar.measures import map_at_r

rng = np.random.default_rng(0)
n_classes, n_features = 60, 40
shared = np.linspace(0.3, 3.0, n_features)
centres = rng.normal(size=(n_classes, n_features))
y = np.repeat(np.arange(n_classes), 12)
X = centres[y] + shared * rng.normal(size=(len(y), n_features))
known = y < 30

metrics = {
    "Euclidean": Metric.identity(n_features),
    "LMNN": LMNN(random_state=0).fit(X[known], y[known]).metric_,
    "AutoMetric": AutoMetric(goal="ranking", validation="classes").fit(X[known], y[known]).metric_,
}

fig, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
places = np.arange(len(metrics))
for shift, (name, rows) in zip((-0.2, 0.2), {"seen": known, "unseen": ~known}.items(), strict=True):
    values = [map_at_r(metric, X[rows], y[rows]) for metric in metrics.values()]
    bars = ax.bar(places + shift, values, 0.38, label=f"{name} classes")
    ax.bar_label(bars, fmt="%.2f")
ax.set_xticks(places, list(metrics))
ax.set_ylabel("MAP@R")
ax.legend()
