"""How fast DRMetric is beside BoostMetric and MetricBoost.

1. The size of the paper's face experiment (8,960 triplets, 400 features, 400 iterations): time of
   an iteration of DRMetric and of BoostMetric, its parts in DRMetric, and the memory.
2. Corel features: time until each learner ends, beside the paper's 167.7 : 244.8 : 239.3 seconds.
3. The paths of single triplets' weights (Figure 1): how much they change per iteration.

    python benchmarks/drmetric_speed.py [--toy]
"""

from __future__ import annotations

import cProfile
import pstats
import time
import tracemalloc
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar import BoostMetric, DRMetric, MetricBoost, NearestTriplets, Triplets
from nearfar.learners.base import MetricLearner
from nearfar.learners.boosting.triplet_operator import TripletOperator
from nearfar.runtime.history import History
from protocol import arguments, load, record

Array = NDArray[Any]

WHERE = {
    "A(d) and its eigenvector": "leading_eigenpair",
    "weights of directions": "term_weights",
    "margins": "margins",
}


def faces(n: int, n_features: int, m: int) -> tuple[Array, Triplets]:
    """Make points of many small classes with a falling spectrum, and triplets of them."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n // 3, n)
    size = np.linspace(1.0, 0.05, n_features)
    X = (rng.standard_normal((n // 3, n_features)) * size)[y]
    X += rng.standard_normal((n, n_features)) * np.linspace(1.0, 0.2, n_features)
    triplets = NearestTriplets()(X, y)
    return X, triplets.take(np.sort(rng.choice(len(triplets), m, replace=False)))


def fitted(learner: MetricLearner, X: Array, y: Any) -> tuple[MetricLearner, float]:
    start = time.perf_counter()
    learner.fit(X, y)
    return learner, time.perf_counter() - start


def iterations(n: int, n_features: int, m: int, max_iter: int) -> dict[str, Any]:
    X, triplets = faces(n, n_features, m)
    row: dict[str, Any] = {"n": n, "features": n_features, "triplets": m}
    learners = {
        "BoostMetric": BoostMetric(max_iter=max_iter, prior=None, scale="unit"),
        "DRMetric": DRMetric(scale="unit"),
        "DRMetric, all iterations": DRMetric(
            max_iter=max_iter, scale="unit", independence=0.02, tol=0.0
        ),
    }
    for learner in learners.values():
        learner.fit(X, triplets)
    for name, learner in learners.items():
        seconds = fitted(learner, X, triplets)[1]
        row[name] = seconds / learner.n_iter_
        ratio = row[name] / row["BoostMetric"]
        print(
            f"{name:28}{learner.n_iter_:4} iterations ({learner.history_.stopped}), "
            f"{1e3 * row[name]:.1f} ms per iteration, {ratio:.2f} of BoostMetric's"
        )
    learner = learners["DRMetric, all iterations"]
    profile = cProfile.Profile()
    profile.runcall(learner.fit, X, triplets)
    spent = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for what, function in WHERE.items():
        total = sum(entry[3] for key, entry in spent.items() if key[2] == function)
        row[what] = total
        print(f"  {what:28}{1e3 * total / learner.n_iter_:8.1f} ms per iteration")
    tracemalloc.start()
    learner.fit(X, triplets)
    row["memory"] = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    terms = 8 * learner.n_iter_ * m
    print(
        f"  memory beyond X: {row['memory'] / 1e6:.0f} MB, {terms / 1e6:.0f} MB of it for margins"
    )
    return row


def corel(name: str) -> dict[str, Any]:
    X, y = load(name)
    learners = {
        "DRMetric": DRMetric(),
        "BoostMetric": BoostMetric(),
        "MetricBoost": MetricBoost(),
    }
    row: dict[str, Any] = {"set": name}
    for learner in learners.values():
        learner.fit(X, y)
    for method, learner in learners.items():
        row[method] = fitted(learner, X, y)[1]
        print(
            f"{name} {method:14}{row[method]:7.2f} s, {learner.n_iter_} iterations "
            f"({learner.history_.stopped})"
        )
    ratio = " : ".join(f"{100 * row[method] / row['DRMetric']:.0f}" for method in learners)
    print(f"DRMetric : BoostMetric : MetricBoost = {ratio}; the paper 100 : 146 : 143")
    return row


def swings(name: str) -> dict[str, Any]:
    """Mean change of a triplet's weight in an iteration, in units of the mean weight."""
    X, y = load(name)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    triplets = NearestTriplets()(Z, y)
    regular = DRMetric(record_weights=True).fit(Z, triplets)
    plain = BoostMetric(max_iter=regular.n_iter_, prior=None).fit(Z, triplets)
    paths = {
        "DRMetric": regular.triplet_weights_ * len(triplets),
        "BoostMetric": boosted_weights(Z, triplets, plain.history_) * len(triplets),
    }
    row: dict[str, Any] = {"set": name}
    for method, path in paths.items():
        row[method] = {
            "swing": float(np.abs(np.diff(path, axis=0)).mean()),
            "largest": float(path.max()),
        }
        print(
            f"{name} {method:14}swing {row[method]['swing']:.2f}, "
            f"largest weight {row[method]['largest']:.1f} times the mean"
        )
    return row


def boosted_weights(Z: Array, triplets: Triplets, history: History) -> Array:
    """Triplet weights after each iteration of a BoostMetric from zero."""
    operator = TripletOperator(Z, triplets)
    state, paths = operator.start(), []
    for iteration in history:
        direction = iteration.payload.directions[0]
        state = state + iteration.step * operator.margins(direction)
        paths.append(operator.loss_and_weights(state)[1])
    return np.array(paths)


def main() -> None:
    options = arguments(__doc__)
    toy = options.toy
    size = (300, 20, 500, 20) if toy else (4977, 400, 8960, 400)
    rows = [iterations(*size), corel("wine" if toy else "corel1k_33")]
    rows.append(swings("wine" if toy else "heart_cleveland"))
    record("drmetric_speed", rows)


if __name__ == "__main__":
    main()
