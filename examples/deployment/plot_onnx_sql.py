"""
ONNX, SQL and pgvector
======================

A metric is one matrix, so it runs where Python does not. The distances of an ONNX model and of a
database are those of the metric.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from nearfar import NCA

data = load_wine()
X = data.data.astype(np.float32)
metric = NCA(n_components=2, random_state=0).fit(X, data.target).metric_
there = {}

# %%
# ONNX, with ``pip install onnx onnxruntime``:
try:
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wine.onnx"
        metric.to_onnx(path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (mapped,) = session.run(["mapped"], {"X": X})
    there["ONNX"] = np.linalg.norm(mapped - mapped[0], axis=1)
except ImportError as error:
    print(error)

# %%
# DuckDB, with ``pip install duckdb``. For PostgreSQL, ``dialect="pgvector"`` writes the same.
try:
    import duckdb

    table = duckdb.connect()
    table.execute("CREATE TABLE wines (id INTEGER, v FLOAT[13])")
    table.executemany("INSERT INTO wines VALUES (?, ?)", [[i, r.tolist()] for i, r in enumerate(X)])
    distance = metric.to_sql("v", dialect="duckdb").distance("$query")
    rows = table.execute(f"SELECT {distance} FROM wines ORDER BY id", {"query": X[0].tolist()})
    there["DuckDB"] = np.array(rows.fetchall())[:, 0]
except ImportError as error:
    print(error)

# %%
fig, ax = plt.subplots(figsize=(5, 4.2), layout="constrained")
for name, distances in there.items():
    ax.plot(metric.distances(X[:1], X)[0], distances, "o", fillstyle="none", label=name)
ax.set(xlabel="distance to the first wine, nearfar", ylabel="distance there")
ax.legend()
print(metric.to_sql("v", dialect="pgvector").add_column("wines", "mapped")[:70], "...")
