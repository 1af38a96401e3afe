"""Run tasks: what is missing, the cheapest first, one line for each run."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from papers import results
from papers.methods import METHODS, all_parameters
from papers.task import BY_VOTES, Array, Table, Task
from papers.verdicts import BASELINES

FIRST_RUNS = 10
"""So many runs of every task come before the other runs of any."""


def measure(
    tasks: Sequence[Task], run: int, longest: float | None = None
) -> list[tuple[results.Line, results.Line]]:
    """Do one run of tasks that share a fit; return the settings and the line of each.

    Seconds are those of the processor. More than `longest` of them raise TimeoutError.
    """
    first = tasks[0]
    # Rows are prepared inside: with two threads BLAS gives other principal components.
    with threadpool_limits(1), _limited(longest):
        X, y, train, test = first.rows(run)
        start = time.process_time()
        fitted = METHODS[first.method](X[train], y[train], first.parameters, run)
        fit_seconds = time.process_time() - start
        found = []
        for task in tasks:
            start = time.process_time()
            outcome = _outcome(task, fitted.model, X[test], y[test], fit_seconds)
            line = {
                "run": run,
                **outcome,
                "split": results.digest(train.tobytes(), test.tobytes()),
                "n": [len(train), len(test)],
                "iterations": fitted.iterations,
                "stopped": fitted.stopped,
                "fit_seconds": round(fit_seconds, 4),
                "seconds": round(fit_seconds + time.process_time() - start, 4),
            }
            found.append((results.settings_of(task), line))
    return found


def _outcome(task: Task, model: Any, X: Array, y: Array, fit_seconds: float) -> results.Line:
    kind, k = task.measure.removesuffix(BY_VOTES), task.n_neighbors
    if kind != task.measure:
        model = model.by_votes()
    if kind == "seconds":
        return {"value": fit_seconds}
    if kind == "least error":
        return {"value": 100 * model.least_error(X, y, k)}
    if kind == "triplets":
        return {"value": 100 * model.triplet_accuracy(X, y)}
    predicted = np.asarray(model.predict(X, k))
    errors = int((predicted != y).sum())
    share = 100 * errors / len(y)
    return {"value": share if kind == "error" else 100 - share, "errors": errors}


@contextmanager
def _limited(longest: float | None) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"longer than {longest:.0f} s; its other runs are left out.")

    if longest is None:
        yield
        return
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, longest)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def missing(tasks: Iterable[Task], folder: Path = results.FOLDER) -> list[tuple[Task, int]]:
    """Return the runs without a current result, in the order to do them.

    The first ten runs of all tasks come first. Among them own methods and baselines are before
    nearfar's defaults, and these before other methods; then the cheapest is first.
    """
    stored = results.by_cell(folder)
    waiting = []
    seen: set[str] = set()
    for task in tasks:
        lines = stored[task.cell, task.variant]
        today = results.described(task)
        name = results.digest({key: today[key] for key in today if key != "reading"})
        if name in seen:
            continue
        seen.add(name)
        current = [line for line in lines if results.is_current(line, today)]
        done = {line["run"] for line in current}
        known = current or lines
        cost = float(np.median([line["seconds"] for line in known])) if known else guess(task)
        for run in range(task.runs):
            if run not in done:
                key = (run >= FIRST_RUNS, rank(task), run // FIRST_RUNS, cost)
                waiting.append((key, task, run))
    return [(task, run) for _, task, run in sorted(waiting, key=lambda each: each[0])]


def by_fit(waiting: Iterable[tuple[Task, int]]) -> list[tuple[list[Task], int]]:
    """Return runs grouped by the fit that they share, in the order of the first of each.

    Readings that differ in the number of neighbours or in what is measured need one fit.
    """
    found: dict[str, tuple[list[Task], int]] = {}
    for task, run in waiting:
        given = all_parameters(task.method, task.parameters)
        name = results.digest(repr(task.table), repr(task.split), task.method, given, run)
        found.setdefault(name, ([], run))[0].append(task)
    return list(found.values())


def rank(task: Task) -> int:
    """Return 0 for own methods as printed and for baselines, 1 for defaults, 2 for others."""
    cell = results.cells()[task.cell]
    if task.variant == "paper" or cell.method in BASELINES[cell.paper][:2]:
        return 0
    return 1 if task.variant == "default" else 2


def guess(task: Task) -> float:
    """Return seconds of a run of a task that has no run yet, by the size of its data."""
    rows, columns = shape(task.table)
    cell = results.cells()[task.cell]
    quick = 20.0 if cell.method in BASELINES[cell.paper][:2] else 1.0
    return rows * columns / 2e4 / quick


@cache
def shape(table: Table) -> tuple[int, int]:
    """Return the number of rows and of prepared columns."""
    X, _ = table.load()
    return len(X), table.components or X.shape[1]


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, for instance by a signal that kills."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def run_all(
    waiting: list[tuple[Task, int]],
    *,
    budget: float,
    n_jobs: int,
    show: Callable[[str], None],
    longest: float | None = None,
    folder: Path = results.FOLDER,
) -> int:
    """Do runs in processes until they are done or the budget is spent; return how many were done.

    Ctrl-C ends it. Runs in work are lost then, and lines that were written stay. A task with a run
    of more than `longest` seconds of CPU time is left.
    """
    start, done, fits = time.monotonic(), 0, by_fit(waiting)
    slow: set[tuple[str, str, str]] = set()
    queue = (each for each in fits if each[0][0].key not in slow)
    running: dict[Future[list[tuple[results.Line, results.Line]]], list[Task]] = {}
    context, own = get_context("spawn"), (os.getpid(),)
    with ProcessPoolExecutor(n_jobs, context, initializer=_end_with, initargs=own) as pool:
        try:
            while True:
                while len(running) < n_jobs and time.monotonic() - start < budget:
                    tasks, run = next(queue, ([], 0))
                    if not tasks:
                        break
                    running[pool.submit(measure, tasks, run, longest)] = tasks
                if not running:
                    return done
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    tasks = running.pop(future)
                    try:
                        for settings, line in future.result():
                            results.append(settings, line, folder)
                    except Exception as error:
                        if isinstance(error, TimeoutError):
                            slow.add(tasks[0].key)
                        show(f"{' '.join(tasks[0].key)}: {error}")
                    done += len(tasks)
                passed = time.monotonic() - start
                left = passed / done * (len(waiting) - done)
                show(f"{done} of {len(waiting)} runs, {passed:.0f} s, about {left:.0f} s to go")
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            show(f"Stopped after {done} runs.")
    return done
