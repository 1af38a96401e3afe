"""Fits of the frontier: every method on every set.

    python -m papers frontier [--set NAME] [--method NAME] [--splits N] [--limit S]
                              [--python PATH] [--torch PATH]

Methods have the default parameters of their library and see the same rows: tables are standardised
by the training rows, pictures and sentences are principal components of all rows. metric-learn
needs an older scikit-learn, and pytorch-metric-learning needs torch: both have an interpreter of
their own (--python or NEARFAR_METRIC_LEARN, --torch or NEARFAR_TORCH). A line of `results.jsonl` is
one fit: CPU seconds, and the 3-NN error on the other rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedShuffleSplit

import nearfar
from nearfar import datasets
from papers.results import environment
from papers.task import Array

RESULTS = Path(__file__).parent / "results.jsonl"
WORKER = Path(__file__).parents[2] / "benchmarks" / "workers" / "timed_fit.py"
SPLITS = 3
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

Line = dict[str, Any]


@dataclass(frozen=True)
class Rows:
    """A set of the frontier: its name, the most rows, and the number of principal components."""

    name: str
    most: int = 1000
    components: int | None = None

    def load(self) -> tuple[Array, Array]:
        """Return at most so many rows, as they are or as principal components, and labels."""
        data = datasets.load(self.name)
        X = np.asarray(data.extra.get("X_filled", data.X), dtype=np.float64)
        y = np.unique(np.asarray(data.y), return_inverse=True)[1]
        if len(X) > self.most:
            split = StratifiedShuffleSplit(1, train_size=self.most, random_state=0)
            kept = np.sort(next(split.split(y, y))[0])
            X, y = X[kept], y[kept]
        if self.components is None:
            return X, y
        return PCA(self.components, random_state=0).fit_transform(X), y


SETS = (
    *(
        Rows(name)
        for name in (
            "iris",
            "wine",
            "sonar",
            "glass",
            "balance_scale",
            "ionosphere",
            "wdbc",
            "breast_cancer_wisconsin",
            "pima_diabetes",
            "vehicle",
            "spect",
            "segmentation_2310",
            "waveform",
            "letter",
        )
    ),
    Rows("usps_11000", components=60),
    Rows("mnist", components=60),
    Rows("clinc150_emb256", components=100),
)
METHODS = {
    "Euclidean": ("sklearn.preprocessing", "FunctionTransformer"),
    **{
        f"nearfar {name}": ("nearfar", name)
        for name in (
            "AutoMetric",
            "BoostMetric",
            "MetricBoost",
            "DRMetric",
            "MaxMarginMetric",
            "SparseNCA",
            "NCA",
            "LMNN",
            "ITML",
            "MMC",
            "LSML",
            "RCA",
            "DCA",
            "LDA",
            "LFDA",
            "KISSME",
            "XQDA",
            "GMML",
            "PLDA",
            "PSDBoost",
            "FrobMetric",
            "InverseCovariance",
        )
    },
    "scikit-learn NCA": ("sklearn.neighbors", "NeighborhoodComponentsAnalysis"),
    "scikit-learn LDA": ("sklearn.discriminant_analysis", "LinearDiscriminantAnalysis"),
    **{
        f"metric-learn {name.removesuffix('_Supervised')}": ("metric_learn", name)
        for name in (
            "Covariance",
            "RCA_Supervised",
            "LFDA",
            "NCA",
            "LMNN",
            "ITML_Supervised",
            "MMC_Supervised",
            "LSML_Supervised",
            "SDML_Supervised",
            "SCML_Supervised",
        )
    },
    "pytorch-metric-learning triplets": ("torch_linear", "TripletMap"),
}
"""Module and class by name. MixtureNCA has no single map, and MLKR learns from numbers."""


@dataclass(frozen=True)
class Interpreters:
    """Programs that run what the project's own environment cannot; None leaves it out."""

    metric_learn: str | None = None
    torch: str | None = None

    def of(self, method: str) -> str | None:
        """Return the program of a method."""
        others = {"metric_learn": self.metric_learn, "torch_linear": self.torch}
        return others.get(METHODS[method][0], sys.executable)


def parameters(method: str) -> dict[str, str]:
    """Return the parameters of a method of nearfar as text; the seed is the split's number."""
    module, name = METHODS[method]
    if module != "nearfar":
        return {}
    found = getattr(nearfar, name)().get_params()
    # No set has more training rows than are all learned from, whatever `max_rows` is.
    unused = ("random_state", "n_jobs", "max_rows", "line_search")
    return {key: str(value) for key, value in found.items() if key not in unused}


def is_stale(line: Line) -> bool:
    """Return whether a fit had other default parameters than today's."""
    return bool(line["parameters"] != parameters(line["method"]))


def stored() -> list[Line]:
    """Return the last stored fit of each set, method and split."""
    return list({(line["set"], line["method"], line["split"]): line for line in _read()}.values())


def _read() -> list[Line]:
    return (
        [json.loads(text) for text in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    )


def missing(
    sets: list[Rows], methods: list[str], splits: int = SPLITS
) -> Iterator[tuple[int, Rows, list[str]]]:
    """Yield the methods without a current fit, by split and set; a crash is repeated."""
    done = {
        (line["set"], line["method"], line["split"])
        for line in stored()
        if line.get("failure") != "crash" and not is_stale(line)
    }
    for split in range(splits):
        for rows in sets:
            waiting = [m for m in methods if (rows.name, m, split) not in done]
            if waiting:
                yield split, rows, waiting


def run(
    sets: list[Rows], methods: list[str], programs: Interpreters, limit: float, splits: int = SPLITS
) -> Iterator[str]:
    """Do what is missing; yield a line of progress for each fit."""
    for split, rows, waiting in missing(sets, methods, splits):
        by_program: dict[str, list[str]] = {}
        for method in waiting:
            program = programs.of(method)
            if program is not None:
                by_program.setdefault(program, []).append(method)
        for program, mine in by_program.items():
            for method, found in fitted(program, rows, split, mine, limit):
                with RESULTS.open("a") as file:
                    file.write(json.dumps(found, separators=(",", ":")) + "\n")
                told = found.get("error", found.get("failure"))
                yield f"{rows.name}, {method}, split {split}: {told}"


def fitted(
    program: str, rows: Rows, split: int, methods: list[str], limit: float
) -> Iterator[tuple[str, Line]]:
    """Yield the methods with what a child of one process measured, or how it failed."""
    X, y = rows.load()
    train, test = next(StratifiedShuffleSplit(1, test_size=0.3, random_state=split).split(y, y))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "data.npz", X=X, y=y)
        shared = {
            "common": {"random_state": split, "n_jobs": 1},
            "data": str(folder / "data.npz"),
            "standardise": rows.components is None,
            "train": train.tolist(),
            "limit": limit,
            "parameters": {},
        }
        jobs = [folder / f"{number}.json" for number in range(len(methods))]
        for job, method in zip(jobs, methods, strict=True):
            module, cls = METHODS[method]
            job.write_text(json.dumps({"module": module, "name": cls, **shared}))
        command = [program, str(WORKER), "--children", *map(str, jobs)]
        environ = os.environ | ONE_THREAD
        with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
            lines = (line for line in process.stdout or () if line.strip())
            for method, line in zip(methods, lines, strict=False):
                settings = {"set": rows.name, "method": method, "split": split}
                sizes = {"n": [len(train), len(test)], "columns": X.shape[1]}
                known = {"parameters": parameters(method), "commit": environment()["commit"]}
                yield method, {**settings, **sizes, **known, **json.loads(line)}
