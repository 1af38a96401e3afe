"""How time and error of all learners grow with the rows: 8,000, 60,000 and 240,000 of them.

    python benchmarks/growth.py [--toy] [--python PATH] [--limit SECONDS] [--source FOLDER] [NAME]

Rows are MNIST's as 64 principal components; beyond its 60,000 they are copies, turned by up to ten
degrees and with noise. Every fit has default parameters and a process of its own, one after the
other, on all cores. Learners with `max_rows` are fitted a second time with ``max_rows="all"``, the
exact method, unless it would take longer than the limit of processor seconds by the square of the
rows. Beside them are Euclidean distance, scikit-learn's NCA and metric-learn's LMNN (--python is
its interpreter), at the sizes that they survive. --source also fits AutoMetric of an earlier
checkout. The error is that of three neighbours among all rows, for 5,000 of MNIST's test rows.

Raw results are appended to results/growth.jsonl, those that are there are kept. Run it while
nothing else runs. docs/results/speed.md has the table.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
from scipy import ndimage
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from metric_learn import environment_of
from nearfar import datasets
from nearfar.learners.base import known_learners
from protocol import Array, commit

RESULTS = Path(__file__).parent / "results" / "growth.jsonl"
WORKER = Path(__file__).parent / "workers" / "timed_fit.py"
SIZES = (8000, 60_000, 240_000)
TOY_SIZES = (300, 900)
N_TEST = 5000
ANGLES = np.linspace(-10, 10, 9)
NOISE = 8.0
"""Standard deviation of the noise on copies, of 255 grey levels."""

DEFAULT, EXACT, EARLIER = "default", "all rows", "earlier"
OTHERS = ("scikit-learn NCA", "metric-learn LMNN")
Row = dict[str, Any]


class Job(NamedTuple):
    """A fit: what, how, and to how many rows."""

    learner: str
    how: str
    n: int


def rows(toy: bool) -> tuple[Array, Array, Array, Array]:
    """Return rows in random order and their labels, and test rows and theirs."""
    random = np.random.RandomState(0)
    if toy:
        X, y = load_digits(return_X_y=True)
        order = random.permutation(len(X))
        X, y = X[order].astype(np.float32), y[order]
        return X[:900], y[:900], X[900:], y[900:]
    data = datasets.load("mnist")
    assert data.y is not None
    is_train = np.asarray(data.extra["is_train"], dtype=bool)
    pictures = np.asarray(data.X[is_train], dtype=np.float32).reshape(-1, 28, 28)
    copies = [pictures]
    for _ in range(max(SIZES) // len(pictures) - 1):
        turned = np.empty_like(pictures)
        which = random.randint(len(ANGLES), size=len(pictures))
        for number, angle in enumerate(ANGLES):
            chosen = which == number
            turned[chosen] = ndimage.rotate(
                pictures[chosen], angle, axes=(1, 2), reshape=False, order=1
            )
        copies.append(turned + NOISE * random.standard_normal(turned.shape).astype(np.float32))
    X = np.concatenate(copies).reshape(-1, 784)
    axes = PCA(64, random_state=0).fit(X[:20_000])
    # MNIST's own rows first, in random order, then the copies.
    order = np.concatenate(
        [start + random.permutation(60_000) for start in range(0, len(X), 60_000)]
    )
    labels = np.tile(data.y[is_train], len(copies))[order]
    test = axes.transform(np.asarray(data.X[~is_train], dtype=np.float32))[:N_TEST]
    mapped = axes.transform(X)[order].astype(np.float32)
    return mapped, labels, test.astype(np.float32), data.y[~is_train][:N_TEST]


def jobs(toy: bool, names: list[str], earlier: bool) -> Iterator[Job]:
    """Yield the fits, the small ones first."""
    known = known_learners()
    learners = [name for name, kind in known.items() if "labels" in kind.supervision]
    learners = ["RCA", "NCA"] if toy else sorted(learners)
    for n in TOY_SIZES if toy else SIZES:
        for name in ["Euclidean", *learners, *OTHERS]:
            if names and name not in names:
                continue
            yield Job(name, DEFAULT, n)
            if "max_rows" in getattr(known.get(name), "_defaults", {}):
                yield Job(name, EXACT, n)
            if earlier and name == "AutoMetric":
                yield Job(name, EARLIER, n)


def fitted(job: Job, folder: Path, python: str | None, limit: float, source: Path | None) -> Row:
    """Fit in a process of its own."""
    library, _, name = job.learner.rpartition(" ")
    module = {"scikit-learn": "sklearn.neighbors", "metric-learn": "metric_learn"}.get(library)
    name = {"scikit-learn": "NeighborhoodComponentsAnalysis"}.get(library, name)
    if job.learner == "Euclidean":
        module, name = "sklearn.preprocessing", "FunctionTransformer"
    task = {
        "module": module or "nearfar",
        "name": name,
        "parameters": {"max_rows": "all"} if job.how == EXACT else {},
        "common": {"random_state": 0},
        "data": str(folder / f"{job.n}.npz"),
        "train": list(range(job.n)),
        "standardise": False,
        "limit": limit,
    }
    file = folder / "job.json"
    file.write_text(json.dumps(task))
    interpreter = sys.executable if module != "metric_learn" else python
    if interpreter is None:
        return {"failure": "not installed"}
    environment = dict(os.environ)
    if job.how == EARLIER:
        environment["PYTHONPATH"] = str(source)
    command = [interpreter, str(WORKER), "--children", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = done.stdout.split()
    return dict(json.loads(done.stdout.strip().splitlines()[-1])) if lines else {"failure": "crash"}


def measure(toy: bool, arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each fit that has no result yet and is expected to end within the limit."""
    found = stored()
    keys = {(each["learner"], each["how"], each["n"]) for each in found}
    python = None if toy else environment_of(arguments.python)[0]
    X, y, X_test, y_test = rows(toy)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for n in TOY_SIZES if toy else SIZES:
            np.savez(
                folder / f"{n}.npz",
                X=np.vstack([X[:n], X_test]),
                y=np.concatenate([y[:n], y_test]),
            )
        for job in jobs(toy, arguments.names, arguments.source is not None):
            if tuple(job) in keys:
                continue
            if job.how == EXACT or job.learner in OTHERS:
                smaller = [r for r in found if (r["learner"], r["how"]) == job[:2]]
                if any("cpu" not in r for r in smaller) or any(
                    r["cpu"] * (job.n / r["n"]) ** 2 > arguments.limit for r in smaller
                ):
                    continue
            result = fitted(job, folder, python, arguments.limit, arguments.source)
            row = {
                **job._asdict(),
                **result,
                "commit": commit(arguments.source or Path(__file__).parents[1] / "src")
                if job.how == EARLIER
                else commit(),
                "cores": joblib.cpu_count(),
                "machine": platform.machine(),
            }
            found.append(row)
            yield row


