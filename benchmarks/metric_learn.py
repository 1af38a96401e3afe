"""nearfar beside metric-learn 0.7: time and 3-NN error of the methods that both have.

    python benchmarks/metric_learn.py [--toy] [--python PATH] [--limit SECONDS]
                                      [--method NAME ...] [SET ...]

SDML and SCML, which nearfar does not have, stand beside what its documentation names instead.

metric-learn 0.7 does not run with current scikit-learn, so it has an environment of its own, with
scikit-learn 1.5: the one of --python or NEARFAR_METRIC_LEARN, or else one that is installed in the
user's cache folder. Every fit runs in its own process on one thread, with the default parameters of
its library and a fixed seed, on standardised columns. The libraries take turns on each fold, so
that both see the same load of the machine. A process that takes more CPU seconds than the limit is
ended, and the method's other folds of that set are left out.

Three stratified folds; times are CPU seconds of a fit, means over folds. Raw results have the
commit of nearfar and the versions of both environments. docs/from-metric-learn.md has the table
that is derived from them.
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

from protocol import commit, load, record
from workers.timed_fit import TOO_SLOW

SETS = ("wine", "vehicle", "digits", "segmentation_2310")
MOST_ROWS = 5_000
FOLDS = 3
REQUIREMENTS = ("metric-learn==0.7.0", "scikit-learn==1.5.2", "numpy<2.3")
WORKER = Path(__file__).parent / "workers" / "timed_fit.py"
RESULTS = Path(__file__).parent / "results/metric_learn.jsonl"
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)


HEADING = """\
| set | method | metric-learn | nearfar | times faster |
| --- | --- | --- | --- | --- |"""
_PATIENCE = 20
"""Elapsed seconds for each CPU second of the limit, on a busy machine."""
_FAILURES = {
    "FloatingPointError": "NaN",
    "ValueError": "refused",
    "RuntimeError": "failed",
    "LinAlgError": "failed",
}
"""Words for errors, in the table."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Method:
    """What a method is called in each library, and in the table."""

    theirs: str
    ours: str
    name: str = ""
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
    Method("SDML_Supervised", "ITML", "SDML, here ITML"),
    Method("SCML_Supervised", "BoostMetric", "SCML, here BoostMetric"),
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

    def run(self, library: str, method: Method, train: NDArray[Any]) -> Row:
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
            "limit": self.limit,
        }
        file = self.folder / "job.json"
        file.write_text(json.dumps(job))
        try:
            done = subprocess.run(
                [python, str(WORKER), str(file)],
                env=os.environ | ONE_THREAD,
                capture_output=True,
                text=True,
                timeout=_PATIENCE * self.limit,
            )
            ended = done.returncode == TOO_SLOW
        except subprocess.TimeoutExpired:
            ended = True
        if ended:
            self.too_slow.add((library, name))
            return {"failure": f"> {self.limit:g} s"}
        if done.returncode:
            return {"failure": "crash", "message": done.stderr[-500:]}
        return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(runner: Runner, name: str, methods: list[Method], *, toy: bool) -> Iterator[Row]:
    """Yield a row for each method, fold and library."""
    X, y = load(name)
    y = np.unique(y, return_inverse=True)[1]
    if len(X) > MOST_ROWS:
        X, _, y, _ = train_test_split(X, y, train_size=MOST_ROWS, stratify=y, random_state=0)
    runner.start_set(X, y)
    n_folds, used = (2, 1) if toy else (FOLDS, FOLDS)
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    for method in methods:
        rows = []
        for fold, (train, _) in enumerate(islice(folds.split(X, y), used)):
            libraries = ("metric_learn", "nearfar")
            for library in libraries[:: -1 if fold % 2 else 1]:
                found = runner.run(library, method, train)
                setting = {"set": name, "method": method.name or method.ours, "library": library}
                rows.append(setting | {"fold": fold, "commit": commit()} | found)
        print(line(rows), flush=True)
        yield from rows


def line(rows: list[Row]) -> str:
    """Return the results of a method on a set as a line of Markdown."""
    theirs, ours = (
        summary([row for row in rows if row["library"] == library])
        for library in ("metric_learn", "nearfar")
    )
    ratio = f"{theirs[0] / ours[0]:.1f}" if theirs[0] and ours[0] else ""
    return f"| {rows[0]['set']} | {rows[0]['method']} | {theirs[1]} | {ours[1]} | {ratio} |"


def summary(rows: list[Row]) -> tuple[float, str]:
    """Return the mean time, and time and error as text; of failures, the first."""
    named = [str(row["failure"]) for row in rows if "failure" in row]
    failures = [_FAILURES.get(name, name) for name in named]
    if failures:
        ended = failures[0].startswith(">")
        share = "" if ended or len(failures) == len(rows) else f" in {len(failures)} of {len(rows)}"
        return 0.0, f"{failures[0]}{share}"
    cpu = float(np.mean([row["cpu"] for row in rows]))
    error = 100 * float(np.mean([row["error"] for row in rows]))
    unsettled = any("ConvergenceWarning" in text for row in rows for text in row["warnings"])
    return cpu, f"{cpu:.2g} s{'*' if unsettled else ''}, {error:.1f} %"


def stored(path: Path = RESULTS) -> list[Row]:
    """Read the raw results."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def table(rows: list[Row]) -> str:
    """Return the figures in Markdown, derived from raw results."""
    settings = dict.fromkeys((row["set"], row["method"]) for row in rows)
    return "\n".join(
        [HEADING]
        + [line([row for row in rows if (row["set"], row["method"]) == each]) for each in settings]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--toy", action="store_true", help="one small set, one fold")
    parser.add_argument(
        "--python",
        default=os.environ.get("NEARFAR_METRIC_LEARN"),
        help="interpreter of an environment with metric-learn 0.7",
    )
    parser.add_argument(
        "--limit", type=float, default=300.0, help="CPU seconds for a process [300]"
    )
    names = [method.theirs.removesuffix("_Supervised") for method in METHODS]
    parser.add_argument("--method", action="append", choices=names, help="only these")
    parser.add_argument("sets", nargs="*", default=SETS, help=f"names [{' '.join(SETS)}]")
    options = parser.parse_args()
    chosen = options.method or (["LMNN", "RCA"] if options.toy else names)
    methods = [method for name, method in zip(names, METHODS, strict=True) if name in chosen]
    python, reason = environment_of(options.python)
    if python is None:
        print(f"metric-learn is left out: {reason}.")
    print("CPU seconds of a fit, 3-NN error; * = convergence warning")
    print(HEADING)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        interpreters = {"metric_learn": python, "nearfar": sys.executable}
        runner = Runner(interpreters, options.limit, Path(folder))
        for name in ["iris"] if options.toy else options.sets:
            rows += measure(runner, name, methods, toy=options.toy)
    record("metric_learn_toy" if options.toy else "metric_learn", rows)


if __name__ == "__main__":
    main()
