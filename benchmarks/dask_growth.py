"""Learners on a Dask cluster: equal metrics, lost workers, bytes and seconds of an iteration.

Rows are a Dask array of random numbers with a fixed seed, of which nothing is stored: workers
generate each block whenever they need it. Clusters are worker processes of one thread each.

- equal: every learner that reads rows in blocks, on four workers and in memory.
- lost: workers are killed after two random iterations.
- iterations: bytes and seconds of an iteration of BoostMetric on 1, 2 and 4 workers, with the load
  before. Constants come from the runs on one worker; the formula is checked on all.
- growth: whole fits to many rows on four workers, the search of all of them, and BoostMetric on a
  fiftieth of them.

    python benchmarks/dask_growth.py [--toy] [--parts equal lost iterations growth] [--rows ROWS]

Parts that are not named keep their results. docs/reference/scale.md has the tables.
"""

from __future__ import annotations

import argparse
import os
import pickle
import platform
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, Future, LocalCluster

import nearfar
from nearfar import RCA, BoostMetric, MaxMarginMetric, RandomPairs, RandomTriplets, open_rows
from nearfar.learners.base import known_learners
from nearfar.neighbors import kneighbors
from nearfar.numerics.tiled_edges import TiledEdges
from nearfar.runtime.history import Iteration
from nearfar.runtime.progress import FitInProgress, watching
from nearfar.runtime.threads import DaskExecutor
from nearfar.supervision import Chunklets
from protocol import Array, commit, record
from protocol import stored as stored_rows

Row = dict[str, Any]
CLASSES = 10
WORKERS = 4
CORES = len(os.sched_getaffinity(0))
TOY: dict[str, Row] = {
    "equal": {"n": 400, "every": 16},
    "lost": {"n": 400, "repeats": 1},
    "iterations": {"sizes": (1_000,), "workers": (1, 2), "n_iterations": 3},
    "growth": {"sizes": {"RCA, labels": 1_000, "neighbours of 1,000 queries": 1_000}},
}


