"""`learner.estimate` beside what fits take: CPU time on one thread, and peak memory.

    python benchmarks/estimate.py [--toy]

docs/reference/scale.md has the table that is derived from the raw results.
"""

from __future__ import annotations

import time
import tracemalloc
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar import (
    NCA,
    RCA,
    BoostMetric,
    DRMetric,
    MaxMarginMetric,
    NearestTriplets,
    RandomPairs,
    RandomTriplets,
)
from nearfar.learners.estimate import estimate_fit
from nearfar.runtime.threads import limited_threads
from protocol import arguments, commit, record
from protocol import stored as stored_rows

Array = NDArray[Any]


def classes(n: int, n_features: int, n_classes: int = 10) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    return rng.standard_normal((n, n_features)) + rng.standard_normal((n_classes, n_features))[y], y


def settings(share: float) -> list[tuple[str, Any, Array, Any]]:
    def rows(n: int, n_features: int) -> tuple[Array, Array]:
        return classes(max(300, int(share * n)), n_features)

    random = np.random.RandomState(0)
    X3, y3 = rows(20_000, 50)
    triplets = RandomTriplets(len(X3) * 10)(X3, y3, random)
    X4, y4 = rows(20_000, 30)
    pairs = RandomPairs(len(X4) * 3)(X4, y4, random)
    return [
        ("RCA, labels", RCA(), *rows(300_000, 64)),
        ("BoostMetric, labels", BoostMetric(max_iter=100, n_jobs=1), *rows(16_000, 50)),
        ("BoostMetric, triplets", BoostMetric(max_iter=100, n_jobs=1), X3, triplets),
        ("MaxMarginMetric, pairs", MaxMarginMetric(n_jobs=1), X4, pairs),
        ("NCA, labels", NCA(max_iter=30, n_jobs=1), *rows(6_000, 32)),
        (
            "DRMetric, labels",
            DRMetric(constraints=NearestTriplets(2, 2), n_jobs=1),
            *rows(8_000, 30),
        ),
    ]


def measure(name: str, learner: Any, X: Array, y: Any, budget: float) -> dict[str, Any]:
    with limited_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        data = learner._checked(X, y)
        found = estimate_fit(learner._method(), data, budget=budget, clock=time.process_time)
        spent = time.process_time() - start
        start = time.process_time()
        learner.fit(X, y)
        seconds = time.process_time() - start
        tracemalloc.start()
        learner.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    print(
        f"{name}, {len(X)} x {X.shape[1]}: {found.seconds:.2f} s expected, {seconds:.2f} s taken "
        f"({found.seconds / seconds:.2f}); {found.bytes / 1e6:.1f} MB expected, {peak / 1e6:.1f} "
        f"MB taken ({found.bytes / peak:.2f}); the estimate took {spent:.1f} s",
        flush=True,
    )
    return {
        "name": name,
        "commit": commit(),
        "shape": X.shape,
        "expected": [found.seconds, found.bytes],
        "taken": [seconds, peak],
        "spent": spent,
    }


def stored() -> list[dict[str, Any]]:
    """Read the raw results."""
    return stored_rows("estimate")


def table(rows: list[dict[str, Any]]) -> str:
    """Return seconds and megabytes in Markdown, expected / taken."""
    lines = ["| setting | seconds | MB |", "| --- | --- | --- |"]
    for row in rows:
        size = " x ".join(f"{number:,}" for number in row["shape"])
        seconds, megabytes = zip(row["expected"], row["taken"], strict=True)
        lines.append(
            f"| {row['name']}, {size} | {seconds[0]:.1f} / {seconds[1]:.1f} | "
            f"{megabytes[0] / 1e6:.0f} / {megabytes[1] / 1e6:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    toy = arguments(__doc__).toy
    rows = [measure(*setting, 0.3 if toy else 2.0) for setting in settings(0.05 if toy else 1.0)]
    record("estimate_toy" if toy else "estimate", rows)


if __name__ == "__main__":
    main()
