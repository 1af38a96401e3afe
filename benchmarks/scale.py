"""Rows on disk: time, memory and growth of the learners that read rows in blocks.

Rows of 64 float32 features are generated on disk, at sizes from 10^5 on. BoostMetric learns from
three triplets per row (30 iterations), MaxMarginMetric from one pair per row, RCA from labels, and
NCA from labels in batches of 1,000 (one pass). Each fit has its own process. Memory is the peak of
the process less what it held with its constraints in memory and nothing else; an array in memory
would add the size of the file, and as much again for scaled rows.

    python benchmarks/scale.py [--rows 1000000] [--workers 0 1 2] [--toy]

0 workers are the threads of the process; other numbers are worker processes of a local Dask
cluster, whose memory is not counted. With workers, the arrays that BoostMetric sends and receives
in an iteration are shown beside the formula in docs/reference/scale.md. The exponent is that of
time in the
number of rows, from the smallest size to the largest.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import nearfar
from nearfar import (
    NCA,
    RCA,
    BoostMetric,
    MaxMarginMetric,
    RandomPairs,
    RandomTriplets,
    Triplets,
    open_rows,
)
from nearfar.numerics.tiled_edges import TiledEdges
from nearfar.runtime.executors import Executor, ThreadExecutor
from nearfar.runtime.history import Iteration
from nearfar.runtime.progress import FitInProgress, watching
from nearfar.runtime.threads import limited_threads
from protocol import record

MB = 1_000_000
WIDTH = 64
CLASSES = 10
BATCH = 100_000


def generate(path: Path, n_rows: int) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Write rows of overlapping classes, and return their labels."""
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((CLASSES, WIDTH))
    spread = np.linspace(0.5, 4.0, WIDTH)
    y = rng.integers(0, CLASSES, n_rows)
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, WIDTH))
    for top in range(0, n_rows, BATCH):
        codes = y[top : top + BATCH]
        X[top : top + BATCH] = centers[codes] + spread * rng.standard_normal((len(codes), WIDTH))
    X.flush()
    return np.asarray(y, dtype=np.intp)


def task(name: str, y: Any, iterations: int) -> tuple[Any, Any]:
    """Return a learner, and what it learns from."""
    n, seed, none = len(y), np.random.RandomState(0), np.empty((0, 0))
    if name == "BoostMetric":
        return BoostMetric(max_iter=iterations), RandomTriplets(3 * n)(none, y, seed)
    if name == "MaxMarginMetric":
        return MaxMarginMetric(), RandomPairs(n)(none, y, seed)
    if name == "RCA":
        return RCA(), y
    return NCA(batch_size=1000, max_iter=1, validation_fraction=None, random_state=0), y


def peak() -> float:
    """Peak memory since the process started, or since the last call, in MB."""
    status = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    Path("/proc/self/clear_refs").write_text("5")
    return kilobytes * 1024 / MB


class Counted:
    """An executor that counts the bytes of the arrays that it sends and receives."""

    def __init__(self, executor: Executor) -> None:
        self.executor, self.traffic = executor, 0

    def map(
        self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], *, memory: int = 0
    ) -> Iterator[Any]:
        """Yield results, and count."""

        def counted() -> Iterator[tuple[Any, ...]]:
            for task in tasks:
                self.traffic += size(task)
                yield task

        for found in self.executor.map(function, counted(), memory=memory):
            self.traffic += size(found)
            yield found

    def hold(self, value: Any) -> Any:
        """Hold a value; not counted."""
        return self.executor.hold(value)


def size(value: Any) -> int:
    """Bytes of the arrays in nested lists and tuples."""
    if isinstance(value, list | tuple):
        return sum(map(size, value))
    return value.nbytes if isinstance(value, np.ndarray) else 0


def expected_traffic(path: Path, triplets: Triplets) -> int:
    """Bytes of an iteration of BoostMetric by the formula in docs/reference/scale.md."""
    rows, (anchor, near, far) = open_rows(path), triplets.index.T
    edges = TiledEdges(rows, anchor, far, near)
    weights, directions = 4 * (len(edges) + len(rows)), 4 * len(rows)
    return weights + directions + 8 * len(edges.bands) * WIDTH**2


