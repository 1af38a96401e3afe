"""DRMetric (ECCV 2012): Table 2.

Five-fold cross-validation and the vote of three neighbours. D1 has raw columns and parameters as
they are, D2 standardised columns for the paper's own method; D3 and D4 are the same with alpha, eta
and lambda chosen on a fifth of the training rows. D5 is D2 with FrobMetric as the column called
BoostMetric, whose citation is that paper. Triplets of the paper's variant have far targets,
fewer in large sets. Small sets are cross-validated five times, large ones twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from nearfar import FarTargetTriplets
from papers.protocols.boostmetric import XING
from papers.task import Folds, Table, Task

SHARED = (
    "D-T2-measure.plain",
    "D-T2-characters.all",
    "D-T2-triplets.three",
    "D-T2-matrixboost.metricboost",
    "D-T2-adult.draw",
    "B-T1-vote.nearest",
    "B-T1-xing.none",
)
NAMED = (*SHARED, "D-T2-boostmetric.boostmetric")
READINGS = {
    "D1": (*NAMED, "D-T2-scale.raw", "D-T2-tuning.formula"),
    "D2": (*NAMED, "D-T2-scale.learning", "D-T2-tuning.formula"),
    "D3": (*NAMED, "D-T2-scale.raw", "D-T2-tuning.validation"),
    "D4": (*NAMED, "D-T2-scale.learning", "D-T2-tuning.validation"),
    "D5": (
        *SHARED,
        "D-T2-boostmetric.frobmetric",
        "D-T2-scale.learning",
        "D-T2-tuning.formula",
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
    "COP": ("MMC", XING),
    "BoostMetric": ("BoostMetric", {"variant": "paper"}),
    "MatrixBoost": ("MetricBoost", {"variant": "paper"}),
}


FROBMETRIC: dict[str, Any] = {"scale": "unit", "prior": None, "validation_fraction": None}
LARGE = ("Characters", "Adult", "Digits")
RUNS_OF_LARGE, RUNS_OF_SMALL = 10, 25
"""Folds of two and of five cross-validations."""


def tasks() -> Iterator[Task]:
    """Yield the tasks of Table 2."""
    for row, table in ROWS.items():
        for reading in READINGS:
            yield from _row(row, table, reading)


def _row(row: str, table: Table, reading: str) -> Iterator[Task]:
    split = (Folds(5), RUNS_OF_LARGE if row in LARGE else RUNS_OF_SMALL)
    shared = (table, *split)
    for column, (method, parameters) in COMPARED.items():
        if column == "BoostMetric" and reading == "D5":
            method, parameters = "FrobMetric", FROBMETRIC
        cell = f"drmetric/T2/{row}/{column}"
        yield Task(cell, reading, "reference", *shared, method, parameters, "accuracy")
    method = "DRMetric, tuned" if reading in ("D3", "D4") else "DRMetric"
    far = FarTargetTriplets(1, keep=0.2) if row in LARGE else FarTargetTriplets(3)
    shared = (replace(table, standardise=reading in ("D2", "D4", "D5")), *split)
    own, paper = f"drmetric/T2/{row}/DRMetric", {"variant": "paper", "constraints": far}
    yield Task(own, reading, "paper", *shared, method, paper, "accuracy")
    yield Task(own, reading, "default", *shared, "DRMetric", {}, "accuracy")
