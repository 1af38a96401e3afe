"""NCA beside scikit-learn's, and in batches on many points. `bounds.py` measures gradients.

1. A gradient of the objective at n = 5,000, D = 64: time beside scikit-learn's in one run.
2. Peak memory of a gradient at n = 10,000.
3. MNIST, 60,000 x 50 principal components, in batches: accuracy against time.

    python benchmarks/nca_speed.py [--toy]
"""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from nearfar import NCA, Metric
from nearfar.evaluate import knn_error
from nearfar.learners.nca.soft_neighbors import SoftNeighbors
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
