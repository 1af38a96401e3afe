"""Fits of the frontier: every method on every set, each in a process of its own.

    python -m papers frontier [--set NAME] [--method NAME] [--splits N] [--limit S] [--python PATH]

Methods have the default parameters of their library and see the same rows: tables are standardised,
pictures are principal components as they are, sentence vectors too. metric-learn needs an older
scikit-learn and therefore an interpreter of its own (--python or NEARFAR_METRIC_LEARN). A line of
`results.jsonl` is one fit: CPU seconds, and the 3-NN error on the other rows.
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
from sklearn.preprocessing import StandardScaler

from nearfar import datasets
from papers.task import Array

RESULTS = Path(__file__).parent / "results.jsonl"
WORKER = Path(__file__).parents[2] / "benchmarks" / "workers" / "timed_fit.py"
SPLITS = 3
TOO_SLOW = 75
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

Line = dict[str, Any]


@dataclass(frozen=True)
class Rows:
    """A set of the frontier: its name, the most rows, and the number of principal components."""

    name: str
    most: int = 2000
    components: int | None = None

    def load(self) -> tuple[Array, Array]:
        """Return at most so many rows, prepared, and labels."""
        data = datasets.load(self.name)
        X = np.asarray(data.extra.get("X_filled", data.X), dtype=np.float64)
        y = np.unique(np.asarray(data.y), return_inverse=True)[1]
        if len(X) > self.most:
            split = StratifiedShuffleSplit(1, train_size=self.most, random_state=0)
            kept = np.sort(next(split.split(y, y))[0])
            X, y = X[kept], y[kept]
        if self.components is None:
            return StandardScaler().fit_transform(X), y
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
}
"""Module and class by name. MixtureNCA has no single map, and MLKR learns from numbers."""


def stored() -> list[Line]:
    """Return the last stored fit of each set, method and split."""
    return list({(line["set"], line["method"], line["split"]): line for line in _read()}.values())


def _read() -> list[Line]:
    return (
        [json.loads(text) for text in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    )


def missing(
    sets: list[Rows], methods: list[str], splits: int = SPLITS
) -> Iterator[tuple[int, Rows, str]]:
    """Yield what has no fit or whose process broke down; the first split of all comes first."""
    done = {
        (line["set"], line["method"], line["split"])
        for line in stored()
        if line.get("failure") != "crash"
    }
    for split in range(splits):
        for rows in sets:
            for method in methods:
                if (rows.name, method, split) not in done:
                    yield split, rows, method


def run(
    sets: list[Rows],
    methods: list[str],
    python: str | None,
    limit: float,
    splits: int = SPLITS,
) -> Iterator[str]:
    """Do what is missing; yield a line of progress for each fit."""
    with tempfile.TemporaryDirectory() as name:
        folder, current = Path(name), ""
        for split, rows, method in missing(sets, methods, splits):
            interpreter = python if METHODS[method][0] == "metric_learn" else sys.executable
            if interpreter is None:
                continue
            if rows.name != current:
                X, y = rows.load()
                np.savez(folder / "data.npz", X=X, y=y)
                current = rows.name
            halves = StratifiedShuffleSplit(1, test_size=0.3, random_state=split)
            train = next(halves.split(y, y))[0]
            found = fit(folder, interpreter, method, train, split, limit)
            with RESULTS.open("a") as file:
                line = {"set": rows.name, "method": method, "split": split, "n": len(y), **found}
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
            told = found.get("error", found.get("failure"))
            yield f"{rows.name}, {method}, split {split}: {told}"


def fit(
    folder: Path, python: str, method: str, train: Array, split: int, limit: float
) -> dict[str, Any]:
    """Return what a process measured, or how it failed."""
    module, name = METHODS[method]
    job = {
        "module": module,
        "name": name,
        "parameters": {},
        "common": {"random_state": split, "n_jobs": 1},
        "data": str(folder / "data.npz"),
        "standardise": False,
        "train": train.tolist(),
        "limit": limit,
    }
    (folder / "job.json").write_text(json.dumps(job))
    done = subprocess.run(
        [python, str(WORKER), str(folder / "job.json")],
        env=os.environ | ONE_THREAD,
        capture_output=True,
        text=True,
    )
    if done.returncode == TOO_SLOW:
        return {"failure": f"more than {limit:g} s"}
    if done.returncode:
        return {"failure": "crash", "message": done.stderr[-300:]}
    return dict(json.loads(done.stdout.splitlines()[-1]))
