"""How fast BoostMetric is, against explicit differences and against the products it consists of.

1. n = 20,000, D = 300, 180,000 triplets, 30 iterations: the same iterations by a plain vectorised
   version that materialises the differences of points. Same objective, ratio of times.
2. Peak memory of a fit beyond X, from labels, mining included.
3. MNIST, 60,000 x 164 after PCA, 540,000 triplets: an iteration in units of one pair of products
   X v and X' w; mining in units of a bare tiled float32 X X' pass.
4. Time of an iteration against the number of triplets, 1e4 to 1e6.

    python benchmarks/boostmetric_speed.py [--toy]
"""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax
from sklearn.decomposition import PCA
from threadpoolctl import ThreadpoolController

from nearfar import BoostMetric, NearestTriplets, RandomTriplets, Triplets, datasets
from nearfar.constraints.mining import class_neighbors
from protocol import arguments, record, seconds

Array = NDArray[Any]


def explicit_boosting(X: Array, index: Array, n_iterations: int) -> list[float]:
    """Algorithm 2 on arrays of differences; objectives after each iteration."""
    near, far = X[index[:, 0]] - X[index[:, 1]], X[index[:, 0]] - X[index[:, 2]]
    rho = np.zeros(len(index))
    objectives = []
    v = None
    trace = 0.0
    for _ in range(n_iterations):
        u = softmax(-rho)
        A = (far * u[:, None]).T @ far - (near * u[:, None]).T @ near
        values, vectors = np.linalg.eigh(A)
        v = 1e-7 * values[-1] if v is None else v
        H = (far @ vectors[:, -1]) ** 2 - (near @ vectors[:, -1]) ** 2
        low, high = 0.0, 50 / values[-1]
        while high - low > 1e-12 * high:
            middle = (low + high) / 2
            if softmax(-rho - middle * H) @ H > v:
                low = middle
            else:
                high = middle
        rho += low * H
        trace += low
        objectives.append(float(logsumexp(-rho) + v * trace))
    return objectives


def classes_in_noise(n: int, n_features: int) -> tuple[Array, Array]:
    """Ten overlapping classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    centers = 1.5 * rng.standard_normal((10, n_features)) * (np.arange(n_features) < 20)
    return centers[y] + rng.standard_normal((n, n_features)), y


def against_explicit(n: int, n_features: int, n_iterations: int) -> dict[str, Any]:
    X, y = classes_in_noise(n, n_features)
    triplets = NearestTriplets()(X, y)
    m = len(triplets)
    learner = BoostMetric(prior=None, scale=None, tol=0.0, max_iter=n_iterations)
    fast = seconds(lambda: learner.fit(X, triplets), repeats=1)
    start = time.perf_counter()
    objectives = explicit_boosting(X, triplets.index, n_iterations)
    slow = time.perf_counter() - start
    difference = float(np.abs(learner.history_.objective - objectives).max())
    print(
        f"explicit differences: n={n} D={n_features} m={m}, {n_iterations} iterations: "
        f"{slow:.1f} s; nearfar {fast:.2f} s; ratio {slow / fast:.1f}; "
        f"largest difference of objectives {difference:.1e}"
    )
    return {"what": "explicit", "slow": slow, "fast": fast, "difference": difference}


def peak_memory(n: int, n_features: int) -> dict[str, Any]:
    X, y = classes_in_noise(n, n_features)
    tracemalloc.start()
    learner = BoostMetric(max_iter=5).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    m = 9 * n
    allowed = 2 * X.nbytes + 100 * m
    print(
        f"memory: n={n} D={n_features}, {m} triplets, {learner.n_iter_} iterations: peak beyond X "
        f"{peak / 1e6:.0f} MB = {(peak - 2 * X.nbytes) / m:.0f} bytes per triplet above twice X "
        f"({X.nbytes / 1e6:.0f} MB); allowed {allowed / 1e6:.0f} MB"
    )
    return {"what": "memory", "peak": peak, "allowed": allowed}


def mnist(n: int, dtype: type) -> dict[str, Any]:
    data = datasets.load("mnist")
    assert data.y is not None
    X = PCA(164, random_state=0).fit_transform(data.X[:n].astype(np.float32)).astype(dtype)
    y = data.y[:n]
    v, w = X[0].copy(), X[:, 0].copy()
    pair = seconds(lambda: (X @ v, X.T @ w), repeats=21)
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        pair_single = seconds(lambda: (X @ v, X.T @ w), repeats=21)
    single = X.astype(np.float32)

    def bare_pass() -> None:
        for i in range(0, n, 512):
            for j in range(0, n, 4096):
                _ = single[i : i + 512] @ single[j : j + 4096].T

    bare = seconds(bare_pass, repeats=1)
    mining = seconds(lambda: class_neighbors(X, y, 3, 3), repeats=1)
    learner = BoostMetric(max_iter=60).fit(X, y)
    again = seconds(lambda: (X @ v, X.T @ w), repeats=21)
    mean = float(learner.history_.seconds.mean())
    print(
        f"MNIST {n} x 164 {np.dtype(dtype).name}: iteration {1e3 * mean:.1f} ms = "
        f"{mean / pair:.1f} pairs of products ({1e3 * pair:.2f} ms, {1e3 * again:.2f} ms after, "
        f"on one thread {1e3 * pair_single:.2f} ms); "
        f"mining {mining:.2f} s = {mining / bare:.2f} bare passes"
    )
    return {
        "what": "mnist",
        "dtype": np.dtype(dtype).name,
        "iteration": mean,
        "pair": pair,
        "pair_after": again,
        "pair_single": pair_single,
        "mining": mining,
        "bare": bare,
    }


def growth(counts: list[int]) -> dict[str, Any]:
    X, y = classes_in_noise(20_000, 50)
    times = []
    for m in counts:
        triplets = Triplets(RandomTriplets(m)(X, y, np.random.RandomState(0)).index)
        learner = BoostMetric(max_iter=15, tol=0.0).fit(X, triplets)
        times.append(float(np.median(learner.history_.seconds)))
    exponent = float(np.polyfit(np.log(counts), np.log(times), 1)[0])
    shown = ", ".join(f"{m:.0e}: {1e3 * t:.1f} ms" for m, t in zip(counts, times, strict=True))
    print(f"growth with triplets: {shown}; exponent {exponent:.2f}")
    return {"what": "growth", "counts": counts, "times": times, "exponent": exponent}


def main() -> None:
    toy = arguments(__doc__).toy
    rows = [
        against_explicit(*(500, 20, 5) if toy else (20_000, 300, 30)),
        peak_memory(*(2000, 100) if toy else (20_000, 300)),
        growth([1000, 10_000] if toy else [10_000, 30_000, 100_000, 300_000, 1_000_000]),
    ]
    if "mnist" in datasets.available():
        rows += [mnist(3000 if toy else 60_000, dtype) for dtype in (np.float32, np.float64)]
    else:
        print("MNIST: skipped, because the folder in NEARFAR_DATA does not have it")
    record("boostmetric_speed", rows)


if __name__ == "__main__":
    main()
