"""Exact neighbours: time and memory beside faiss and scikit-learn, in one run.

10,000 queries in 200,000 rows of 128 features, k = 10, float32: `kneighbors`, `IndexFlatL2`, and
`NearestNeighbors(algorithm="brute")`. Each is timed in turns, and the smallest time counts. The
rows that are found are compared with those of float64 distances.

    python benchmarks/search.py [--toy]
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from nearfar import Metric
from nearfar.neighbors import kneighbors
from protocol import Array, arguments, record

K = 10
CHECKED = 20
"""Queries whose neighbours are compared with a table of distances."""


def by_faiss(X: Array, queries: Array) -> Array:
    index = faiss.IndexFlatL2(X.shape[1])
    index.add(X)
    return np.asarray(index.search(queries, K)[1])


def by_sklearn(X: Array, queries: Array) -> Array:
    search = NearestNeighbors(n_neighbors=K, algorithm="brute").fit(X)
    return np.asarray(search.kneighbors(queries, return_distance=False))


def by_nearfar(X: Array, queries: Array) -> Array:
    return kneighbors(Metric.identity(X.shape[1]), X, queries, n_neighbors=K)[1]


METHODS: dict[str, Callable[[Array, Array], Array]] = {
    "faiss": by_faiss,
    "nearfar": by_nearfar,
    "scikit-learn": by_sklearn,
}


def measure(n: int, n_queries: int, width: int, repeats: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, width), dtype=np.float32)
    queries = rng.standard_normal((n_queries, width), dtype=np.float32)
    table = cdist(queries[:CHECKED].astype(np.float64), X.astype(np.float64))
    expected = np.argsort(table, axis=1)[:, :K]
    times: dict[str, list[float]] = {name: [] for name in METHODS}
    right: dict[str, float] = {}
    memory: dict[str, float] = {}
    for _ in range(repeats):
        for name, search in METHODS.items():
            start = time.perf_counter()
            found = search(X, queries)
            times[name].append(time.perf_counter() - start)
            right[name] = float((found[:CHECKED] == expected).mean())
            memory.setdefault(name, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return [
        {
            "method": name,
            "rows": n,
            "queries": n_queries,
            "features": width,
            "seconds": min(times[name]),
            "to_faiss": min(times[name]) / min(times["faiss"]),
            "exact": right[name],
            "peak_mb": memory[name],
        }
        for name in METHODS
    ]


def main() -> None:
    given = arguments(__doc__)
    sizes = (5_000, 200, 32) if given.toy else (200_000, 10_000, 128)
    rows = measure(*sizes, repeats=given.splits or (1 if given.toy else 3))
    if not given.toy:
        record("search", rows)
    print(f"{sizes[1]} queries in {sizes[0]} rows of {sizes[2]} features, k = {K}")
    print(f"{'':14s} seconds  x faiss  exact %  peak MB so far")
    for row in rows:
        print(
            f"{row['method']:14s} {row['seconds']:7.2f} {row['to_faiss']:8.2f} "
            f"{100 * row['exact']:8.1f} {row['peak_mb']:8.0f}"
        )


if __name__ == "__main__":
    main()
