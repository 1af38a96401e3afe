"""`partial_fit` on ten parts of digits beside one fit: 3-NN error on held-out rows.

Parts are random rows, or rows in their order: then each part is by a few writers, and the held-out
rows are by others. For closed forms, the largest difference of the two metrics is also shown.

    python benchmarks/partial_fit.py [--toy]

docs/reference/scale.md has the table that is derived from the raw results.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from nearfar import (
    DCA,
    GMML,
    KISSME,
    PLDA,
    RCA,
    XQDA,
    BoostMetric,
    DRMetric,
    InverseCovariance,
    Metric,
    MetricBoost,
)
from nearfar.measures import knn_error
from protocol import Array, arguments, commit, load, record
from protocol import stored as stored_rows

CLOSED_FORMS = (RCA, DCA, KISSME, XQDA, GMML, PLDA, InverseCovariance)
LEARNERS = [
    *(cls(scale="standard") for cls in CLOSED_FORMS),
    BoostMetric(max_iter=100, n_jobs=1),
    MetricBoost(max_iter=30, n_jobs=1),
    DRMetric(n_jobs=1),
]


def measure(learner: Any, X: Array, y: Array, order: Array) -> dict[str, Any]:
    train, test = np.split(order, [int(0.7 * len(order))])

    def error(metric: Metric) -> float:
        return 100 * knn_error(metric, X[train], y[train], X[test], y[test])

    whole, parts = clone(learner).fit(X[train], y[train]), clone(learner)
    for rows in np.array_split(train, 10):
        parts.partial_fit(X[rows], y[rows])
    M = whole.metric_.matrix
    return {
        "euclidean": error(Metric.identity(X.shape[1])),
        "fit": error(whole.metric_),
        "parts": error(parts.metric_),
        "difference": float(np.abs(parts.metric_.matrix - M).max() / np.abs(M).max()),
    }


def stored() -> list[dict[str, Any]]:
    """Read the raw results."""
    return stored_rows("partial_fit")


def table(rows: list[dict[str, Any]]) -> str:
    """Return the errors in Markdown; closed forms have the same metric either way."""
    by = {(row["learner"], row["parts of"]): row for row in rows}
    plain = [by["RCA", kind]["euclidean"] for kind in ("random", "ordered")]
    lines = [
        "| learner | random rows: one fit | ten parts | rows in order: one fit | ten parts |",
        "| --- | --- | --- | --- | --- |",
        f"| Euclidean distance | {plain[0]:.1f} | | {plain[1]:.1f} | |",
    ]
    closed = {cls.__name__ for cls in CLOSED_FORMS}
    for name in dict.fromkeys(row["learner"] for row in rows if row["learner"] not in closed):
        values = [by[name, kind][how] for kind in ("random", "ordered") for how in ("fit", "parts")]
        lines.append(f"| {name} | {' | '.join(f'{value:.1f}' for value in values)} |")
    return "\n".join(lines)


def main() -> None:
    args = arguments(__doc__)
    X, y = load("digits")
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(X)) for _ in range(args.splits or (1 if args.toy else 3))]
    rows = []
    for learner in LEARNERS[:: 4 if args.toy else 1]:
        name = type(learner).__name__
        for kind, taken in {"random": orders, "ordered": [np.arange(len(X))]}.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = [measure(learner, X, y, order) for order in taken]
            row = {key: float(np.mean([each[key] for each in found])) for key in found[0]}
            rows.append({"learner": name, "parts of": kind, "commit": commit(), **row})
            print(
                f"{name:17} {kind:8} Euclidean {row['euclidean']:.2f} %, one fit "
                f"{row['fit']:.2f} %, ten parts {row['parts']:.2f} %, metrics differ by "
                f"{row['difference']:.0e}",
                flush=True,
            )
    record("partial_fit_toy" if args.toy else "partial_fit", rows)


if __name__ == "__main__":
    main()
