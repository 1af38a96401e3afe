"""nearfar beside metric-learn 0.7: time and 3-NN error of the methods that both have.

    python benchmarks/metric_learn.py [--toy] [--python PATH] [--limit SECONDS]
                                      [--method NAME ...] [SET ...]

metric-learn 0.7 does not run with current scikit-learn, so it has an environment of its own, with
scikit-learn 1.5: the one of --python or NEARFAR_METRIC_LEARN, or else one that is installed in the
user's cache folder. Every fit runs in its own process on one thread, with the default parameters of
its library and a fixed seed, on standardised columns. The libraries take turns on each fold, so
that both see the same load of the machine. A fit that takes longer than the limit is ended, and the
method's other folds of that set are left out.

Five stratified folds; times are CPU seconds of a fit, means over folds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, train_test_split

from protocol import load, record

SETS = ("wine", "vehicle", "digits", "segmentation_2310", "letter")
MOST_ROWS = 5_000
REQUIREMENTS = ("metric-learn==0.7.0", "scikit-learn==1.5.2", "numpy<2.3")
WORKER = Path(__file__).parent / "workers" / "timed_fit.py"
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)


@dataclass(frozen=True)
class Method:
    """What a method is called in each library."""

    theirs: str
    ours: str
    theirs_parameters: dict[str, Any] = field(default_factory=dict)
    ours_parameters: dict[str, Any] = field(default_factory=dict)


METHODS = (
    Method("Covariance", "InverseCovariance"),
    Method("RCA_Supervised", "RCA"),
    Method("LFDA", "LFDA"),
    Method("NCA", "NCA"),
    Method("LMNN", "LMNN"),
    Method("ITML_Supervised", "ITML"),
    Method("MMC_Supervised", "MMC"),
    Method("LSML_Supervised", "LSML"),
)


def environment_of(given: str | None) -> tuple[str | None, str]:
    """Return metric-learn's interpreter, or None and the reason why there is none."""
    if given is not None:
        return (given, "") if _has_metric_learn(given) else (None, f"{given} has no metric-learn")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = cache / "nearfar" / f"metric-learn-0.7.0-python-{version}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if python.exists() and _has_metric_learn(str(python)):
        return str(python), ""
    print(f"Installing {', '.join(REQUIREMENTS)} in {folder}.", flush=True)
    try:
        venv.create(folder, clear=True, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", *REQUIREMENTS]
        subprocess.run(install, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        lines = str(getattr(error, "stderr", None) or error).strip().splitlines()
        return None, f"it could not be installed: {lines[-1]}"
    return str(python), ""


def _has_metric_learn(python: str) -> bool:
    try:
        found = subprocess.run([python, "-c", "import metric_learn"], capture_output=True)
    except OSError:
        return False
    return found.returncode == 0


class Runner:
    """Runs fits in processes, and remembers which methods took too long on the current set."""

    def __init__(self, interpreters: dict[str, str | None], limit: float, folder: Path) -> None:
        self.interpreters, self.limit, self.folder = interpreters, limit, folder
        self.too_slow: set[tuple[str, str]] = set()

    def start_set(self, X: NDArray[Any], y: NDArray[Any]) -> None:
        """Store the points where the processes find them."""
        np.savez(self.folder / "data.npz", X=X, y=y)
        self.too_slow.clear()

    def run(self, library: str, method: Method, train: NDArray[Any]) -> dict[str, Any]:
        """Return what the process measured, or how it failed."""
        python = self.interpreters[library]
        ours = library == "nearfar"
        name = method.ours if ours else method.theirs
        if python is None:
            return {"failure": "not installed"}
        if (library, name) in self.too_slow:
            return {"failure": f"> {self.limit:g} s"}
        job = {
            "module": library,
            "name": name,
            "parameters": method.ours_parameters if ours else method.theirs_parameters,
            "common": {"random_state": 0, "n_jobs": 1},
            "data": str(self.folder / "data.npz"),
            "train": train.tolist(),
        }
        file = self.folder / "job.json"
        file.write_text(json.dumps(job))
        try:
            done = subprocess.run(
                [python, str(WORKER), str(file)],
                env=os.environ | ONE_THREAD,
                capture_output=True,
                text=True,
                timeout=self.limit,
            )
        except subprocess.TimeoutExpired:
            self.too_slow.add((library, name))
            return {"failure": f"> {self.limit:g} s"}
        if done.returncode:
            return {"failure": "crash", "message": done.stderr[-500:]}
        return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(
    runner: Runner, name: str, methods: list[Method], *, toy: bool
) -> Iterator[dict[str, Any]]:
    """Yield a row for each method, fold and library."""
    X, y = load(name)
    y = np.unique(y, return_inverse=True)[1]
    if len(X) > MOST_ROWS:
        X, _, y, _ = train_test_split(X, y, train_size=MOST_ROWS, stratify=y, random_state=0)
    runner.start_set(X, y)
    print(f"\n{name}: {len(X)} rows, {X.shape[1]} features, {len(np.unique(y))} classes")
    n_folds, used = (2, 1) if toy else (5, 5)
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    for method in methods:
        rows = []
        for fold, (train, _) in enumerate(islice(folds.split(X, y), used)):
            libraries = ("metric_learn", "nearfar")
            for library in libraries[:: -1 if fold % 2 else 1]:
                found = runner.run(library, method, train)
                rows.append(
                    {"set": name, "method": method.ours, "library": library, "fold": fold, **found}
                )
        print(line(method, rows), flush=True)
        yield from rows


def line(method: Method, rows: list[dict[str, Any]]) -> str:
    """Return a line of the table: both libraries, and how many times as long metric-learn takes."""
    theirs, ours = (
        summary([row for row in rows if row["library"] == library])
        for library in ("metric_learn", "nearfar")
    )
    ratio = f"{theirs[0] / ours[0]:8.1f}" if theirs[0] and ours[0] else f"{'':8}"
    return f"  {method.ours:18} {theirs[1]:>30} {ours[1]:>30} {ratio}"


def summary(rows: list[dict[str, Any]]) -> tuple[float, str]:
    """Return the mean time, and time and error as text; of failures, the first."""
    failures = [row["failure"] for row in rows if "failure" in row]
    if failures:
        ended = failures[0].startswith(">")
        share = "" if ended or len(failures) == len(rows) else f" ({len(failures)} of {len(rows)})"
        return 0.0, f"{failures[0]}{share}"
    cpu = float(np.mean([row["cpu"] for row in rows]))
    errors = 100 * np.array([row["error"] for row in rows])
    unsettled = any("ConvergenceWarning" in text for row in rows for text in row["warnings"])
    mark = "*" if unsettled else " "
    return cpu, f"{cpu:9.4f} s{mark} {errors.mean():5.1f} % ({errors.std():3.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--toy", action="store_true", help="one small set, one fold")
    parser.add_argument(
        "--python",
        default=os.environ.get("NEARFAR_METRIC_LEARN"),
        help="interpreter of an environment with metric-learn 0.7",
    )
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for a process [300]")
    names = [method.ours for method in METHODS]
    parser.add_argument("--method", action="append", choices=names, help="only these")
    parser.add_argument("sets", nargs="*", default=SETS, help=f"names [{' '.join(SETS)}]")
    options = parser.parse_args()
    chosen = options.method or (["LMNN", "RCA"] if options.toy else names)
    methods = [method for method in METHODS if method.ours in chosen]
    python, reason = environment_of(options.python)
    if python is None:
        print(f"metric-learn is left out: {reason}.")
    heading = f"  {'':18} {'metric-learn':>30} {'nearfar':>30} {'ratio':>8}"
    print("CPU seconds of a fit, 3-NN error in % (standard deviation); * = convergence warning")
    print(heading)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        interpreters = {"metric_learn": python, "nearfar": sys.executable}
        runner = Runner(interpreters, options.limit, Path(folder))
        for name in ["iris"] if options.toy else options.sets:
            rows += measure(runner, name, methods, toy=options.toy)
    record("metric_learn", rows)


if __name__ == "__main__":
    main()
