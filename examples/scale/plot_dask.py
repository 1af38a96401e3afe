"""
On a Dask cluster
=================

A Dask array is learned from where its blocks are computed: here on two workers in this process, in
earnest on the machines of a cluster. The result does not depend on the number of workers.
"""

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import Client

from nearfar import GMML, plots

dask.config.set({"distributed.admin.log-format": "%(message)s"})
rng = np.random.default_rng(0)
y = rng.integers(0, 3, 20_000)
X = rng.normal(size=(3, 10))[y] + np.linspace(0.3, 3, 10) * rng.normal(size=(20_000, 10))
blocks = da.from_array(X, chunks=(5_000, 10))

with Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None):
    metric = GMML().fit(blocks, y).metric_

# %%
# The same metric as that of one fit in memory:
alone = GMML().fit(X, y).metric_
print(np.allclose(metric.matrix, alone.matrix))

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
plots.before_and_after(metric, X, y, axes=axes)
