"""BoostMetric (NIPS 2009): Tables 1 and 2, and the numbers of Figure 2.

Test rows are floor(0.3 n), which gives the printed means of nine rows. Dimensions of principal
components, the size of the MNIST sample and the scaling are not printed; see readings.toml.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from nearfar import NearestTriplets
from papers.task import OtherSplit, RandomSplit, StoredSplit, Table, Task, Words

READINGS = {
    "B1": (
        "B-T1-split.floor30",
        "B-T1-draw.plain",
        "B-T1-large-split.floor30",
        "B-T1-usps1.half11000",
        "B-T1-usps2.11000-pca60",
        "B-T1-orl.full-42-22",
        "B-T1-mnist.10000-pca60",
        "B-T1-coil.pca30",
        "B-T1-pca.training",
        "B-T1-scale.raw",
        "B-T1-vote.smallest",
        "B-T1-triplets.product",
        "B-T1-orl-k.one",
        "B-T1-solver.exact",
        "B-T2-split.floor30",
        "B-F2-features.dog",
    ),
    "B3": ("B-T1-orl.full-42-22", "B-T1-orl-k.three", "B-T1-split.floor30", "B-T1-draw.plain"),
    "B2": ("B-T1-split.floor30", "B-T1-draw.plain", "B-T1-scale.interval", "B-T1-vote.smallest"),
}
"""Candidates of readings; B2 has scaled rows, B3 three targets for faces; else they are B1."""

ROWS = {
    "USPS-1": Table("usps_11000"),
    "USPS-2": Table("usps_11000", components=60),
    "ORL-1": Table("orl_112x92", components=42),
    "ORL-2": Table("orl_112x92", components=22),
    "MNIST": Table("mnist", components=60, sample=10_000),
    "COIL20": Table("coil20", components=30),
    "Letters": Table("letter"),
    "Wine": Table("wine"),
    "Bal": Table("balance_scale"),
    "Iris": Table("iris"),
    "Vehicle": Table("vehicle"),
    "BCancer": Table("breast_cancer_wisconsin"),
    "Diabetes": Table("pima_diabetes"),
    "TwinPeaks": Table("twin_peaks"),
    "Helix": Table("helix"),
}
FEW_TARGETS = ("USPS-1", "ORL-1", "ORL-2")
SCALED = ("Letters", "Vehicle", "Diabetes")
XING: dict[str, Any] = {
    "scale": "unit",
    "prior": None,
    "shrinkage": 0.0,
    "validation_fraction": None,
}
"""Xing's method has no prior."""
COMPARED: dict[str, tuple[str, dict[str, Any]]] = {
    "Euclid": ("Euclidean", {}),
    "RCA": ("RCA", {"scale": "unit", "shrinkage": 0.0}),
    "NCA": ("NCA", {"scale": "unit", "validation_fraction": None}),
    "LMNN": ("LMNN", {"scale": "unit", "validation_fraction": None}),
    "Xing": ("MMC", XING),
}
SMALL = ("Wine", "Bal", "Iris", "Vehicle", "BCancer", "Diabetes")
PRINTED_FOR = {"Xing": SMALL, "NCA": (*SMALL, "ORL-1", "ORL-2")}
PENALTIES = ("1e-8", "1e-7", "1e-6", "1e-5", "1e-4")


def tasks() -> Iterator[Task]:
    """Yield the tasks of both tables."""
    for row, table in ROWS.items():
        yield from _row(row, table, "B1")
        if row.startswith("ORL"):
            yield from _row(row, table, "B3")
        if row in SCALED:
            yield from _row(row, replace(table, interval=True), "B2")
    for row in ("Bal", "BCancer", "Diabetes"):
        for v in PENALTIES:
            cell, shared = f"boostmetric/T2/{row}/v={v}", (ROWS[row], OtherSplit(0.3), 10)
            for variant in ("paper", "default"):
                parameters = {"variant": variant, "penalty": float(v)}
                yield Task(cell, "B1", variant, *shared, "BoostMetric", parameters)
    for words in (100, 200):
        yield from _pictures(words)


def _pictures(words: int) -> Iterator[Task]:
    shared = (Words("caltech4_motor_air", number=words), StoredSplit(), 10)
    where = f"boostmetric/Fig2/text/{words}w"
    compared = {"Euclid": COMPARED["Euclid"], "LMNN": COMPARED["LMNN"]} if words == 100 else {}
    for column, (method, parameters) in compared.items():
        yield Task(f"{where}/{column}", "B1", "reference", *shared, method, parameters)
    yield Task(f"{where}/SVM", "B1", "reference", *shared, "SVM, tuned", {"kernel": "linear"})
    own = f"{where}/BoostMetric"
    yield Task(own, "B1", "paper", *shared, "BoostMetric", {"variant": "paper"})
    yield Task(own, "B1", "default", *shared, "BoostMetric")


def _row(row: str, table: Table, reading: str) -> Iterator[Task]:
    once = row == "USPS-1"
    shared = (table, RandomSplit(0.5 if once else 0.3), 1 if once else 10)
    for column, (method, parameters) in COMPARED.items():
        if row in PRINTED_FOR.get(column, ROWS):
            cell = f"boostmetric/T1/{row}/{column}"
            yield Task(cell, reading, "reference", *shared, method, parameters)
    own = f"boostmetric/T1/{row}/BoostMetric"
    k = 1 if row in FEW_TARGETS and reading != "B3" else 3
    paper = {"variant": "paper", "constraints": NearestTriplets(k, k)}
    yield Task(own, reading, "paper", *shared, "BoostMetric", paper)
    yield Task(own, reading, "default", *shared, "BoostMetric")