def stored() -> list[Row]:
    """Return the raw results."""
    return (
        [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    )


def table(found: list[Row]) -> str:
    """Return seconds and errors in Markdown."""
    by_key = {(r["learner"], r["how"], r["n"]): r for r in found}
    sizes = sorted({r["n"] for r in found})
    small, large = sizes[0], sizes[-1]

    def cell(name: str, how: str, n: int) -> str:
        row = by_key.get((name, how, n), {})
        if "cpu" not in row:
            return row.get("failure", "")
        shown = (
            "" if name == "Euclidean" else f"{row['wall']:.{1 if row['wall'] < 100 else 0}f} s, "
        )
        return f"{shown}{100 * row['error']:.2f} %"

    def exponent(name: str) -> str:
        first, last = (by_key.get((name, DEFAULT, n), {}) for n in (small, large))
        if name == "Euclidean" or not ("wall" in first and "wall" in last):
            return ""
        return f"{math.log(last['wall'] / first['wall']) / math.log(large / small):.1f}"

    exact = sorted({r["n"] for r in found if r["how"] == EXACT})[1:]
    heads = [f"{n:,} rows" for n in sizes] + [f"all of {n:,}" for n in exact] + ["exponent"]
    lines = ["| | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    names = sorted({r["learner"] for r in found}, key=lambda name: (name in OTHERS, name.lower()))
    for name in names:
        cells = [cell(name, DEFAULT, n) for n in sizes] + [cell(name, EXACT, n) for n in exact]
        lines.append(f"| {name} | " + " | ".join([*cells, exponent(name)]) + " |")
        if any(key[:2] == (name, EARLIER) for key in by_key):
            earlier = [cell(name, EARLIER, n) for n in sizes]
            lines.append(f"| {name}, earlier | " + " | ".join(earlier) + " |" * (2 + len(exact)))
    return "\n".join(lines)


def main() -> None:
    """Run, store and print."""
    global RESULTS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these learners")
    parser.add_argument("--toy", action="store_true", help="a small run that shows it works")
    parser.add_argument("--python", help="interpreter with metric-learn")
    parser.add_argument("--limit", type=float, default=160.0, help="processor seconds of a fit")
    parser.add_argument("--source", type=Path, help="source folder of an earlier checkout")
    arguments = parser.parse_args()
    if arguments.toy:
        RESULTS = Path(tempfile.mkdtemp()) / "growth.jsonl"
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        for row in measure(arguments.toy, arguments):
            print(
                row["learner"], row["how"], row["n"], row.get("wall"), row.get("error"), flush=True
            )
            file.write(json.dumps(row) + "\n")
            file.flush()
    print(table(stored()))


if __name__ == "__main__":
    main()