def block_rows(n: int) -> int:
    """Return the rows of a block, all classes alike; there are twenty blocks or more."""
    return min(50_000, max(100, n // 20 // CLASSES * CLASSES))


def random_rows(n: int, n_features: int, dtype: str = "float32") -> tuple[Any, Array]:
    """Return a Dask array of overlapping classes, and their labels."""
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((CLASSES, n_features)).astype(dtype)
    spread = np.linspace(0.5, 4.0, n_features).astype(dtype)

    def shifted(block: Array) -> Array:
        return block * spread + centers[np.arange(len(block)) % CLASSES]

    random: Any = da.random
    noise = random.default_rng(0).standard_normal(
        (n, n_features), chunks=(block_rows(n), n_features), dtype=dtype
    )
    return noise.map_blocks(shifted, dtype=dtype), np.arange(n) % CLASSES


def supervision(kind: str, y: Array) -> Any:
    """Return labels, or constraints that are drawn from them: three triplets, or a pair, a row."""
    seed, none = np.random.RandomState(0), np.empty((0, 0))
    if kind == "triplets":
        return RandomTriplets(3 * len(y))(none, y, seed)
    if kind == "pairs":
        return RandomPairs(len(y))(none, y, seed)
    # Half of the rows are in no chunklet.
    return Chunklets(np.where(np.arange(len(y)) % 2, y, -1)) if kind == "chunklets" else y


@contextmanager
def cluster(workers: int) -> Iterator[Client]:
    """Start worker processes of one thread each, which have imported nearfar."""
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as local,
        Client(local) as client,
    ):
        client.run(lambda: nearfar.BoostMetric)
        yield client


def difference(M: Array, expected: Array) -> float:
    return float(np.linalg.norm(M - expected) / np.linalg.norm(expected))


def equal(n: int = 4_000, every: int = 1) -> Iterator[Row]:
    """Compare metrics with those of fits in memory."""
    readers = {name: cls for name, cls in known_learners().items() if cls.reads_rows}
    with cluster(WORKERS) as client, tempfile.TemporaryDirectory() as folder:
        for name, cls in list(readers.items())[::every]:
            batches = "batch_size" in cls().get_params()
            options: Row = {"batch_size": 500} if batches else {}
            if "max_iter" in cls().get_params():
                options |= {"max_iter": 3 if batches else 12}
            if "random_state" in cls().get_params():
                options["random_state"] = 0
            learner = cls(**options)
            for kind in learner._kinds_read():
                if kind not in cls.supervision and not cls.ignores_y:
                    continue
                row: Row = {"learner": name, "kind": kind, "rows": n, "X": "Dask array"}
                for dtype in ("float64", "float32"):
                    X, y = random_rows(n, 16, dtype)
                    in_memory, known = X.compute(), supervision(kind, y)
                    expected = learner.fit(in_memory, known).metric_.matrix
                    if batches:
                        # Batches are random rows, which Dask arrays refuse.
                        row["X"], X = ".npy file", Path(folder) / "X.npy"
                        np.save(X, in_memory)
                    with nearfar.executor(client):
                        found = learner.fit(X, known).metric_.matrix
                    row[dtype] = difference(found, expected)
                yield row


def lost(n: int = 20_000, repeats: int = 2) -> Iterator[Row]:
    """Kill a worker after each of two random iterations."""
    X, y = random_rows(n, 16)
    for cls, kind in ((BoostMetric, "triplets"), (MaxMarginMetric, "pairs")):
        learner, known = cls(max_iter=12, scale="standard"), supervision(kind, y)
        for seed in range(repeats):
            rng = np.random.default_rng(seed)
            with cluster(WORKERS) as client:
                start = time.perf_counter()
                expected = learner.fit(X, known).metric_.matrix
                undisturbed, n_iterations = time.perf_counter() - start, learner.n_iter_
                after = sorted((1 + rng.choice(n_iterations - 1, 2, replace=False)).tolist())
                killed: list[int] = []
                start = time.perf_counter()
                with watching(partial(kill, client, after, rng, killed)):
                    found = learner.fit(X, known).metric_.matrix
                yield {
                    "learner": cls.__name__,
                    "rows": n,
                    "iterations": n_iterations,
                    "after": after,
                    "lost": len(set(killed)),
                    "difference": difference(found, expected),
                    "seconds": [undisturbed, time.perf_counter() - start],
                    "load": os.getloadavg()[0],
                }


def kill(
    client: Client,
    after: list[int],
    rng: np.random.Generator,
    killed: list[int],
    iterations: Iterable[Iteration],
    _: FitInProgress,
) -> Iterator[Iteration]:
    """Pass iterations on, and kill a random worker after some of them."""
    for number, iteration in enumerate(iterations, start=1):
        if number in after:
            killed.append(int(rng.choice(sorted(client.run(os.getpid).values()))))
            os.kill(killed[-1], signal.SIGKILL)
        yield iteration


class Recorder(DaskExecutor):
    """Times tasks where they run, and stages here; or counts pickled bytes."""

    def __init__(self, client: Client, *, counts: bool) -> None:
        super().__init__(client)
        self.counts = counts
        self.clear()

    def clear(self) -> None:
        """Begin a new iteration."""
        self.work = self.cpu = self.elapsed = 0.0
        self.tasks = self.sent = self.received = 0

    def map(
        self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], *, memory: int = 0
    ) -> Iterator[Any]:
        """Yield results, and measure."""
        start = time.perf_counter()

        def noted() -> Iterator[tuple[Any, ...]]:
            for task in tasks:
                if self.counts:
                    # A held value is sent as its key.
                    plain = [v.key if isinstance(v, Future) else v for v in task]
                    self.sent += len(pickle.dumps((function, plain)))
                self.tasks += 1
                yield function, *task

        for seconds, cpu, result in super().map(run_timed, noted(), memory=memory):
            self.work += seconds
            self.cpu += cpu
            if self.counts:
                self.received += len(pickle.dumps(result))
            yield result
        self.elapsed += time.perf_counter() - start


def run_timed(function: Callable[..., Any], *task: Any) -> tuple[float, float, Any]:
    """Return elapsed seconds, those of the processor, and the result."""
    start, cpu = time.perf_counter(), time.thread_time()
    result = function(*task)
    return time.perf_counter() - start, time.thread_time() - cpu, result


