"""NCA beside scikit-learn's, and in batches on many points.

1. An evaluation (value and gradient, float32) as a multiple of the bare limits of work on all
   pairs, measured in the same run, at D = 64, 256, 768; how it grows with n and with D.
2. A gradient of the objective at n = 5,000, D = 64: time beside scikit-learn's in one run.
3. Peak memory of a gradient at n = 10,000.
4. MNIST, 60,000 x 50 principal components, in batches: accuracy against time.

    python benchmarks/nca_speed.py [--toy]
"""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from nearfar import NCA, Metric
from nearfar.evaluate import knn_error
from nearfar.learners.nca.soft_neighbors import SoftNeighbors
from pair_limits import growth, within_limits
from protocol import arguments, load, record, seconds

Array = NDArray[Any]


def classes(n: int, n_features: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    return rng.standard_normal((n, n_features)) + rng.standard_normal((10, n_features))[y], y


def gradient(points: SoftNeighbors, L: Array) -> tuple[float, Array]:
    found = points.evaluate([L], expected_share)
    return found.value, found.by_map[0]


def expected_share(_: slice, log_p: Array) -> tuple[float, Array]:
    p = np.exp(log_p)
    return float(p.sum()), p


def their_gradient(X: Array, y: Array, L: Array) -> tuple[float, Array]:
    nca: Any = NeighborhoodComponentsAnalysis()
    nca.n_iter_ = 0
    same = y[:, None] == y[None]
    loss, slope = nca._loss_grad_lbfgs(L.ravel(), X, same, -1.0)
    return -float(loss), -slope.reshape(L.shape)


def evaluation(n: int, n_features: int) -> dict[str, Any]:
    """Value and gradient of a square map, in multiples of the bare limits.

    "first" is the map that NCA starts from. "long" is ten times that:
    exp underflows, as it does late in a fit that separates the classes.
    """
    X, y = classes(n, n_features)
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    points, first = SoftNeighbors(X, y), np.eye(n_features) / n_features**0.25
    print(f"n = {n}, D = {n_features}:")

    def work() -> dict[str, float]:
        return {
            "first": seconds(lambda: gradient(points, first)),
            "long": seconds(lambda: gradient(points, 10 * first)),
        }

    times, bare = within_limits(X, work)
    return {"n": n, "D": n_features, "limits": asdict(bare), **times}


def evaluations(ns: tuple[int, ...], sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """Every D at the middle n, and every n at the smallest D."""
    middle = ns[len(ns) // 2]
    by_D = [evaluation(middle, D) for D in sizes]
    by_n = [by_D[0] if n == middle else evaluation(n, sizes[0]) for n in ns]
    in_n = growth(ns, [row["first"] for row in by_n])
    in_D = growth(sizes, [row["first"] for row in by_D])
    print(f"time grows with n^{in_n:.2f} (D = {sizes[0]}) and with D^{in_D:.2f} (n = {middle})")
    return [*by_D, *(row for row in by_n if row is not by_D[0]), {"in_n": in_n, "in_D": in_D}]


def per_gradient(n: int, n_features: int) -> dict[str, Any]:
    X, y = classes(n, n_features)
    L = 0.3 * np.eye(n_features)
    points = SoftNeighbors(X, y)
    ours, theirs = gradient(points, L), their_gradient(X, y, L)
    apart = float(np.abs(ours[1] - theirs[1]).max() / np.abs(theirs[1]).max())
    row: dict[str, Any] = {
        "n": n,
        "ours": seconds(lambda: gradient(points, L), 5),
        "theirs": seconds(lambda: their_gradient(X, y, L), 5),
    }
    print(
        f"n = {n}, D = {n_features}: {1e3 * row['ours']:.0f} ms, scikit-learn "
        f"{1e3 * row['theirs']:.0f} ms, {row['theirs'] / row['ours']:.1f} times; "
        f"objectives {ours[0]:.8g}, {theirs[0]:.8g}; gradients apart {apart:.0e}"
    )
    return row


def memory(n: int, n_features: int) -> dict[str, Any]:
    X, y = classes(n, n_features)
    L = 0.3 * np.eye(n_features)
    row: dict[str, Any] = {"n": n}
    points = SoftNeighbors(X, y)
    tracemalloc.start()
    gradient(points, L)
    row["ours"] = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    their_gradient(X, y, L)
    row["theirs"] = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    print(
        f"n = {n}: peak {row['ours'] / 1e6:.0f} MB, scikit-learn {row['theirs'] / 1e6:.0f} MB, "
        f"{row['ours'] / row['theirs']:.3f}"
    )
    return row


def batches(name: str, n_components: int, batch_size: int, passes: tuple[int, ...]) -> list[Any]:
    X, y = load(name)
    n_train = 60_000 if len(X) >= 70_000 else int(0.7 * len(X))
    order = np.arange(len(X)) if len(X) >= 70_000 else np.random.default_rng(0).permutation(len(X))
    train, test = order[:n_train], order[n_train:]
    Z = PCA(n_components, random_state=0).fit(X[train]).transform(X).astype(np.float32)
    plain = knn_error(Metric.identity(n_components), Z[train], y[train], Z[test], y[test])
    print(f"{name}: {n_train} x {n_components}, Euclidean 3-NN error {100 * plain:.2f} %")
    rows = []
    for number in passes:
        learner = NCA(batch_size=batch_size, max_iter=number, scale="unit", random_state=0)
        start = time.perf_counter()
        learner.fit(Z[train], y[train])
        taken = time.perf_counter() - start
        error = knn_error(learner.metric_, Z[train], y[train], Z[test], y[test])
        rows.append({"passes": number, "seconds": taken, "error": error})
        print(
            f"  {number:3} passes of {batch_size}: {taken:6.1f} s, objective "
            f"{-learner.history_.objective[-1]:.4f}, 3-NN error {100 * error:.2f} %",
            flush=True,
        )
    return rows


def main() -> None:
    toy = arguments(__doc__).toy
    rows: list[Any] = [
        *evaluations(*(((200, 400), (8, 16)) if toy else ((2_500, 5_000, 10_000), (64, 256, 768)))),
        per_gradient(*((400, 8) if toy else (5_000, 64))),
        memory(*((400, 8) if toy else (10_000, 64))),
    ]
    if toy:
        rows += batches("digits", 10, 300, (2,))
    else:
        rows += batches("mnist", 50, 2_000, (1, 3, 10))
    record("nca_speed", rows)


if __name__ == "__main__":
    main()
