"""Fit one estimator in a process of its own; print time and 3-NN error as one line of JSON.

    python timed_fit.py JOB.json
    python timed_fit.py --children JOB.json...

A job names a class, its parameters, a file of points and labels, and the training rows. Nothing
but the class's own library, NumPy and scikit-learn is imported, so that every library can run in
the environment that it needs. Only the fit is timed. Short fits are repeated, and the shortest time
counts: the first fit of a process loads code. With --children each job has a child of one process,
which loads the library once and prints a line for each job, even if its child is ended.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import platform
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

TOO_SLOW = 75
"""Exit code of a process that was ended by its limit."""

_LOOK_EVERY = 0.5
_SHORT = 0.2
_REPEATS = 5


def build(job: dict[str, Any]) -> Any:
    """Return the estimator, seeded and with one thread where it has such parameters."""
    cls = getattr(importlib.import_module(job["module"]), job["name"])
    known = inspect.signature(cls).parameters
    common = {name: value for name, value in job["common"].items() if name in known}
    return cls(**common | job["parameters"])


def timed(job: dict[str, Any], X: Any, y: Any) -> tuple[Any, float, float]:
    """Return the fitted estimator, and the CPU and wall seconds of its fit."""
    best = (np.inf, np.inf)
    for _ in range(_REPEATS):
        estimator = build(job)
        wall, cpu = time.perf_counter(), time.process_time()
        estimator.fit(X, y)
        best = min(best, (time.process_time() - cpu, time.perf_counter() - wall))
        if best[0] > _SHORT:
            break
    return estimator, *best


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Fit to the training rows, standardised, and classify the others."""
    with np.load(job["data"]) as data:
        X, y = data["X"], data["y"]
    train = np.zeros(len(X), dtype=bool)
    train[job["train"]] = True
    if job.get("standardise", True):
        X = StandardScaler().fit(X[train]).transform(X)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator, cpu, wall = timed(job, X[train], y[train])
    Z = estimator.transform(X)
    if np.iscomplexobj(Z) or not np.isfinite(Z).all():
        raise FloatingPointError("The map has NaN, infinite or complex entries.")
    knn = KNeighborsClassifier(3, algorithm="brute").fit(Z[train], y[train])
    return {
        "cpu": cpu,
        "wall": wall,
        "error": 1 - float(knn.score(Z[~train], y[~train])),
        "n_iter": int(getattr(estimator, "n_iter_", 0)),
        "notes": list(getattr(getattr(estimator, "history_", None), "notes", ())),
        "warnings": sorted({w.category.__name__ for w in caught}),
    }


def versions(module: str) -> dict[str, str]:
    """Return the versions of what took part."""
    library = module.partition(".")[0]
    modules = [importlib.import_module(name) for name in (library, "sklearn", "numpy", "scipy")]
    found = {each.__name__: str(each.__version__) for each in modules}
    return {"python": platform.python_version()} | found


def end_after(limit: float) -> None:
    """End the process once it has taken this many CPU seconds.

    A limit of the system would make the clock of CPU time coarse.
    """
    while time.process_time() < limit:
        time.sleep(_LOOK_EVERY)
    os._exit(TOO_SLOW)


def do(path: str) -> None:
    """Do a job; an error of the library is a result too."""
    job = json.loads(Path(path).read_text())
    threading.Thread(target=end_after, args=(job["limit"],), daemon=True).start()
    try:
        result = measure(job)
    except Exception as error:
        result = {"failure": type(error).__name__, "message": str(error)[:300]}
    print("\n" + json.dumps(result | {"versions": versions(job["module"])}), flush=True)


def in_children(paths: list[str]) -> None:
    """Do each job in a child; one that ends early has a line too."""
    for module in {json.loads(Path(path).read_text())["module"] for path in paths}:
        versions(module)
    for path in paths:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                do(path)
                code = 0
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == TOO_SLOW:
            limit = json.loads(Path(path).read_text())["limit"]
            print(json.dumps({"failure": f"more than {limit:g} s"}), flush=True)
        elif code:
            print(json.dumps({"failure": "crash", "message": f"exit code {code}"}), flush=True)


def main() -> None:
    """Do the jobs of the command line."""
    if sys.argv[1] == "--children":
        in_children(sys.argv[2:])
    else:
        do(sys.argv[1])


if __name__ == "__main__":
    main()
