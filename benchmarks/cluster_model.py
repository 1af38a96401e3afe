"""A model of a cluster, against measured runs; and what it predicts for 10^9 rows.

BoostMetric learns from rows on disk on one worker process. Each task is timed by the worker, and
the rest of an iteration is the client's. These times are replayed through the model of a cluster
(`simulated_cluster.py`) with 1, 2 and 4 workers, and compared with fits on so many. Then measured
constants give the iterations of 10^9 rows x 64 features on 100 machines.

The machine must be quiet: other work changes measured times between the run on one worker and the
others. The load before each run is shown, and what the model makes of the run's own task times,
which other work changes less. Task times of a run with more workers than cores are longer already.

    python benchmarks/cluster_model.py [--rows 1000000] [--workers 1 2 4] [--toy]

Machines of the prediction have 8 workers, 8 cores and disks of 2 GB/s each; the client's link has
1.25 GB/s and a latency of 1 ms. The scheduler's overhead is the measured one.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import nearfar
from nearfar import BoostMetric, RandomTriplets, open_rows
from nearfar.constraints.anchor_mining import anchor_neighbors
from nearfar.constraints.neighbor_search import search_cost
from nearfar.numerics.tiled_edges import TiledEdges
from nearfar.runtime.history import Iteration
from nearfar.runtime.progress import FitInProgress, watching
from nearfar.runtime.threads import limited_threads
from protocol import record
from scale import WIDTH, generate, size
from simulated_cluster import (
    Cluster,
    Constants,
    Stage,
    Task,
    boosting_iteration,
    client_bytes,
    traffic,
)

MACHINES, WORKERS_PER_MACHINE = 100, 8
DISK, LINK, LATENCY = 2e9, 1.25e9, 1e-3
ECHO = 1 << 24
NO_TASKS = 200


@dataclass
class Recorder:
    """An executor that times tasks where they run, and whole stages."""

    executor: Any
    stages: list[tuple[str, list[Task], float]]

    def map(
        self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], *, memory: int = 0
    ) -> Iterator[Any]:
        """Yield results, and keep times."""
        start = time.perf_counter()
        sent: list[int] = []
        timed: list[Task] = []

        def noted() -> Iterator[tuple[Any, ...]]:
            for task in tasks:
                sent.append(size(task))
                yield function, *task

        for seconds, result in self.executor.map(run_timed, noted(), memory=memory):
            timed.append(Task(seconds, sent[len(timed)], size(result)))
            yield result
        name = getattr(function, "__name__", "")
        self.stages.append((name, timed, time.perf_counter() - start))

    def hold(self, value: Any) -> Any:
        """Hold a value."""
        return self.executor.hold(value)


def run_timed(function: Callable[..., Any], *task: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = function(*task)
    return time.perf_counter() - start, result


def nothing(_: Any) -> None:
    return None


def zeros(n_bytes: int) -> Any:
    return np.zeros(n_bytes // 8)


@contextmanager
def started(workers: int) -> Iterator[Any]:
    """Start worker processes of one thread each."""
    from distributed import Client, LocalCluster

    from nearfar.runtime.dask_executor import DaskExecutor

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as local,
        Client(local) as client,
    ):
        client.wait_for_workers(workers)
        yield DaskExecutor(client)


def timed_map(executor: Any, function: Callable[..., Any], tasks: list[tuple[Any, ...]]) -> float:
    start = time.perf_counter()
    for _ in executor.map(function, tasks):
        pass
    return time.perf_counter() - start


def connection(executor: Any) -> Cluster:
    """Measure what tasks that do nothing cost, and how fast arrays travel."""
    tasks: list[tuple[Any, ...]] = [(None,)] * NO_TASKS
    timed_map(executor, nothing, tasks)
    latency = min(timed_map(executor, nothing, tasks[:1]) for _ in range(10))
    overhead = (timed_map(executor, nothing, tasks) - latency) / NO_TASKS
    sending = min(timed_map(executor, nothing, [(np.zeros(ECHO // 8),)]) for _ in range(3))
    receiving = min(timed_map(executor, zeros, [(ECHO,)]) for _ in range(3))
    return Cluster(
        workers=1,
        cores=len(os.sched_getaffinity(0)),
        sending=ECHO / max(1e-9, sending - latency),
        receiving=ECHO / max(1e-9, receiving - latency),
        latency=latency,
        overhead=overhead,
    )


def fit(path: Path, triplets: Any, iterations: int, recorder: Recorder) -> list[list[Any]]:
    """Fit, and return the stages of each iteration, then its seconds."""
    found: list[list[Any]] = []

    def note(steps: Iterable[Iteration], _: FitInProgress) -> Iterator[Iteration]:
        recorder.stages.clear()
        for step in steps:
            found.append([*recorder.stages, step.seconds])
            recorder.stages.clear()
            yield step

    with nearfar.executor(recorder), watching(note), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        BoostMetric(max_iter=iterations, scale="standard").fit(path, triplets)
    return found


def replayed(iteration: list[Any]) -> list[Stage]:
    """Return a measured iteration for the model; what is not in stages is the client's."""
    *stages, seconds = iteration
    serial = max(0.0, seconds - sum(elapsed for _, _, elapsed in stages))
    return [*(Stage(tasks) for _, tasks, _ in stages), Stage((), serial)]


