"""`Curve`: a figure of a paper, as runs whose numbers are stored and drawn later.

A run gives panels by title. A panel has `lines` (name to coordinates x and y), `points` (x, y and
class, as lists), `marks` (one special point of a line) or `pictures` (rows of small grey pictures).
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from threadpoolctl import threadpool_limits

import nearfar
from papers.methods import METHODS, Distance
from papers.results import code_digest, same_code
from papers.task import PAPERS, Array

FOLDER = Path(__file__).parent / "results"

Panels = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Curve:
    """A figure: its name such as "msnca/F1", what a run of it computes, and the number of runs.

    `learners` are those whose changes make stored runs stale. `seen` says whether the drawn figure
    shows what the paper says of its own. `shows` is what is measured where the paper has no figure.
    """

    name: str
    panels: Callable[[int], Panels]
    runs: int = 1
    learners: tuple[str, ...] = ()
    seen: str = ""
    shows: str = ""

    @property
    def code(self) -> str:
        """Return a digest of the function and of its learners."""
        return self._digest(map(code_digest, self.learners))

    @property
    def same_code(self) -> set[str]:
        """Return the digests with which the figure is the same: today's, and those of old code.

        Old code of a learner counts if repeated runs have confirmed that it gives the same results.
        """
        versions = [
            [digest, *(old for old, new in same_code() if new == digest)]
            for digest in map(code_digest, self.learners)
        ]
        return {self._digest(combination) for combination in product(*versions)}

    def _digest(self, learners: Iterable[str]) -> str:
        source = inspect.getsource(self.panels) + "".join(learners)
        return hashlib.sha256(source.encode()).hexdigest()[:12]


def all_curves() -> Iterator[Curve]:
    """Yield the figures of all papers that can be had."""
    for paper in PAPERS:
        if (Path(__file__).parent / f"{paper}.py").exists():
            yield from import_module(f"papers.curves.{paper}").CURVES


def stored(folder: Path = FOLDER) -> dict[str, list[Panels]]:
    """Return the runs of each figure whose code is that of today."""
    codes = {curve.name: curve.same_code for curve in all_curves()}
    found: dict[str, dict[int, Panels]] = {name: {} for name in codes}
    for path in sorted(folder.glob("*.jsonl")):
        for text in path.read_text().splitlines():
            line = json.loads(text)
            if line["code"] in codes.get(line["figure"], ()):
                found[line["figure"]][line["run"]] = line["panels"]
    return {name: [runs[run] for run in sorted(runs)] for name, runs in found.items()}


def compute(pattern: Callable[[str], bool], folder: Path = FOLDER) -> Iterator[str]:
    """Do the runs that are missing, round by round; yield a line of progress for each."""
    curves = [curve for curve in all_curves() if pattern(curve.name)]
    done = {name: len(runs) for name, runs in stored(folder).items()}
    for run in range(max((curve.runs for curve in curves), default=0)):
        for curve in curves:
            if done[curve.name] <= run < curve.runs:
                with threadpool_limits(1):
                    panels = curve.panels(run)
                append(curve, run, panels, folder)
                yield f"{curve.name}, run {run}"


def append(curve: Curve, run: int, panels: Panels, folder: Path = FOLDER) -> None:
    """Add a run; it is on the disk when this returns."""
    folder.mkdir(exist_ok=True)
    line = {
        "figure": curve.name,
        "run": run,
        "code": curve.code,
        "versions": {"nearfar": nearfar.__version__, "numpy": np.__version__},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "panels": panels,
    }
    with (folder / f"{curve.name.partition('/')[0]}.jsonl").open("a") as file:
        file.write(json.dumps(line, separators=(",", ":"), default=float) + "\n")
        file.flush()
        os.fsync(file.fileno())


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the seconds of the processor that a call takes."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        work()
    return time.process_time() - start


def line(x: Any, y: Any, digits: int = 4) -> list[list[float]]:
    """Return coordinates that JSON can express."""
    return [[float(each) for each in x], [round(float(each), digits) for each in y]]


def distances(model: Any, X: Array) -> Array:
    """Return what orders the training rows of a fitted method for each row of X."""
    if isinstance(model, Distance):
        return model.distances(X, model.X)
    metric = model.metric
    if not hasattr(metric, "transform"):
        M = metric.matrix
        return np.asarray(np.einsum("ij,jk,ik->i", model.X, M, model.X) - 2 * X @ M @ model.X.T)
    out = np.empty((len(X), len(model.X)))
    for rows, part in metric.spaces(X):
        out[rows] = euclidean_distances(part.transform(X[rows]), part.transform(model.X))
    return out


def neighbor_shares(model: Any, X: Array, y: Array, ranks: Any) -> list[float]:
    """Return for each k the share of rows whose k-th neighbour has their class, in percent."""
    order = np.argsort(distances(model, X), axis=1, kind="stable")
    return [100 * float((model.y[order[:, k - 1]] == y).mean()) for k in ranks]


def fitted(method: str, X: Array, y: Array, parameters: dict[str, Any], run: int) -> Any:
    """Return the model of a method of the tables."""
    return METHODS[method](X, y, parameters, run).model
