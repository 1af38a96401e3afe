"""msNCA (CVPR 2011): Tables 1 and 2, and the two figures of the text with five pictures.

Table 1: ten-fold cross-validation. Table 2: 30 eigenfaces, seven training pictures of each person.
The number of neighbours, the start and the number of iterations are not printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from papers.task import Folds, PerClass, Split, Table, Task

READINGS = {
    "N1": (
        "N-T1-k.three",
        "N-T1-scale.standard",
        "N-T1-segment.all",
        "N-T1-iono.34",
        "N-T1-fit.identity",
        "N-T2-runs.printed",
        "N-T2-k.three",
        "N-T2-pictures.full",
        "N-T2-pca.training",
    ),
}

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


def tasks() -> Iterator[Task]:
    """Yield the tasks of both tables, and of the text."""
    for row, table in ROWS.items():
        yield from _row("T1", row, table, Folds(10), 10)
    for row, table in FACES.items():
        yield from _row("T2", row, table, PerClass(7), 50)
        yield from _own(f"msnca/text/{row} 5/5/msNCA", table, PerClass(5), 50)


def _row(number: str, row: str, table: Table, split: Split, runs: int) -> Iterator[Task]:
    for column, (method, parameters) in COMPARED.items():
        cell = f"msnca/{number}/{row}/{column}"
        yield Task(cell, "N1", "reference", table, split, runs, method, parameters, "accuracy")
    yield from _own(f"msnca/{number}/{row}/msNCA", table, split, runs)


def _own(cell: str, table: Table, split: Split, runs: int) -> Iterator[Task]:
    for variant, parameters in OWN.items():
        yield Task(cell, "N1", variant, table, split, runs, "MixtureNCA", parameters, "accuracy")