def compared(
    path: Path, triplets: Any, iterations: int, model: Cluster, alone: list[list[Any]]
) -> dict[str, Any]:
    """Fit on as many workers as the model has, and replay the tasks of one worker."""
    load = os.getloadavg()[0]
    with started(model.workers) as executor:
        runs = fit(path, triplets, iterations, Recorder(executor, []))[1:]
    return {
        "workers": model.workers,
        "load": load,
        "measured": float(np.median([each[-1] for each in runs])),
        "model": float(np.median([model.seconds(replayed(each)) for each in alone])),
        "same_run": float(np.median([model.seconds(replayed(each)) for each in runs])),
    }


def constants_of(path: Path, y: Any, triplets: Any, iterations: list[list[Any]]) -> Constants:
    """Return seconds for elementary operations, from the run on one worker."""
    rows = open_rows(path)
    n, D = rows.shape
    edges = tiled(path, triplets)
    start = time.perf_counter()
    for part in rows.pieces:
        rows.read(part)
    read = (time.perf_counter() - start) / (4 * n * D)
    scatter, project, serial = [], [], []
    for iteration in iterations:
        totals = {name: sum(t.seconds for t in tasks) for name, tasks, _ in iteration[:-1]}
        scatter.append(totals["scatter"])
        project.append(totals["_run"])
        serial.append(replayed(iteration)[-1].serial)
    reads = read * 4 * n * D * edges.n_reads
    anchors = np.arange(0, n, max(1, n // 500))
    with limited_threads(1):
        start = time.perf_counter()
        anchor_neighbors(rows, y, anchors, 3, 3)
        mining = time.perf_counter() - start
    return Constants(
        read=read,
        edge=max(0.0, float(np.median(scatter)) - reads) / (len(edges) * D),
        project=float(np.median(project)) / (n * D),
        triplet=float(np.median(serial)) / len(triplets),
        pair=mining / search_cost(len(anchors), n, D),
    )


def tiled(path: Path, triplets: Any) -> TiledEdges:
    anchor, near, far = triplets.index.T
    return TiledEdges(open_rows(path), anchor, far, near)


def prediction(constants: Constants, overhead: float, n: float = 1e9) -> list[dict[str, Any]]:
    """Return what 100 machines take for n rows, by learner and by what it learns from."""
    D, workers = WIDTH, MACHINES * WORKERS_PER_MACHINE
    cluster = Cluster(workers, workers, LINK, LINK, LATENCY, overhead)
    # Workers of a machine share its disk; rows are read from the disk and then copied.
    slow = replace(
        constants,
        read=constants.read + WORKERS_PER_MACHINE / DISK,
        project=constants.project + 4 * WORKERS_PER_MACHINE / DISK,
    )
    rows = []

    def boosting(what: str, m: float, edges: float, rows_read: float, **sizes: float) -> None:
        stages = boosting_iteration(rows_read, D, m, edges, slow, **sizes)
        rows.append(
            {
                "what": what,
                "seconds": cluster.seconds(stages),
                "traffic": traffic(stages),
                "client": client_bytes(rows_read, m),
            }
        )

    boosting("BoostMetric, 3 n triplets", 3 * n, 6 * n, n)
    boosting(
        "the same, bands of 8 GB, tasks of 1 GB", 3 * n, 6 * n, n, band_bytes=8e9, task_bytes=1e9
    )
    boosting("BoostMetric, n / 100 rows, 3 triplets each", 3e-2 * n, 6e-2 * n, n / 100)
    anchors = 64_000.0
    m, kept = 9 * anchors, 7 * anchors
    in_memory = constants.triplet * m + constants.edge * 6 * anchors * D
    rows.append(
        {
            "what": f"BoostMetric, {anchors:,.0f} anchors in memory",
            "seconds": in_memory,
            "traffic": 0.0,
            "client": client_bytes(kept, m) + 4 * kept * D,
        }
    )
    tasks = math.ceil(4 * n * D / 2**25)
    each = search_cost(int(anchors), int(n), D) * constants.pair + slow.read * 4 * n * D
    work = Task(each / tasks, sent=8 * n / tasks, received=6 * 16 * anchors)
    rows.append(
        {
            "what": "mining for these anchors, once",
            "seconds": cluster.seconds([Stage([work] * tasks)]),
            "traffic": traffic([Stage([work] * tasks)]),
            "client": 6 * 16 * anchors + 16 * n,
        }
    )
    block = Task(
        (slow.project * D + 2 * constants.project * D) * n / tasks, 8 * n / tasks, 8 * D**2
    )
    passes = [Stage([block] * tasks)] * 10
    rows.append(
        {
            "what": "closed form (RCA), 10 passes, whole fit",
            "seconds": cluster.seconds(passes),
            "traffic": traffic(passes),
            "client": 16 * n,
        }
    )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    print("| | seconds | network | client's memory |\n| --- | --- | --- | --- |")
    for row in rows:
        print(
            f"| {row['what']} | {row['seconds']:.3g} | {row['traffic'] / 1e9:.3g} GB "
            f"| {row['client'] / 1e9:.3g} GB |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--toy", action="store_true")
    options = parser.parse_args()
    n, counts, iterations = options.rows, options.workers, options.iterations
    if options.toy:
        n, counts, iterations = 20_000, [1, 2], 3
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        y = generate(path, n)
        triplets = RandomTriplets(3 * n)(np.empty((0, 0)), y, np.random.RandomState(0))
        with started(1) as executor:
            link = connection(executor)
            alone = fit(path, triplets, iterations, Recorder(executor, []))[1:]
        constants = constants_of(path, y, triplets, alone)
        print(f"{link}\n{constants}\n")
        print("| workers | load | measured | model | ratio | model, times of the same run |")
        print("| --- | --- | --- | --- | --- | --- |")
        for workers in counts:
            row = compared(path, triplets, iterations, replace(link, workers=workers), alone)
            print(
                f"| {workers} | {row['load']:.1f} | {row['measured']:.3f} s | {row['model']:.3f} s "
                f"| {row['model'] / row['measured']:.2f} | {row['same_run']:.3f} s |",
                flush=True,
            )
            results.append(row)
    print(f"\n10^9 rows x {WIDTH} features, {MACHINES} machines, one iteration:\n")
    predicted = prediction(constants, link.overhead)
    show(predicted)
    record("cluster_model", results + predicted)


if __name__ == "__main__":
    main()
