"""
Rows that do not fit in memory
==============================

Pass the path of a file instead of an array: the rows are read in blocks. Here 200,000 rows lie in
a ``.npy`` file; a hundred times as many would need no more memory.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from nearfar import RCA, Metric
from nearfar.measures import knn_error

rng = np.random.default_rng(0)
n, classes = 200_000, 50
centres = rng.normal(size=(classes, 32))
y = rng.integers(0, classes, n)
X = (centres[y] + np.linspace(0.2, 4, 32) * rng.normal(size=(n, 32))).astype(np.float32)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "rows.npy"
    np.save(path, X)
    from_file = RCA().fit(path, y).metric_

# %%
# The metric is that of a fit in memory.
in_memory = RCA().fit(X, y).metric_
difference = np.abs(from_file.matrix - in_memory.matrix).max() / np.abs(in_memory.matrix).max()
print(f"largest relative difference: {difference:.0e}")

# %%
sample = slice(0, 3000), slice(3000, 4000)
metrics = {"Euclidean": Metric.identity(32), "RCA from the file": from_file}
errors = [
    100 * knn_error(metric, X[sample[0]], y[sample[0]], X[sample[1]], y[sample[1]])
    for metric in metrics.values()
]
fig, ax = plt.subplots(figsize=(5.5, 3), layout="constrained")
ax.bar_label(ax.barh(list(metrics), errors), fmt="%.1f %%")
ax.set_xlabel("error of three neighbours, %")
