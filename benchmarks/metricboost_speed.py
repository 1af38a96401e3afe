"""How fast all triplets are: against a bare pass over the pairs, and against listing them.

1. n = 5,000, D = 50 (about 1e10 triplets): a round in units of a bare pass that computes the tiled
   Gram matrix and one exp of it, for the normalised and the real response.
2. n = 20,000: peak memory of a round beyond X.
3. n = 300: the same rounds from the explicit list of all triplets.

    python benchmarks/metricboost_speed.py [--toy]
"""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar import AllTriplets, MetricBoost
from nearfar.learners.boosting.all_triplets_operator import AllTripletsOperator
from nearfar.learners.boosting.losses import newton_step
from protocol import arguments, record, seconds

Array = NDArray[Any]


def classes_in_noise(n: int, n_features: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, n)
    return rng.standard_normal((n, n_features)) + 0.4 * rng.standard_normal((5, n_features))[y], y


def bare_pass(P: Array) -> None:
    """Gram matrix and exp, a band of rows at a time, in one buffer."""
    tile = np.empty((256, len(P)), dtype=P.dtype)
    for top in range(0, len(P), 256):
        rows = P[top : top + 256]
        out = tile[: len(rows)]
        np.matmul(rows, P.T, out=out)
        np.exp(out, out=out)


def rounds(n: int, n_features: int, dtype: type) -> dict[str, Any]:
    X, y = classes_in_noise(n, n_features)
    X = X.astype(dtype)
    P: Array = (X / 20).astype(dtype)
    scatter = AllTripletsOperator(X, y)
    rng = np.random.default_rng(0)
    state = scatter.state(0.1 * rng.standard_normal((n_features, n_features)))

    def normalized_round() -> None:
        again = scatter.along(state, np.eye(n_features)[0]).advance(1e-3)
        scatter.top(scatter.weigh(again)[1])

    def real_round() -> None:
        eigenvalue, v = scatter.top(scatter.weigh(state)[1])
        line = scatter.along(state, v)
        step, _ = newton_step(line.slope, 0.0, 50 / eigenvalue, accuracy=line.accuracy)
        line.advance(step)

    before = seconds(lambda: bare_pass(P))
    normalized, real = seconds(normalized_round, 3), seconds(real_round, 3)
    bare = (before + seconds(lambda: bare_pass(P))) / 2
    print(
        f"n={n} D={n_features} {np.dtype(dtype).name}, {scatter.n_triplets:.1e} triplets: "
        f"bare pass {1e3 * bare:.0f} ms; normalised round {normalized / bare:.1f}, "
        f"real round {real / bare:.1f} times that"
    )
    return {"what": "rounds", "n": n, "bare": bare, "normalized": normalized, "real": real}


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
        f"n={n}, {len(triplets)} triplets, 10 rounds: tiled {elapsed[0]:.2f} s, listed "
        f"{elapsed[1]:.2f} s, ratio {elapsed[1] / elapsed[0]:.0f}"
    )
    return {"what": "list", "tiled": elapsed[0], "listed": elapsed[1]}


def main() -> None:
    toy = arguments(__doc__).toy
    rows = [rounds(400 if toy else 5000, 50, dtype) for dtype in (np.float64, np.float32)]
    rows += [memory(1000 if toy else 20_000, 50), against_list(60 if toy else 300)]
    record("metricboost_speed", rows)


if __name__ == "__main__":
    main()
