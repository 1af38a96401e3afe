"""MetricBoost (CVPR 2011): Tables 1, 2 and 3, of all triplets (A) and of a subset (S).

Five-fold cross-validation, 40 times. M0 is the text: training on four folds, raw rows, the
eigenvalue of the largest absolute value, and votes in place of M for binary models. The 1-NN
figures of Euclidean distance fit training on one fold and testing on four.

- M2: M0 with the distance of M for binary models, too
- M1: M2 with one fold for training; M3 to M5 are M1 with standardised rows for learning (M3), the
  largest eigenvalue (M5), or both (M4)
- M7: M4 with votes; M8: M4 with PSDBoost as the row called BoostMetric

Table 3: both methods learn from the same triplets, 20 iterations; M6 takes all triplets of a part
of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from papers.protocols.boostmetric import XING
from papers.task import BY_VOTES, AllRows, Folds, Split, Table, Task

SHARED = (
    "M-T1-ties.half",
    "M-T1-average.pooled",
    "M-T2-k.one",
    "M-T12-subset.uniform",
    "M-spect.all",
    "M-breast.wdbc",
    "B-T1-xing.none",
)
MATRIX = ("M-T2-distance.matrix", "M-T12-boostmetric.boostmetric", *SHARED)
VOTES = ("M-T2-distance.votes", "M-T12-boostmetric.boostmetric", *SHARED)
ABSOLUTE = ("M-T12-scale.raw", "M-T12-sign.absolute")
SIGNED = ("M-T12-folds.one", "M-T12-scale.standard", "M-T12-sign.signed")
READINGS = {
    "M0": ("M-T12-folds.four", *ABSOLUTE, *VOTES),
    "M2": ("M-T12-folds.four", *ABSOLUTE, *MATRIX),
    "M1": ("M-T12-folds.one", *ABSOLUTE, *MATRIX),
    "M3": ("M-T12-folds.one", "M-T12-scale.standard", "M-T12-sign.absolute", *MATRIX),
    "M4": (*SIGNED, *MATRIX),
    "M5": ("M-T12-folds.one", "M-T12-scale.raw", "M-T12-sign.signed", *MATRIX),
    "M7": (*SIGNED, *VOTES),
    "M8": (*SIGNED, "M-T2-distance.matrix", "M-T12-boostmetric.psdboost", *SHARED),
    "M6": ("M-T3-subset.bipartite", "M-T12-scale.raw", "M-T12-sign.absolute"),
}
WHOLE = tuple(READINGS)[:-1]

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
PSDBOOST: dict[str, Any] = {**FIT, "prior": None, "max_iter": 20}
RUNS = 200
RUNS_OF_TIME = 40


def tasks() -> Iterator[Task]:
    """Yield the tasks of the tables."""
    for row, name in ROWS.items():
        for reading in WHOLE:
            split = Folds(5, swapped=reading not in ("M0", "M2"))
            yield from _row("T1", row, reading, Table(name), split, "triplets")
            yield from _row("T2", row, reading, Table(name), split, "accuracy")
    for row, name in ROWS.items():
        for reading in ("M0", "M6"):
            yield from _times("breast" if row == "wdbc" else row, Table(name), reading)


def _row(
    number: str, row: str, reading: str, table: Table, split: Split, measure: str
) -> Iterator[Task]:
    where = f"metricboost/{number}/{row}"
    for column, (method, parameters) in COMPARED.items():
        if column == "BoostMetric S" and reading == "M8":
            method, parameters = "PSDBoost, 0.5 % of triplets, tuned", PSDBOOST
        shared = (table, split, RUNS, method, parameters, measure, 1)
        yield Task(f"{where}/{column}", reading, "reference", *shared)
    for column, (method, response) in RESPONSES.items():
        parameters = _as_printed(reading, response)
        learned = Table(table.name, standardise=reading in ("M3", "M4", "M7", "M8"))
        votes = response == "binary" and reading in ("M0", "M7")
        shared = (learned, split, RUNS, method, parameters, measure + BY_VOTES * votes, 1)
        yield Task(f"{where}/{column}", reading, "paper", *shared)
        if reading not in ("M0", "M2"):
            default = {"response": response, "max_iter": 20}
            shared = (table, split, RUNS, method, default, measure, 1)
            yield Task(f"{where}/{column}", reading, "default", *shared)


def _as_printed(reading: str, response: str) -> dict[str, Any]:
    chosen = {"response": response, "max_iter": 20}
    if reading in ("M4", "M5", "M7", "M8"):
        signed = {"scale": None, "prior": None, "threshold": "gaussian"}
        return {**chosen, **signed, "validation_fraction": None}
    return {**chosen, "variant": "paper"}


def _times(row: str, table: Table, reading: str) -> Iterator[Task]:
    kinds = ("0.5 % of triplets",) * 2 if reading == "M0" else ("rows of T3", "triplets of T3")
    shared = (table, AllRows(), RUNS_OF_TIME)
    where = f"metricboost/T3/{row}"
    own = {"response": "binary", "max_iter": 20}
    paper, default = {**own, "variant": "paper"}, own
    for variant, parameters in (("paper", paper), ("default", default)):
        method = f"MetricBoost, {kinds[0]}"
        yield Task(f"{where}/own s", reading, variant, *shared, method, parameters, "seconds")
    method, other = f"BoostMetric, {kinds[1]}", {"variant": "paper", "max_iter": 20}
    yield Task(f"{where}/BoostMetric s", reading, "reference", *shared, method, other, "seconds")
