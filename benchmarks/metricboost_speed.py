"""How fast all triplets are, against listing them. `bounds.py` measures iterations.

1. n = 20,000: peak memory of an iteration beyond X.
2. n = 300: the same iterations from the explicit list of all triplets.

    python benchmarks/metricboost_speed.py [--toy]
"""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar import AllTriplets, MetricBoost
from protocol import arguments, record

Array = NDArray[Any]


def classes_in_noise(n: int, n_features: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, n)
    return rng.standard_normal((n, n_features)) + 0.4 * rng.standard_normal((5, n_features))[y], y


def memory(n: int, n_features: int) -> dict[str, Any]:
    X, y = classes_in_noise(n, n_features)
    tracemalloc.start()
    MetricBoost(max_iter=1).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"n={n} D={n_features}: peak beyond X ({X.nbytes / 1e6:.0f} MB) {peak / 1e6:.0f} MB")
    return {"what": "memory", "n": n, "peak": peak}


def against_list(n: int) -> dict[str, Any]:
    X, y = classes_in_noise(n, 10)
    triplets = AllTriplets()(X, y)
    elapsed = []
    for target in (y, triplets):
        start = time.perf_counter()
        MetricBoost(prior=None, max_iter=10, tol=0.0).fit(X, target)
        elapsed.append(time.perf_counter() - start)
    print(
        f"n={n}, {len(triplets)} triplets, 10 iterations: tiled {elapsed[0]:.2f} s, listed "
        f"{elapsed[1]:.2f} s, ratio {elapsed[1] / elapsed[0]:.0f}"
    )
    return {"what": "list", "tiled": elapsed[0], "listed": elapsed[1]}


def main() -> None:
    toy = arguments(__doc__).toy
    rows = [memory(1000 if toy else 20_000, 50), against_list(60 if toy else 300)]
    record("metricboost_speed", rows)


if __name__ == "__main__":
    main()
