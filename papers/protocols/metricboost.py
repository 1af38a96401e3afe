"""MetricBoost (CVPR 2011): Tables 1 and 2, of all triplets (A).

Five-fold cross-validation, 40 times. The 1-NN figures of Euclidean distance fit training on one
fold and testing on four (reading M1); the printed sentence says the opposite (reading M2).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from papers.task import Folds, Table, Task

SHARED = (
    "M-T12-scale.raw",
    "M-T12-sign.absolute",
    "M-T2-distance.matrix",
    "M-T1-ties.half",
    "M-T1-average.pooled",
    "M-T2-k.one",
    "M-spect.all",
    "M-breast.wdbc",
)
READINGS = {"M1": ("M-T12-folds.one", *SHARED), "M2": ("M-T12-folds.four", *SHARED)}

ROWS = {
    "wine": "wine",
    "spect": "spect",
    "sonar": "sonar",
    "iono": "ionosphere",
    "wdbc": "wdbc",
    "diab": "pima_diabetes",
}
COMPARED: dict[str, tuple[str, dict[str, Any]]] = {
    "Euclid": ("Euclidean", {}),
    "Mahal": ("inverse covariance", {}),
    "ITML A": ("ITML", {"scale": "unit", "validation_fraction": None}),
    "COP A": ("MMC", {"scale": "unit", "validation_fraction": None}),
}
RESPONSES = {"bin A": "binary", "norm A": "normalized"}
RUNS = 200


def tasks() -> Iterator[Task]:
    """Yield the tasks of both tables, under both readings of the folds."""
    for reading, swapped in (("M1", True), ("M2", False)):
        for row, name in ROWS.items():
            shared = (Table(name), Folds(5, swapped), RUNS)
            yield from _row("T1", row, reading, shared, "triplets")
            yield from _row("T2", row, reading, shared, "accuracy")


def _row(
    number: str, row: str, reading: str, shared: tuple[Table, Folds, int], measure: str
) -> Iterator[Task]:
    where = f"metricboost/{number}/{row}"
    for column, (method, parameters) in COMPARED.items():
        cell = f"{where}/{column}"
        yield Task(cell, reading, "reference", *shared, method, parameters, measure, 1)
    for column, response in RESPONSES.items():
        for variant in ("paper", "default"):
            own = {"response": response, "max_iter": 20, "variant": variant}
            cell = f"{where}/{column}"
            yield Task(cell, reading, variant, *shared, "MetricBoost", own, measure, 1)