def of_iterations(X: Any, known: Any, recorder: Recorder, n_iterations: int) -> Row:
    """Return medians over the iterations of a fit but the first."""
    found: list[list[float]] = []

    def note(iterations: Iterable[Iteration], _: FitInProgress) -> Iterator[Iteration]:
        recorder.clear()
        for iteration in iterations:
            r = recorder
            times = [iteration.seconds, r.work, r.cpu, r.elapsed]
            found.append([*times, r.tasks, r.sent, r.received])
            recorder.clear()
            yield iteration

    with nearfar.executor(recorder), watching(note):
        BoostMetric(max_iter=n_iterations, scale="standard").fit(X, known)
    names = ("seconds", "work", "cpu", "elapsed", "tasks", "sent", "received")
    return dict(zip(names, np.median(found[1:], axis=0).tolist(), strict=True))


def iterations(
    sizes: tuple[int, ...] = (25_000, 50_000, 100_000),
    workers: tuple[int, ...] = (1, 2, 4),
    n_iterations: int = 8,
) -> Iterator[Row]:
    """Measure iterations of BoostMetric."""
    for number in workers:
        with cluster(number) as client:
            for n in sizes:
                X, y = random_rows(n, 64)
                known = supervision("triplets", y)
                row: Row = {"rows": n, "features": 64, "triplets": len(known), "workers": number}
                row["load"] = os.getloadavg()[0]
                row |= of_iterations(X, known, Recorder(client, counts=False), n_iterations)
                counted = of_iterations(X, known, Recorder(client, counts=True), 3)
                row |= {name: counted[name] for name in ("sent", "received")}
                anchor, near, far = known.index.T
                edges = TiledEdges(open_rows(X), anchor, far, near)
                row |= {"edges": len(edges), "bands": len(edges.bands)}
                yield row


def growth(sizes: dict[str, int]) -> Iterator[Row]:
    """Fit many rows."""
    learners: dict[str, tuple[Any, str]] = {
        "RCA, labels": (RCA(), "labels"),
        "BoostMetric, triplets": (BoostMetric(max_iter=30), "triplets"),
    }
    for name, n in sizes.items():
        X, y = random_rows(n, 64)
        learner, kind = learners.get(name, (None, "labels"))
        known = supervision(kind, y)
        queries = X[:1_000].compute()
        with cluster(WORKERS) as client:
            load, start = os.getloadavg()[0], time.perf_counter()
            with nearfar.executor(client):
                if learner is None:
                    kneighbors(nearfar.Metric.identity(64), X, queries, n_neighbors=10)
                else:
                    learner.fit(X, known)
            seconds = time.perf_counter() - start
        yield {
            "name": name,
            "rows": n,
            "features": 64,
            "seconds": seconds,
            "iterations": 1 if learner is None else learner.n_iter_,
            "load": load,
        }


def expected_bytes(row: Row) -> tuple[float, float]:
    """Return what docs/reference/scale.md says is sent and received in an iteration."""
    D, b = row["features"], 4
    sent = b * (row["edges"] + row["rows"]) + b * D
    return sent, 8 * row["bands"] * D**2 + b * row["rows"]


