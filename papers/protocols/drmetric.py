"""DRMetric (ECCV 2012): Table 2.

Five-fold cross-validation and the vote of three neighbours. Parameters are not tuned on the
training rows here; triplets of the paper's variant have far targets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from papers.task import Folds, Table, Task

READINGS = {
    "D1": (
        "D-T2-measure.plain",
        "D-T2-characters.all",
        "D-T2-scale.raw",
        "D-T2-triplets.three",
        "D-T2-boostmetric.boostmetric",
        "D-T2-matrixboost.metricboost",
        "D-T2-adult.draw",
    ),
}

ROWS = {
    "Characters": Table("artificial_characters"),
    "Glass": Table("glass"),
    "Adult": Table("adult", sample=12_000),
    "Digits": Table("optdigits"),
    "Wine": Table("wine"),
}
COMPARED: dict[str, tuple[str, dict[str, Any]]] = {
    "Euclid": ("Euclidean", {}),
    "L1": ("L1", {}),
    "chi2": ("chi-square", {}),
    "ITML": ("ITML", {"scale": "unit", "validation_fraction": None}),
    "COP": ("MMC", {"scale": "unit", "validation_fraction": None}),
    "BoostMetric": ("BoostMetric", {"variant": "paper"}),
    "MatrixBoost": ("MetricBoost", {"variant": "paper"}),
}


def tasks() -> Iterator[Task]:
    """Yield the tasks of Table 2."""
    for row, table in ROWS.items():
        shared = (table, Folds(5), 5)
        for column, (method, parameters) in COMPARED.items():
            cell = f"drmetric/T2/{row}/{column}"
            yield Task(cell, "D1", "reference", *shared, method, parameters, "accuracy")
        own = f"drmetric/T2/{row}/DRMetric"
        yield Task(own, "D1", "paper", *shared, "DRMetric", {"variant": "paper"}, "accuracy")
        yield Task(own, "D1", "default", *shared, "DRMetric", {}, "accuracy")
