"""
UMAP or t-SNE of a learned metric
=================================

UMAP and t-SNE draw neighbourhoods, and therefore depend on the distance. Half of the digits have
labels; the other half is drawn with and without a metric learned from them. Without umap-learn,
t-SNE draws them.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.manifold import TSNE

from nearfar import RCA

warnings.simplefilter("ignore", ImportWarning)
try:
    from umap import UMAP

    drawing = UMAP(random_state=0, n_jobs=1, n_epochs=100)
except ImportError:
    drawing = TSNE(random_state=0, max_iter=300)

X, y = load_digits(return_X_y=True)
known, rest = slice(0, 900), slice(900, 1500)
metric = RCA().fit(X[known], y[known]).metric_

fig, axes = plt.subplots(1, 2, figsize=(9.5, 4.3), layout="constrained")
for ax, rows, name in ((axes[0], X, "Euclidean"), (axes[1], metric.transform(X), "learned")):
    places = drawing.fit_transform(rows[rest])
    points = ax.scatter(*places.T, c=y[rest], cmap="tab10", s=10)
    ax.set(title=name, xticks=[], yticks=[])
fig.colorbar(points, ax=axes, label="digit")