def reads(row: Row) -> list[float]:
    """Return how many blocks, and how many numbers, workers read in an iteration."""
    times = (row["bands"] + 1) / 2 + 1
    blocks = -(-row["rows"] // block_rows(row["rows"]))
    return [times * blocks, times * row["rows"] * row["features"]]


def constants(rows: list[Row]) -> Array:
    """Return CPU seconds of a worker for a block and for a number, from runs on one worker."""
    alone = [row for row in rows if row["workers"] == 1]
    # Least squares of relative errors.
    shares = np.array([reads(row) for row in alone]) / [[row["cpu"]] for row in alone]
    return np.linalg.lstsq(shares, np.ones(len(alone)))[0]


def stored() -> list[Row]:
    """Read the raw results."""
    return stored_rows("dask_growth")


def table(rows: list[Row]) -> str:
    """Return the figures in Markdown."""
    by = {part: [r for r in rows if r["part"] == part] for part in PARTS}
    lines: list[str] = []
    if by["equal"]:
        n = by["equal"][0]["rows"]
        lines += [
            f"Relative difference of M (Frobenius norm) between fits on {WORKERS} workers and in "
            f"memory, {n:,} rows of 16 features:",
            "",
            "| learner | supervision | X | float64 | float32 |",
            "| --- | --- | --- | --- | --- |",
        ]
        for r in by["equal"]:
            cells = f"{r['learner']} | {r['kind']} | {r['X']}"
            lines.append(f"| {cells} | {r['float64']:.0e} | {r['float32']:.0e} |")
    if by["lost"]:
        lines += [
            "",
            f"A worker of {WORKERS} is killed after each of two random iterations, "
            f"{by['lost'][0]['rows']:,} rows of 16 features:",
            "",
            "| learner | killed after iterations | difference of M |",
            "| --- | --- | --- |",
        ]
        for r in by["lost"]:
            after = f"{' and '.join(map(str, r['after']))} of {r['iterations']}"
            lines.append(f"| {r['learner']} | {after} | {r['difference']:.0e} |")
    if by["iterations"]:
        found = constants(by["iterations"])
        lines += [
            "",
            "An iteration of BoostMetric with three triplets a row of 64 float32 features, on a "
            f"machine of {by['iterations'][0]['cores']} cores; measured / by the formula:",
            "",
            "| rows | workers | MB sent | MB received | CPU seconds of workers | seconds | load |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        ratios = []
        for r in by["iterations"]:
            sent, received = expected_bytes(r)
            cpu = float(reads(r) @ found)
            ratios.append(cpu / r["cpu"])
            lines.append(
                f"| {r['rows']:,} | {r['workers']} | {r['sent'] / 1e6:.2f} / {sent / 1e6:.2f} | "
                f"{r['received'] / 1e6:.2f} / {received / 1e6:.2f} | {r['cpu']:.2f} / {cpu:.2f} | "
                f"{r['seconds']:.1f} | {r['load']:.0f} |"
            )
        lines += [
            "",
            f"Workers need {1e3 * found[0]:.1f} ms for a block and {1e9 * found[1]:.1f} ns for a "
            "number of X, each time that they are read, (B + 1) / 2 + 1 times in an iteration. "
            f"The formula is {min(ratios):.2f} to {max(ratios):.2f} times what was measured.",
        ]
    if by["growth"]:
        lines += [
            "",
            f"Whole fits, and a search of all rows, on {WORKERS} workers, 64 float32 features:",
            "",
            "| what | rows | iterations | seconds | load |",
            "| --- | --- | --- | --- | --- |",
        ]
        for r in by["growth"]:
            cells = f"{r['name']} | {r['rows']:,} | {r['iterations']}"
            lines.append(f"| {cells} | {r['seconds']:.0f} | {r['load']:.0f} |")
    return "\n".join(lines)


PARTS: dict[str, Callable[..., Iterator[Row]]] = {
    "equal": equal,
    "lost": lost,
    "iterations": iterations,
    "growth": growth,
}


def main() -> None:
    """Measure, store and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="few rows")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of whole fits")
    options = parser.parse_args()
    sizes = {
        "RCA, labels": options.rows,
        "neighbours of 1,000 queries": options.rows,
        "BoostMetric, triplets": options.rows // 50,
    }
    settings = TOY if options.toy else {"growth": {"sizes": sizes}}
    name = "dask_growth_toy" if options.toy else "dask_growth"
    rows = [] if options.toy else stored_rows(name)
    about = {"commit": commit(), "cores": CORES, "machine": platform.machine()}
    for part in options.parts:
        rows = [row for row in rows if row["part"] != part]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for row in PARTS[part](**settings.get(part, {})):
                rows.append({"part": part, **row, **about})
                print(rows[-1], flush=True)
                record(name, sorted(rows, key=lambda r: list(PARTS).index(r["part"])))
    print(table(stored_rows(name)))


if __name__ == "__main__":
    main()
