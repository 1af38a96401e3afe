"""BoostMetric (NIPS 2009): Tables 1 and 2, and the numbers of Figure 2.

Test rows are floor(0.3 n), which gives the printed means of nine rows. Dimensions of principal
components, the size of the MNIST sample and the scaling are not printed; see readings.toml. Small
sets have 50 runs instead of the paper's ten, so that our mean is the more exact one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from nearfar import NearestTriplets
from papers.task import OtherSplit, RandomSplit, StoredSplit, Table, Task, Words

DRAWN = ("B-T1-split.floor30", "B-T1-draw.plain", "B-T1-vote.nearest")
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
        "B-T1-vote.nearest",
        "B-T1-neighbours.three",
        "B-T1-triplets.product",
        "B-T1-orl-k.one",
        "B-T1-solver.exact",
        "B-T1-stop.last",
        "B-T1-xing.none",
        "B-T2-split.floor30",
        "B-F2-features.dog",
    ),
    "B3": (*DRAWN, "B-T1-orl.full-42-22", "B-T1-orl-k.three", "B-T1-neighbours.three"),
    "B4": (*DRAWN, "B-T1-orl.full-42-22", "B-T1-orl-k.one", "B-T1-neighbours.one"),
    "B2": (*DRAWN, "B-T1-scale.interval", "B-T1-neighbours.three"),
    "B5": (*DRAWN, "B-T1-scale.raw", "B-T1-neighbours.three", "B-T1-xing.prior"),
    "B7": (*DRAWN, "B-T1-scale.mixed", "B-T1-neighbours.three", "B-T1-stop.test"),
    "B6": (
        "B-T1-draw.plain",
        "B-T1-vote.nearest",
        "B-T1-scale.raw",
        "B-T1-neighbours.three",
        "B-T1-large-split.half",
        "B-T1-mnist.15000-pca40",
    ),
}
"""Candidates of readings. Where they name no other, they are B1.

B2 has scaled rows, B3 three targets for faces, B4 one neighbour for pictures, B5 a prior for Xing's
method, B6 half of the letters for training and 15,000 rows of MNIST, and B7 scaled rows as in B2
and for each run the iteration that is best on the test rows.
"""

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
PICTURES = ("USPS-1", "USPS-2", "ORL-1", "ORL-2", "MNIST", "COIL20")
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
RUNS = 10
RUNS_OF_SMALL = 50
PENALTIES = ("1e-8", "1e-7", "1e-6", "1e-5", "1e-4")


def tasks() -> Iterator[Task]:
    """Yield the tasks of both tables."""
    for row, table in ROWS.items():
        yield from _row(row, table, "B1")
        if row.startswith("ORL"):
            yield from _row(row, table, "B3")
        if row in PICTURES:
            yield from _row(row, table, "B4")
        if row in SMALL:
            yield from _compared(row, table, "B5")
        if row in SCALED:
            yield from _row(row, replace(table, interval=True), "B2")
    yield from _row("Letters", ROWS["Letters"], "B6")
    yield from _row("MNIST", Table("mnist", components=40, sample=15_000), "B6")
    for row in SMALL:
        table = replace(ROWS[row], interval=row in SCALED)
        yield from _compared(row, table, "B7")
        shared = (*_shared(row, table, "B7"), "BoostMetric, staged", {"variant": "paper"})
        yield Task(f"boostmetric/T1/{row}/BoostMetric", "B7", "paper", *shared, "least error")
    for row in ("Bal", "BCancer", "Diabetes"):
        for v in PENALTIES:
            cell, given = f"boostmetric/T2/{row}/v={v}", (ROWS[row], OtherSplit(0.3), RUNS_OF_SMALL)
            for variant in ("paper", "default"):
                parameters = {"variant": variant, "penalty": float(v)}
                yield Task(cell, "B1", variant, *given, "BoostMetric", parameters)
            staged = (replace(given[0], interval=row in SCALED), *given[1:], "BoostMetric, staged")
            parameters = {"variant": "paper", "penalty": float(v)}
            yield Task(cell, "B7", "paper", *staged, parameters, "least error")
    for words in (100, 200):
        yield from _pictures(words)


def _pictures(words: int) -> Iterator[Task]:
    shared = (Words("caltech4_motor_air", number=words), StoredSplit(), RUNS)
    where = f"boostmetric/Fig2/text/{words}w"
    compared = {"Euclid": COMPARED["Euclid"], "LMNN": COMPARED["LMNN"]} if words == 100 else {}
    for column, (method, parameters) in compared.items():
        yield Task(f"{where}/{column}", "B1", "reference", *shared, method, parameters)
    yield Task(f"{where}/SVM", "B1", "reference", *shared, "SVM, tuned", {"kernel": "linear"})
    own = f"{where}/BoostMetric"
    yield Task(own, "B1", "paper", *shared, "BoostMetric", {"variant": "paper"})
    yield Task(own, "B1", "default", *shared, "BoostMetric")


def _row(row: str, table: Table, reading: str) -> Iterator[Task]:
    yield from _compared(row, table, reading)
    own = f"boostmetric/T1/{row}/BoostMetric"
    k = 1 if row in FEW_TARGETS and reading != "B3" else 3
    paper = {"variant": "paper", "constraints": NearestTriplets(k, k)}
    near = 1 if reading == "B4" else 3
    shared = _shared(row, table, reading)
    yield Task(own, reading, "paper", *shared, "BoostMetric", paper, n_neighbors=near)
    yield Task(own, reading, "default", *shared, "BoostMetric", n_neighbors=near)


def _compared(row: str, table: Table, reading: str) -> Iterator[Task]:
    for column, (method, settings) in COMPARED.items():
        if row in PRINTED_FOR.get(column, ROWS):
            cell = f"boostmetric/T1/{row}/{column}"
            prior = method == "MMC" and reading == "B5"
            parameters = {"scale": "unit"} if prior else settings
            k = 1 if reading == "B4" else 3
            shared = (*_shared(row, table, reading), method, parameters)
            yield Task(cell, reading, "reference", *shared, n_neighbors=k)


def _shared(row: str, table: Table, reading: str) -> tuple[Table, RandomSplit, int]:
    if row == "USPS-1":
        return table, RandomSplit(0.5), 1
    if row == "Letters" and reading == "B6":
        return table, RandomSplit(0.5), RUNS
    return table, RandomSplit(0.3), RUNS_OF_SMALL if row in SMALL else RUNS
