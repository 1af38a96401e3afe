"""How fast all triplets are: against a bare pass over the pairs, and against listing them.

1. n = 5,000, D = 50 (about 1e10 triplets): an iteration in units of a bare pass that computes the
   tiled Gram matrix and one exp of it, for the normalised and the real response.
2. n = 20,000: peak memory of an iteration beyond X.
3. n = 300: the same iterations from the explicit list of all triplets.

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


def iterations(n: int, n_features: int, dtype: type) -> dict[str, Any]:
    X, y = classes_in_noise(n, n_features)
    X = X.astype(dtype)
    P: Array = (X / 20).astype(dtype)
    operator = AllTripletsOperator(X, y)
    rng = np.random.default_rng(0)
    state = operator.state(0.1 * rng.standard_normal((n_features, n_features)))

    def normalized_iteration() -> None:
        again = operator.line(state, np.eye(n_features)[0]).advance(1e-3)
        operator.leading_eigenpair(operator.loss_and_weights(again)[1])

    def real_iteration() -> None:
        eigenvalue, v = operator.leading_eigenpair(operator.loss_and_weights(state)[1])
        line = operator.line(state, v)
        step, _ = newton_step(line.slope, 0.0, 50 / eigenvalue, accuracy=line.accuracy)
        line.advance(step)

    before = seconds(lambda: bare_pass(P))
    normalized, real = seconds(normalized_iteration, 3), seconds(real_iteration, 3)
    bare = (before + seconds(lambda: bare_pass(P))) / 2
    print(
        f"n={n} D={n_features} {np.dtype(dtype).name}, {operator.n_triplets:.1e} triplets: "
        f"bare pass {1e3 * bare:.0f} ms; normalised iteration {normalized / bare:.1f}, "
        f"real iteration {real / bare:.1f} times that"
    )
    return {"what": "iterations", "n": n, "bare": bare, "normalized": normalized, "real": real}


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
    rows = [iterations(400 if toy else 5000, 50, dtype) for dtype in (np.float64, np.float32)]
    rows += [memory(1000 if toy else 20_000, 50), against_list(60 if toy else 300)]
    record("metricboost_speed", rows)


if __name__ == "__main__":
    main()