@contextmanager
def cluster(workers: int) -> Iterator[Counted]:
    """Run fits on so many worker processes; on threads if there are none."""
    if workers == 0:
        counted = Counted(ThreadExecutor())
        with nearfar.executor(counted):
            yield counted
        return
    from distributed import Client, LocalCluster

    from nearfar.runtime.dask_executor import DaskExecutor

    with ExitStack() as stack:
        local = stack.enter_context(
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")
        )
        client = stack.enter_context(Client(local))
        counted = Counted(DaskExecutor(client))
        stack.enter_context(nearfar.executor(counted))
        yield counted


def measure(name: str, path: Path, y: Any, iterations: int, workers: int) -> dict[str, Any]:
    learner, supervision = task(name, y, iterations)
    cores = len(os.sched_getaffinity(0))
    traffic: list[int] = []

    def note(iterations: Iterable[Iteration], _: FitInProgress) -> Iterator[Iteration]:
        for iteration in iterations:
            traffic.append(counted.traffic)
            yield iteration

    with (
        cluster(workers) as counted,
        watching(note),
        limited_threads(cores),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)
        peak()
        before = peak()
        start = time.perf_counter()
        learner.fit(path, supervision)
        seconds = time.perf_counter() - start
    row = {
        "seconds": seconds,
        "iterations": learner.n_iter_,
        "seconds_per_iteration": float(np.median(learner.history_.seconds)),
        "peak": peak() - before,
        "before": before,
        "matrix": learner.metric_.matrix,
    }
    if name == "BoostMetric" and len(traffic) > 1:
        row["traffic"] = float(np.median(np.diff(traffic)))
        row["expected_traffic"] = expected_traffic(path, supervision)
    return row


def run(
    name: str, path: Path, y: Any, iterations: int, workers: int, reference: Any
) -> dict[str, Any]:
    # Not a pool of multiprocessing: its processes may not start those of a cluster.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        row = pool.submit(measure, name, path, y, iterations, workers).result()
    M = row.pop("matrix")
    row |= {"name": name, "rows": len(y), "workers": workers, "size": path.stat().st_size / MB}
    row["difference"] = None
    if reference is not None:
        row["difference"] = float(np.linalg.norm(M - reference) / np.linalg.norm(reference))
    same = "" if reference is None else f", {row['difference']:.0e} from the fit in memory"
    if workers and "traffic" in row:
        sent, expected = row["traffic"] / MB, row["expected_traffic"] / MB
        same += f", {sent:.2f} MB per iteration ({expected:.2f} by the formula)"
    where = "threads" if workers == 0 else f"{workers} workers"
    print(
        f"{name}, {len(y):,} rows ({row['size']:.0f} MB), {where}: {row['seconds']:.1f} s, "
        f"{row['iterations']} iterations of {row['seconds_per_iteration']:.3f} s, "
        f"{row['peak']:.0f} MB above {row['before']:.0f} MB{same}",
        flush=True,
    )
    return row


def in_memory(name: str, path: Path, y: Any, iterations: int) -> Any:
    """Return the metric of the same fit to an array."""
    learner, supervision = task(name, y, iterations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return learner.fit(np.load(path), supervision).metric_.matrix


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[0])
    parser.add_argument("--toy", action="store_true")
    options = parser.parse_args()
    smallest, iterations = (2_000, 3) if options.toy else (100_000, 30)
    largest = 8_000 if options.toy else max(smallest, options.rows)
    steps = 1 if options.toy else max(1, round(math.log10(largest / smallest)))
    sizes = sorted({round(s) for s in np.geomspace(smallest, largest, steps + 1)})
    found: list[dict[str, Any]] = []
    for n_rows in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.npy"
            y = generate(path, n_rows)
            for name in ("BoostMetric", "MaxMarginMetric", "RCA", "NCA"):
                reference = in_memory(name, path, y, iterations) if n_rows == sizes[0] else None
                # Batches are drawn and learned from in this process.
                found += [
                    run(name, path, y, iterations, workers, reference)
                    for workers in (options.workers if name != "NCA" else [0])
                ]
    for name in ("BoostMetric", "MaxMarginMetric", "RCA", "NCA"):
        for workers in options.workers:
            times = {
                row["rows"]: row["seconds"]
                for row in found
                if row["name"] == name and row["workers"] == workers
            }
            if len(times) > 1:
                first, last = min(times), max(times)
                exponent = math.log(times[last] / times[first]) / math.log(last / first)
                print(f"{name}, {workers} workers: time grows as rows^{exponent:.2f}")
    record("scale", found)


if __name__ == "__main__":
    main()
