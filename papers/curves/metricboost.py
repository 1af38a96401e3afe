"""MetricBoost: seconds beside BoostMetric (Table 3), and pairs in place of triplets."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import make_classification

from nearfar import MetricBoost, Triplets
from papers.curves.curve import Curve, Panels, cpu_seconds, line
from papers.methods import METHODS
from papers.protocols.metricboost import ROWS
from papers.supervision import number_of_triplets
from papers.task import Array, Table

ITERATIONS = 20
SIGNED: dict[str, Any] = {
    "response": "normalized",
    "threshold": "gaussian",
    "scale": None,
    "prior": None,
    "validation_fraction": None,
    "max_iter": ITERATIONS,
    "tol": 0.0,
}
"""With these, all iterations are done; binary weak models end after two of them on some sets."""
PLAIN: dict[str, Any] = {"variant": "paper", "max_iter": ITERATIONS, "tol": 0.0}
KINDS = {
    "the same random 0.5 % of triplets": ("0.5 % of triplets", "0.5 % of triplets"),
    "all triplets of some rows": ("rows of T3", "triplets of T3"),
}
NUMBERS = (50, 100, 150, 200, 250, 300)


def table_3(run: int) -> Panels:
    """Seconds of 20 iterations on six sets, by their number of triplets."""
    panels: Panels = {}
    sets = {name: Table(name).load() for name in ROWS.values()}
    names = sorted(sets, key=lambda name: number_of_triplets(sets[name][1]))
    for title, (own, theirs) in KINDS.items():
        methods: dict[str, tuple[str, dict[str, Any]]] = {
            "MetricBoost": (f"MetricBoost, {own}", SIGNED),
            "BoostMetric": (f"BoostMetric, {theirs}", PLAIN),
        }
        lines = {
            name: [seconds(*sets[each], *method, run) for each in names]
            for name, method in methods.items()
        }
        panels[title] = {
            "xlabel": f"set: {', '.join(names)}",
            "ylabel": "seconds of one core, 20 iterations",
            "lines": {name: line(range(1, 7), values) for name, values in lines.items()},
        }
    return panels


def seconds(X: Array, y: Array, method: str, parameters: Mapping[str, Any], run: int) -> float:
    """Return the seconds that 20 iterations take; of a fit that ends before, in proportion."""
    iterations = 0

    def fit() -> None:
        nonlocal iterations
        iterations = METHODS[method](X, y, parameters, run).iterations

    return cpu_seconds(fit) * ITERATIONS / max(1, iterations)


def pairs(run: int) -> Panels:
    """Seconds of 20 iterations by the number of rows: sums over pairs, and listed triplets."""
    found: dict[str, list[float]] = {"MetricBoost by pairs": [], "MetricBoost by triplets": []}
    for number in NUMBERS:
        X, y = make_classification(number, 20, n_informative=10, random_state=run)
        i, j, k = np.nonzero((y[:, None] == y)[:, :, None] & (y[:, None] != y)[:, None, :])
        triplets = np.column_stack([i, j, k])[i != j]
        real = {**SIGNED, "response": "real"}
        fits = {
            "MetricBoost by pairs": partial(MetricBoost(**real).fit, X, y),
            "MetricBoost by triplets": partial(MetricBoost(**real).fit, X, Triplets(triplets)),
        }
        for name, fit in fits.items():
            found[name].append(cpu_seconds(fit))
    lines = {name: line(NUMBERS, values) for name, values in found.items()}
    return {"": {"xlabel": "rows", "ylabel": "seconds of one core", "lines": lines}}


CURVES = (
    Curve(
        "metricboost/T3",
        table_3,
        40,
        ("MetricBoost", "BoostMetric"),
        shows="Training time of MetricBoost and BoostMetric with the same triplets (Table 3).",
    ),
    Curve(
        "metricboost/pairs",
        pairs,
        10,
        ("MetricBoost",),
        shows="Time of MetricBoost by sums over pairs, and with its triplets listed (section 4).",
    ),
)
