"""msNCA (CVPR 2011): Tables 1 and 2, and the two figures of the text with five pictures.

Table 1: ten-fold cross-validation, five times for small sets. Table 2: 30 eigenfaces, seven
training pictures of each person. The number of neighbours, the start and the number of iterations
are not printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from papers.task import Folds, PerClass, Split, Table, Task, Whitened

SHARED = (
    "N-T1-scale.standard",
    "N-T1-segment.all",
    "N-T1-iono.34",
    "N-T2-runs.printed",
    "N-T2-pictures.full",
    "N-text-test.five",
    "B-T1-vote.nearest",
)
PLAIN = (*SHARED, "N-T2-pca.training")
READINGS = {
    "N1": (*PLAIN, "N-T1-k.three", "N-T2-k.three", "N-T1-fit.identity"),
    "N2": (*PLAIN, "N-T1-k.one", "N-T2-k.one", "N-T1-fit.identity"),
    "N3": (*PLAIN, "N-T1-k.three", "N-T2-k.three", "N-T1-fit.long"),
    "N4": (*SHARED, "N-T2-pca.learning", "N-T2-k.three", "N-T1-fit.identity"),
}
"""N2 has one neighbour, N3 more iterations, and in N4 the own method learns from whitened faces."""

ROWS = {
    "iris": Table("iris", standardise=True),
    "wine": Table("wine", standardise=True),
    "segment": Table("segmentation_2310", standardise=True),
    "iono": Table("ionosphere", standardise=True),
    "vehicle": Table("vehicle", standardise=True),
    "waveform": Table("waveform", standardise=True),
}
FACES = {
    "Yale": Table("yale_full", components=30),
    "AT&T": Table("orl_112x92", components=30),
}
COMPARED: dict[str, tuple[str, dict[str, Any]]] = {
    "kNN": ("Euclidean", {}),
    "SVM": ("SVM", {"kernel": "linear"}),
    "LMNN": ("LMNN", {"scale": "unit", "validation_fraction": None}),
    "ITML": ("ITML", {"scale": "unit", "validation_fraction": None}),
    "NCA": ("NCA", {"scale": "unit", "validation_fraction": None}),
}
OWN: dict[str, dict[str, Any]] = {
    "paper": {
        "n_metrics": 4,
        "variant": "paper",
        "sparsity": 0.02,
        "gate_sparsity": 0.02,
        "max_iter": 100,
    },
    "default": {"n_metrics": 4},
}


LONG = ("iris", "wine", "iono", "vehicle", "Yale", "AT&T")
"""Rows whose fits are short enough for ten times the iterations."""


RUNS_OF_SMALL = 50
"""Folds of five cross-validations."""


def tasks() -> Iterator[Task]:
    """Yield the tasks of both tables, and of the text."""
    for row, table in ROWS.items():
        for reading in READINGS:
            if reading in ("N1", "N2") or (reading == "N3" and row in LONG):
                runs = RUNS_OF_SMALL if row in LONG else 10
                yield from _row("T1", row, reading, table, Folds(10), runs)
    for row, table in FACES.items():
        for reading in READINGS:
            yield from _row("T2", row, reading, table, PerClass(7), 50)
            five = (table, PerClass(5, tested=5), 50)
            yield from _own(f"msnca/text/{row} 5/5/msNCA", reading, *five)


def _row(
    number: str, row: str, reading: str, table: Table, split: Split, runs: int
) -> Iterator[Task]:
    k = 1 if reading == "N2" else 3
    for column, (method, parameters) in COMPARED.items():
        cell = f"msnca/{number}/{row}/{column}"
        shared = (table, split, runs, method, parameters, "accuracy", k)
        yield Task(cell, reading, "reference", *shared)
    yield from _own(f"msnca/{number}/{row}/msNCA", reading, table, split, runs)


def _own(cell: str, reading: str, table: Table, split: Split, runs: int) -> Iterator[Task]:
    k = 1 if reading == "N2" else 3
    if reading == "N4":
        table = Whitened(table.name, components=table.components)
    for variant, settings in OWN.items():
        parameters = dict(settings)
        if variant == "paper" and reading == "N3":
            parameters["max_iter"] = 1000
        shared = (table, split, runs, "MixtureNCA", parameters, "accuracy", k)
        yield Task(cell, reading, variant, *shared)
