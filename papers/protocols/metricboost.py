"""MetricBoost (CVPR 2011): Tables 1, 2 and 3, of all triplets (A) and of a subset (S).

Five-fold cross-validation, 40 times. The 1-NN figures of Euclidean distance fit training on one
fold and testing on four (reading M1, listed second); the printed sentence says the opposite (M2).
M3 to M5 are M1 with standardised rows for learning, the largest eigenvalue, or both. Table 3: both
methods learn from the same triplets, 20 iterations; M6 takes all triplets of a part of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from papers.protocols.boostmetric import XING
from papers.task import AllRows, Folds, Split, Table, Task

SHARED = (
    "M-T2-distance.matrix",
    "M-T1-ties.half",
    "M-T1-average.pooled",
    "M-T2-k.one",
    "M-T12-subset.uniform",
    "M-T12-boostmetric.boostmetric",
    "M-spect.all",
    "M-breast.wdbc",
    "B-T1-xing.none",
)
READINGS = {
    "M2": ("M-T12-folds.four", "M-T12-scale.raw", "M-T12-sign.absolute", *SHARED),
    "M1": ("M-T12-folds.one", "M-T12-scale.raw", "M-T12-sign.absolute", *SHARED),
    "M3": ("M-T12-folds.one", "M-T12-scale.standard", "M-T12-sign.absolute", *SHARED),
    "M4": ("M-T12-folds.one", "M-T12-scale.standard", "M-T12-sign.signed", *SHARED),
    "M5": ("M-T12-folds.one", "M-T12-scale.raw", "M-T12-sign.signed", *SHARED),
    "M6": ("M-T3-subset.bipartite", "M-T12-scale.raw", "M-T12-sign.absolute"),
}

ROWS = {
    "wine": "wine",
    "spect": "spect",
    "sonar": "sonar",
    "iono": "ionosphere",
    "wdbc": "wdbc",
    "diab": "pima_diabetes",
}
FIT: dict[str, Any] = {"scale": "unit", "validation_fraction": None}
COMPARED: dict[str, tuple[str, dict[str, Any]]] = {
    "Euclid": ("Euclidean", {}),
    "Mahal": ("inverse covariance", {}),
    "ITML A": ("ITML, all pairs, tuned", FIT),
    "ITML S": ("ITML, 5 % of pairs, tuned", FIT),
    "COP A": ("MMC, all pairs", XING),
    "COP S": ("MMC, 5 % of pairs", XING),
    "BoostMetric S": ("BoostMetric, 0.5 % of triplets", {"variant": "paper", "max_iter": 20}),
}
RESPONSES = {
    "bin A": ("MetricBoost", "binary"),
    "bin S": ("MetricBoost, 0.5 % of triplets", "binary"),
    "norm A": ("MetricBoost", "normalized"),
    "norm S": ("MetricBoost, 0.5 % of triplets", "normalized"),
}
RUNS = 200
RUNS_OF_TIME = 40


def tasks() -> Iterator[Task]:
    """Yield the tasks of the tables."""
    for row, name in ROWS.items():
        for reading in list(READINGS)[:-1]:
            split = Folds(5, swapped=reading != "M2")
            yield from _row("T1", row, reading, Table(name), split, "triplets")
            yield from _row("T2", row, reading, Table(name), split, "accuracy")
    for row, name in ROWS.items():
        for reading in ("M2", "M6"):
            yield from _times("breast" if row == "wdbc" else row, Table(name), reading)


def _row(
    number: str, row: str, reading: str, table: Table, split: Split, measure: str
) -> Iterator[Task]:
    where = f"metricboost/{number}/{row}"
    for column, (method, parameters) in COMPARED.items():
        shared = (table, split, RUNS, method, parameters, measure, 1)
        yield Task(f"{where}/{column}", reading, "reference", *shared)
    for column, (method, response) in RESPONSES.items():
        parameters = _as_printed(reading, response)
        learned = Table(table.name, standardise=reading in ("M3", "M4"))
        shared = (learned, split, RUNS, method, parameters, measure, 1)
        yield Task(f"{where}/{column}", reading, "paper", *shared)
        default = {"response": response, "max_iter": 20}
        shared = (table, split, RUNS, method, default, measure, 1)
        yield Task(f"{where}/{column}", reading, "default", *shared)


def _as_printed(reading: str, response: str) -> dict[str, Any]:
    chosen = {"response": response, "max_iter": 20}
    if reading in ("M4", "M5"):
        signed = {"scale": None, "prior": None, "threshold": "gaussian"}
        return {**chosen, **signed, "validation_fraction": None}
    return {**chosen, "variant": "paper"}


def _times(row: str, table: Table, reading: str) -> Iterator[Task]:
    kinds = ("0.5 % of triplets",) * 2 if reading == "M2" else ("rows of T3", "triplets of T3")
    shared = (table, AllRows(), RUNS_OF_TIME)
    where = f"metricboost/T3/{row}"
    own = {"response": "binary", "max_iter": 20}
    paper, default = {**own, "variant": "paper"}, own
    for variant, parameters in (("paper", paper), ("default", default)):
        method = f"MetricBoost, {kinds[0]}"
        yield Task(f"{where}/own s", reading, variant, *shared, method, parameters, "seconds")
    method, other = f"BoostMetric, {kinds[1]}", {"variant": "paper", "max_iter": 20}
    yield Task(f"{where}/BoostMetric s", reading, "reference", *shared, method, other, "seconds")
