"""How long a user waits: fits with default parameters, choosing included.

Every learner on 3,000 x 256 embeddings, and on wide tables of 200 x 1,024 and 400 x 10,304 picture
elements; AutoMetric on tables of four sizes; five learners alone and beside two busy processes,
alternating. --source CHECKOUT/src runs AutoMetric and the boosting learners of an earlier checkout
too, alternating with this one. Run it while nothing else runs.

Raw results are appended to results/default_times.jsonl, with commit, machine and parameters. --show
prints the tables in docs/reference/untuned.md from what is there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from threadpoolctl import threadpool_limits

import nearfar
from nearfar.learners.base import known_learners
from protocol import Array, commit, load

RESULTS = Path(__file__).parent / "results" / "default_times.jsonl"
Row = dict[str, Any]

TABLES = {
    "250 x 34": ("ionosphere", 250, None),
    "1,035 x 8": ("generated", 1035, None),
    "1,400 x 100": ("semeion", 1400, 100),
    "3,000 x 256": ("clinc150_emb256", 3000, None),
    "200 x 1,024": ("orl_32x32", 200, None),
    "400 x 10,304": ("orl_112x92", 400, None),
}
AUTO_TABLES = ["250 x 34", "1,035 x 8", "1,400 x 100", "3,000 x 256"]
LEARNER_TABLES = ["3,000 x 256", "200 x 1,024", "400 x 10,304"]
BUSY = ["BoostMetric", "MetricBoost", "NCA", "LMNN", "AutoMetric"]
BUSY_TABLE = "1,035 x 8"
COMPARED = ["AutoMetric", "BoostMetric", "MetricBoost", "DRMetric"]
REPEATS = 3
IDLE, BESIDE = "idle", "beside two busy processes"


class Job(NamedTuple):
    """A fit in a process of its own."""

    learner: str
    table: str
    repeat: int
    label: str
    source: Path | None


def labelled_rows(name: str, toy: bool) -> tuple[Array, Array]:
    """Return rows and labels; 75 classes of embeddings."""
    source, n_rows, n_components = TABLES[name]
    if source == "generated":
        X, y = make_classification(
            1035,
            8,
            n_informative=6,
            n_redundant=0,
            n_classes=10,
            n_clusters_per_class=1,
            random_state=0,
        )
    elif toy:
        X, y = make_classification(90, 12, n_informative=4, n_classes=3, random_state=0)
    else:
        X, y = load(source)
        kept = np.flatnonzero(np.isin(y, np.unique(y)[:75]))
        rows = np.random.RandomState(0).permutation(kept)[:n_rows]
        X, y = np.asarray(X[rows], dtype=np.float64), y[rows]
    if toy:
        X, y = X[:90], y[:90]
    elif n_components is not None:
        X = PCA(n_components, random_state=0).fit_transform(X)
    return X, y


@contextmanager
def busy_processes(number: int) -> Iterator[None]:
    """Keep so many cores busy."""
    workers = [multiprocessing.Process(target=_work, daemon=True) for _ in range(number)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _work() -> None:
    threadpool_limits(1)
    A = np.random.RandomState(0).standard_normal((300, 300))
    while True:
        A = np.tanh(A @ A)


def timed(learner: str, data: Path, source: Path | None = None) -> Row:
    """Fit in a process of its own, after a small fit that imports everything."""
    environment = dict(os.environ)
    if source is not None:
        environment["PYTHONPATH"] = str(source.resolve())
    done = subprocess.run(
        [sys.executable, __file__, "--fit", learner, str(data)],
        check=True,
        env=environment,
        capture_output=True,
        text=True,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def jobs(toy: bool, source: Path | None) -> Iterator[Job]:
    """Yield the fits: learner, table, repetition, label, and the source of another checkout."""
    repeats = range(1 if toy else REPEATS)
    for name, repeat in itertools.product(AUTO_TABLES, repeats):
        for label, where in versions(source if repeat == 0 else None):
            yield Job("AutoMetric", name, repeat, label, where)
    for name, learner in itertools.product(LEARNER_TABLES, learners(toy)):
        compared = learner in COMPARED and name == "3,000 x 256"
        for label, where in versions(source if compared else None):
            yield Job(learner, name, 0, label, where)
    for repeat, learner in itertools.product(repeats, BUSY[:1] if toy else BUSY):
        for label in (IDLE, BESIDE):
            yield Job(learner, BUSY_TABLE, repeat, label, None)


def measure(toy: bool, source: Path | None) -> Iterator[Row]:
    """Yield a row for each fit that has no result yet."""
    keys = ("learner", "table", "repeat", "label")
    done = {tuple(found[key] for key in keys) for found in stored()}
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / f"{n}.npz" for n, name in enumerate(TABLES)}
        for name, path in files.items():
            X, y = labelled_rows(name, toy)
            np.savez(path, X=X, y=y)
        for job in jobs(toy, source):
            if job[:4] not in done:
                with busy_processes(2 if job.label == BESIDE else 0):
                    yield row(job, timed(job.learner, files[job.table], job.source))


def versions(source: Path | None) -> list[tuple[str, Path | None]]:
    return [("today", None)] + ([("earlier", source)] if source is not None else [])


def learners(toy: bool) -> list[str]:
    """Return the learners that learn from labels."""
    found = [name for name, kind in known_learners().items() if "labels" in kind.supervision]
    if toy:
        return ["BoostMetric", "RCA"]
    return [*(name for name in found if name != "AutoMetric"), "scikit-learn NCA"]


def row(job: Job, found: Row) -> Row:
    """Return a raw result."""
    source = Path(found.pop("source"))
    return {
        "learner": job.learner,
        "table": job.table,
        "repeat": job.repeat,
        "label": job.label,
        **found,
        "commit": commit(source),
        "cores": joblib.cpu_count(),
        "machine": platform.machine(),
        "numpy": np.__version__,
    }


def stored() -> list[Row]:
    """Return the raw results."""
    return (
        [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    )


def fit_here(learner: str, data: Path) -> Row:
    """Fit in this process."""
    with np.load(data) as arrays:
        X, y = arrays["X"], arrays["y"]
    made: Any = NeighborhoodComponentsAnalysis(random_state=0)
    if learner != "scikit-learn NCA":
        made = getattr(nearfar, learner)()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = np.random.RandomState(0).standard_normal((60, 5))
        made.fit(few, np.arange(60) % 2)
        start, cpu = time.perf_counter(), time.process_time()
        made.fit(X, y)
    return {
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - cpu,
        "parameters": {key: repr(value) for key, value in made.get_params().items()},
        "source": str(Path(nearfar.__file__).parent),
    }


def table(rows: list[Row]) -> str:
    """Return the figures in Markdown."""

    def median(learner: str, name: str, label: str) -> float:
        found = [
            r["seconds"]
            for r in rows
            if (r["learner"], r["table"], r["label"]) == (learner, name, label)
        ]
        return float(np.median(found)) if found else float("nan")

    def cell(value: float) -> str:
        return "" if np.isnan(value) else f"{value:.2f}" if value < 9.95 else f"{value:.1f}"

    lines = ["| seconds | " + " | ".join(LEARNER_TABLES) + " |", "| --- |" + " --- |" * 3]
    names = dict.fromkeys(r["learner"] for r in rows if r["table"] in LEARNER_TABLES)
    for name in sorted(names, key=lambda n: (n == "scikit-learn NCA", n.lower())):
        cells = [cell(median(name, each, "today")) for each in LEARNER_TABLES]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", "| seconds of AutoMetric | " + " | ".join(AUTO_TABLES) + " |"]
    lines.append("| --- |" + " --- |" * len(AUTO_TABLES))
    for label in ("today", "earlier"):
        cells = [cell(median("AutoMetric", each, label)) for each in AUTO_TABLES]
        if any(cells):
            lines.append(f"| {label} | " + " | ".join(cells) + " |")
    lines += ["", f"| seconds on {BUSY_TABLE} | {IDLE} | {BESIDE} | ratio |"]
    lines.append("| --- | --- | --- | --- |")
    for name in BUSY:
        idle = median(name, BUSY_TABLE, IDLE)
        busy = median(name, BUSY_TABLE, BESIDE)
        lines.append(f"| {name} | {cell(idle)} | {cell(busy)} | {cell(busy / idle)} |")
    return "\n".join(lines)


def main() -> None:
    """Run, store and print."""
    global RESULTS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="small tables, few learners")
    parser.add_argument("--source", type=Path, help="source folder of an earlier checkout")
    parser.add_argument("--show", action="store_true", help="only print what is there")
    parser.add_argument("--fit", nargs=2, metavar=("LEARNER", "FILE"), help="one fit, as JSON")
    arguments = parser.parse_args()
    if arguments.fit:
        print(json.dumps(fit_here(arguments.fit[0], Path(arguments.fit[1]))))
        return
    if arguments.toy:
        RESULTS = Path(tempfile.mkdtemp()) / "default_times.jsonl"
    if not arguments.show:
        RESULTS.parent.mkdir(exist_ok=True)
        with RESULTS.open("a") as file:
            for found in measure(arguments.toy, arguments.source):
                file.write(json.dumps(found) + "\n")
                file.flush()
    print(table(stored()))


if __name__ == "__main__":
    main()
