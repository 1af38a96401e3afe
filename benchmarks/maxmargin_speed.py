"""Max-margin metrics: linear time in the pairs, against a generic solver, and the kernel's basis.

1. 10^4 to 10^6 pairs, 50 features: seconds, planes, the exponent of time in the number of pairs,
   time in units of one weighted Gram matrix over the pairs, and peak memory.
2. 2,000 pairs, 20 features: against cvxpy (Clarabel) at the same objective, for several C.
3. The basis: time against the number of points, and the error of the kernel beside a random basis.

    python benchmarks/maxmargin_speed.py [--toy]
"""

from __future__ import annotations

import time
import tracemalloc
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from nearfar import MatchingPursuitBasis, MaxMarginMetric, Pairs, RandomPairs
from nearfar.learners.max_margin.pair_operator import PairOperator
from protocol import arguments, load, record, seconds

Array = NDArray[Any]


def classes(n: int, n_features: int, informative: int = 5) -> tuple[Array, Array]:
    """Make ten classes that differ in a few directions."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    X = rng.standard_normal((n, n_features))
    X[:, :informative] += 2.0 * rng.standard_normal((10, informative))[y]
    return X @ np.linalg.qr(rng.standard_normal((n_features, n_features)))[0], y


def linear_time(sizes: list[int], n_features: int, C: float) -> list[dict[str, Any]]:
    X, y = classes(max(sizes) // 50, n_features)
    rows = []
    for n in sizes:
        pairs = RandomPairs(n)(X, y, np.random.RandomState(0))
        operator = PairOperator(X, pairs)
        weights = operator.p * operator.y
        gram = seconds(partial(operator.gram, weights), 3)
        learner = MaxMarginMetric(C=C)
        learner.fit(X, pairs)
        start = time.perf_counter()
        learner.fit(X, pairs)
        taken = time.perf_counter() - start
        tracemalloc.start()
        learner.fit(X, pairs)
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rows.append({"C": C, "n": n, "seconds": taken, "planes": learner.n_iter_, "gram": gram})
        print(
            f"C={C:g}, {n:8} pairs: {taken:6.2f} s, {learner.n_iter_:3} planes, "
            f"gap {learner.gap_ / learner.history_.objective[-1]:.1e}, {taken / gram:5.0f} Gram "
            f"products of {1e3 * gram:.1f} ms, {memory / 1e6:6.0f} MB, {memory / n:.0f} B per pair",
            flush=True,
        )
    slope = np.polyfit(np.log([r["n"] for r in rows]), np.log([r["seconds"] for r in rows]), 1)[0]
    ends = np.log(rows[-1]["seconds"] / rows[0]["seconds"]) / np.log(sizes[-1] / sizes[0])
    print(f"C={C:g}: time ~ pairs^{slope:.2f} (fit), ^{ends:.2f} (ends)")
    return rows


def against_generic(n: int, n_features: int, penalties: list[float]) -> list[dict[str, Any]]:
    import cvxpy

    X, y = classes(n, n_features)
    pairs = RandomPairs(n)(X, y, np.random.RandomState(0))
    rows = []
    for C in penalties:
        learner = MaxMarginMetric(C=C, prior=None, tol=1e-4)
        learner.fit(X, pairs)
        start = time.perf_counter()
        learner.fit(X, pairs)
        ours = time.perf_counter() - start
        Z = X / learner._builder.scale
        start = time.perf_counter()
        generic = generic_optimum(cvxpy, Z, pairs, C)
        theirs = time.perf_counter() - start
        value = learner.history_.objective[-1]
        rows.append({"C": C, "ours": ours, "generic": theirs, "objectives": [value, generic]})
        print(
            f"C={C:g}: ours {1e3 * ours:.1f} ms ({learner.n_iter_} planes), "
            f"generic {theirs:.2f} s, {theirs / ours:.0f} times; "
            f"objective {value:.6g}, {generic:.6g}",
            flush=True,
        )
    return rows


def generic_optimum(cvxpy: Any, Z: Array, pairs: Pairs, C: float) -> float:
    """Solve the problem as one would write it down."""
    i, j = pairs.index.T
    U = Z[i] - Z[j]
    y = np.where(pairs.similar, 1.0, -1.0)
    D = Z.shape[1]
    A, b = cvxpy.Variable((D, D), PSD=True), cvxpy.Variable()
    outer = np.einsum("ki,kj->kij", U, U).reshape(len(U), -1)
    margins = cvxpy.multiply(y, b - outer @ cvxpy.vec(A, order="C"))
    loss = cvxpy.sum(cvxpy.pos(1 - margins)) / len(U)
    goal = 0.5 * cvxpy.sum_squares(A) + 0.5 * cvxpy.square(b) + C * loss
    return float(cvxpy.Problem(cvxpy.Minimize(goal)).solve(solver="CLARABEL"))


def basis_time(sizes: list[int], n_basis: int) -> list[dict[str, Any]]:
    X, _ = classes(max(sizes), 20)
    rows = []
    for n in sizes:
        basis = MatchingPursuitBasis(n_components=n_basis)
        taken = seconds(lambda basis=basis, n=n: basis.fit(X[:n]), 1)  # type: ignore[misc]
        rows.append({"n": n, "seconds": taken, "basis": len(basis.indices_)})
        print(f"basis of {len(basis.indices_)} among {n:6} points: {taken:.2f} s", flush=True)
    slope = np.log(rows[-1]["seconds"] / rows[0]["seconds"]) / np.log(sizes[-1] / sizes[0])
    print(f"time ~ points^{slope:.2f}")
    return rows


def basis_error(names: list[str], numbers: list[int]) -> list[dict[str, Any]]:
    rows = []
    for name in names:
        X = StandardScaler().fit_transform(load(name)[0])[:1500]
        K = rbf_kernel(X)
        for number in numbers:
            if number >= len(X):
                continue
            errors = {"chosen": [kernel_errors(K, MatchingPursuitBasis(n_components=number), X)]}
            errors["drawn"] = [
                kernel_errors(K, Nystroem(n_components=number, random_state=seed), X)
                for seed in range(5)
            ]
            chosen, drawn = (np.mean(e, axis=0) for e in errors.values())
            rows.append(
                {"set": name, "basis": number, "chosen": chosen.tolist(), "drawn": drawn.tolist()}
            )
            print(
                f"{name:20}{number:4}: relative Frobenius error {chosen[0]:.4f} (random basis "
                f"{drawn[0]:.4f}), largest {chosen[1]:.3f} ({drawn[1]:.3f})",
                flush=True,
            )
    return rows


def kernel_errors(K: Array, approximation: Any, X: Array) -> tuple[float, float]:
    features = approximation.fit_transform(X)
    wrong = K - features @ features.T
    return float(np.linalg.norm(wrong) / np.linalg.norm(K)), float(np.abs(wrong).max())


def main() -> None:
    toy = arguments(__doc__).toy
    rows: list[dict[str, Any]] = []
    for C in (100.0,) if toy else (100.0, 1000.0):
        rows += linear_time([1000, 3000] if toy else [10_000, 100_000, 1_000_000], 50, C)
    rows += against_generic(*((100, 6, [100.0]) if toy else (2000, 20, [10.0, 100.0, 1000.0])))
    rows += basis_time(*(([200, 400], 20) if toy else ([5000, 10_000, 20_000], 300)))
    names = ["wine"] if toy else ["wine", "iris", "ionosphere", "vehicle", "digits", "letter"]
    rows += basis_error(names, [25] if toy else [25, 100, 200])
    record("maxmargin_speed", rows)


if __name__ == "__main__":
    main()
