"""How fast all triplets are: against bare limits of work on all pairs, and against listing them.

1. n = 5,000 (about 1e10 triplets), D = 64, 256, 768: an iteration as a multiple of the bare limits
   measured in the same run, in blocks of ten directions and with one direction; how iterations in
   blocks grow with n and with D.
2. n = 20,000: peak memory of an iteration beyond X.
3. n = 300: the same iterations from the explicit list of all triplets.

    python benchmarks/metricboost_speed.py [--toy]
"""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar import AllTriplets, MetricBoost
from pair_limits import growth, within_limits
from protocol import arguments, record

Array = NDArray[Any]

ITERATIONS: dict[str, dict[str, Any]] = {
    "ten at once": {"block_size": 10},
    "one": {"block_size": 1},
    "normalized": {"response": "normalized"},
}


def classes_in_noise(n: int, n_features: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, n)
    return rng.standard_normal((n, n_features)) + 0.4 * rng.standard_normal((5, n_features))[y], y


def iteration(n: int, n_features: int, max_iter: int) -> dict[str, Any]:
    """Iterations of fits, in multiples of the bare limits."""
    X, y = classes_in_noise(n, n_features)
    print(f"n={n} D={n_features}:")

    def work() -> dict[str, float]:
        times = {}
        for name, parameters in ITERATIONS.items():
            number = max_iter * parameters.get("block_size", 1)
            learner = MetricBoost(**parameters, tol=0.0, max_iter=number).fit(X, y)
            # The first iteration includes the pass before it.
            times[name] = float(np.median(learner.history_.seconds[1:]))
        return times

    times, bare = within_limits(X, work)
    return {"what": "iteration", "n": n, "D": n_features, "limits": asdict(bare), **times}


def iterations(ns: tuple[int, ...], sizes: tuple[int, ...], max_iter: int) -> list[dict[str, Any]]:
    """Every D at the middle n, and every n at the smallest D."""
    middle = ns[len(ns) // 2]
    by_D = [iteration(middle, D, max_iter) for D in sizes]
    by_n = [by_D[0] if n == middle else iteration(n, sizes[0], max_iter) for n in ns]
    in_n = growth(ns, [row["ten at once"] for row in by_n])
    in_D = growth(sizes, [row["ten at once"] for row in by_D])
    print(
        f"an iteration with ten directions grows with n^{in_n:.2f} (D={sizes[0]}) and with "
        f"D^{in_D:.2f} (n={middle})"
    )
    grown = {"what": "growth", "in_n": in_n, "in_D": in_D}
    return [*by_D, *(row for row in by_n if row is not by_D[0]), grown]


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
    rows = iterations(
        *(((1_100, 1_300), (12, 24), 3) if toy else ((2_500, 5_000, 10_000), (64, 256, 768), 4))
    )
    rows += [memory(1000 if toy else 20_000, 50), against_list(60 if toy else 300)]
    record("metricboost_speed", rows)


if __name__ == "__main__":
    main()
