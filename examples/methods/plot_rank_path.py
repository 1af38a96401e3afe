"""
Fewer dimensions: a path of ranks
=================================

`SparseNCA` has a penalty on the rank of the metric. A larger ``sparsity`` gives fewer dimensions.
How many does the task need?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from nearfar import SparseNCA, plots
from nearfar.measures import knn_error

X, y = load_wine(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)

strengths = [0.0, 1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1]
metrics = {}
for sparsity in strengths:
    learner = SparseNCA(sparsity=sparsity, scale="standard", random_state=0)
    metrics[f"{sparsity:g}"] = learner.set_params(validation_fraction=None).fit(X, y).metric_
ranks = [np.linalg.matrix_rank(metric.matrix, hermitian=True) for metric in metrics.values()]
errors = [100 * knn_error(metric, X, y, X_test, y_test) for metric in metrics.values()]

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
left.plot(list(metrics), ranks, "o-", label="rank")
left.plot(list(metrics), errors, "s--", label="error on new rows, %")
left.set(xlabel="sparsity", ylim=(0, None))
left.legend()
plots.spectra({name: metrics[name] for name in ("0", "0.001", "0.1")}, ax=right)
