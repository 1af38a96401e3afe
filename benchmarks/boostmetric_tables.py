"""BoostMetric against Euclidean distance: the paper's Table 1, and what the prior does.

3-NN test error over ten 70/30 splits: Euclidean on the data as they are and standardised,
BoostMetric from zero, from the identity (the default), as printed in the paper, and with the number
of iterations chosen on held-out triplets, with the paper's figures beside them.

    python benchmarks/boostmetric_tables.py [--toy]
"""

from __future__ import annotations

import time

import numpy as np

from nearfar import BoostMetric, NearestTriplets
from nearfar.evaluate import knn_error
from protocol import arguments, euclidean_error, load, percent, record, splits

PAPER = {
    "iris": (2.22, 2.89),
    "wine": (26.23, 2.64),
    "balance_scale": (18.13, 8.93),
    "vehicle": (30.47, 19.17),
    "breast_cancer_wisconsin": (3.28, 2.45),
    "pima_diabetes": (27.43, 25.04),
    "letter": (5.74, 3.54),
}
"""Euclidean and BoostMetric 3-NN errors of Table 1, in percent."""

SETS = [
    *PAPER,
    "wine:scaled",
    "wdbc",
    "ionosphere",
    "sonar",
    "segmentation_210",
    "glass",
    "heart_cleveland",
    "blood_transfusion",
    "spect",
    "digits",
]
METHODS = {
    "from zero": {"prior": None},
    "from identity": {"prior": "identity"},
    "as printed": {"variant": "paper"},
    "validated": {"validation_fraction": 0.25, "random_state": 0},
}


def main() -> None:
    options = arguments(__doc__)
    names = ["iris", "wine"] if options.toy else SETS
    n_splits = options.splits or (2 if options.toy else 10)
    rows = []
    columns = ["Euclidean", "standardised", *METHODS]
    print(f"{'set':24}" + "".join(f"{c:>16}" for c in columns) + f"{'paper E':>9}{'paper B':>9}")
    for name in names:
        X, y = load(name)
        errors: dict[str, list[float]] = {column: [] for column in columns}
        for train, test in splits(y, n_splits):
            errors["Euclidean"].append(euclidean_error(X, y, train, test, scaled=False))
            errors["standardised"].append(euclidean_error(X, y, train, test, scaled=True))
            for method, parameters in METHODS.items():
                neighbours = 1 if len(X) > 10_000 else 3
                learner = BoostMetric(
                    max_iter=50 if options.toy else 500,
                    constraints=NearestTriplets(neighbours, neighbours),
                    **parameters,  # type: ignore[arg-type]
                )
                start = time.perf_counter()
                metric = learner.fit(X[train], y[train]).metric_
                errors[method].append(knn_error(metric, X[train], y[train], X[test], y[test]))
                rows.append(
                    {
                        "set": name,
                        "method": method,
                        "error": errors[method][-1],
                        "seconds": time.perf_counter() - start,
                        "iterations": learner.n_iter_,
                        "stopped": learner.history_.stopped,
                    }
                )
        for method in METHODS:
            excess = np.array(errors[method]) - errors["standardised"]
            if excess.mean() > 2 * excess.std(ddof=1) / np.sqrt(len(excess)):
                print(f"  {name}: {method} is worse than standardised Euclidean distance")
        paper = PAPER.get(name.partition(":")[0], (np.nan, np.nan))
        print(
            f"{name:24}"
            + "".join(f"{percent(errors[c]):>16}" for c in columns)
            + f"{paper[0]:9.2f}{paper[1]:9.2f}",
            flush=True,
        )
        rows += [{"set": name, "method": c, "error": e} for c in columns[:2] for e in errors[c]]
    record("boostmetric_tables", rows)


if __name__ == "__main__":
    main()
