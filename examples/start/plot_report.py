"""
What a report draws
===================

``nearfar report table.csv --label species`` writes one HTML file with a verdict, pictures and
tables. Its pictures are functions of `nearfar.plots`: each takes axes and returns them.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine

from nearfar import NCA, Metric, learn, plots

data = load_wine()
X, y = data.data, data.target
learner = NCA(random_state=0).fit(X, y)
metric = learner.metric_.named(data.feature_names)
scaled = Metric.identity(13).L / X.std(axis=0)
metrics = {"standardised": Metric(scaled), "NCA": metric}

fig, axes = plt.subplots(2, 2, figsize=(9.5, 8), layout="constrained")
plots.projections(metric, X, y, axes=[axes[0, 0]])
plots.importances(metric, X, ax=axes[0, 1])
plots.neighbor_curve(metrics, X, y, ax=axes[1, 0])
plots.spectra(metrics, ax=axes[1, 1])

# %%
# The whole report in Python:
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "wine.html"
    learn("wine", method="nca").report(path)
    print(f"{path.stat().st_size / 1024:.0f} kB")
