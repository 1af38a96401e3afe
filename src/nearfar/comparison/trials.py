"""Fits and scores methods on cells, and keeps their results."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nearfar.comparison.compared_methods import Method
from nearfar.comparison.comparison_checkpoint import ComparisonCheckpoint
from nearfar.comparison.method_results import CellResult, Trials
from nearfar.comparison.splits import Cell
from nearfar.comparison.tasks import ComparisonTask
from nearfar.runtime.deadline import Clock, OutOfTimeError, deadline, early_stop
from nearfar.runtime.threads import single_threaded_libraries

# rows x features^2 below which BLAS has one thread in methods of other packages, as it always has
# in learners. More threads gain little there, and where other processes are busy they wait for each
# other: fits on 300 rows with 256 features took up to ten times as long.
_BLAS_THREADS_FROM = 1e10
# Seconds for a fit of a method that plans its time; with less it has nothing to plan.
_SHORTEST_BUDGET = 0.1

Progress = Callable[[int, int, str], None]


class TrialRunner:
    """Runs methods on cells.

    Parameters
    ----------
    task : ComparisonTask
        What methods learn from and are scored on.
    methods : list of Method
    checkpoint : ComparisonCheckpoint
        Keeps results; those that it has are not computed again.
    progress : callable or None
        Called with the number of results so far, their expected number, and what runs next.
    clock : callable
        Returns the time in seconds.

    Attributes
    ----------
    trials : dict of str to Trials
        Results by the name of the method.
    total : int
        Expected number of results.
    """

    def __init__(
        self,
        task: ComparisonTask,
        methods: list[Method],
        checkpoint: ComparisonCheckpoint,
        *,
        progress: Progress | None,
        clock: Clock,
    ) -> None:
        self.task, self.splits = task, task.splits
        self.methods, self.checkpoint = methods, checkpoint
        self.progress, self.clock = progress, clock
        self.trials = {m.name: Trials(m, self.splits, note=m.unsuitable(task.X)) for m in methods}
        self.done, self.total = 0, len(self.running()) * len(self.splits.folds)
        self._seconds_restored = 0.0

    def running(self) -> list[Method]:
        """Methods that can be used and did not fail."""
        return [method for method in self.methods if not self.trials[method.name].note]

    def now(self) -> float:
        """Return the time as if the results of the checkpoint had just been computed."""
        return self.clock() + self._seconds_restored

    def run_all(self) -> None:
        """Run every method on every fold."""
        for cell in self.splits.full:
            for method in self.running():
                self.run(method, cell)

    def run(
        self, method: Method, cell: Cell, *, limit: float = math.inf, soft_limit: float = math.inf
    ) -> bool:
        """Get a result from the checkpoint or by computing it.

        Parameters
        ----------
        method : Method
        cell : Cell
        limit : float
            Give up after this number of seconds.
        soft_limit : float
            End the fit after this number of seconds, and score the metric so far. A method that
            plans its time gets this as its budget.

        Returns
        -------
        bool
            False if the time was too short or the method failed.
        """
        result = self.checkpoint.get(method, cell)
        if result is not None and (not result.stopped_early or soft_limit < math.inf):
            self._seconds_restored += result.seconds
        else:
            if self.progress is not None:
                fold = f"fold {cell.fold + 1} of {len(self.splits.folds)}"
                self.total = max(self.total, self.done + 1)
                data = f"{cell.n_train} {self.splits.unit}"
                self.progress(self.done, self.total, f"{method.name}, {fold}, {data}")
            try:
                result = self._fit_and_score(method, cell, limit, soft_limit)
            except OutOfTimeError:
                return False
            except Exception as error:
                # A failure of one method must not lose the results of the others.
                reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
                trials = self.trials[method.name]
                trials.note = f"failed: {reason}"
                self.total -= len(self.splits.folds) - len(trials.results)
                return False
            self.checkpoint.keep(method, cell, result)
        self.trials[method.name].results[cell] = result
        self.done += 1
        return True

    def _fit_and_score(
        self, method: Method, cell: Cell, limit: float, soft_limit: float
    ) -> CellResult:
        if method.plans_time and soft_limit < math.inf:
            method, soft_limit = method.within(max(soft_limit, _SHORTEST_BUDGET)), math.inf
        training = self.task.training(cell, raw=method.raw)
        with ExitStack() as stack:
            stop = stack.enter_context(early_stop(soft_limit, clock=self.clock))
            stack.enter_context(deadline(limit, clock=self.clock))
            # Values whose squares overflow are found by the search, which checks distances.
            stack.enter_context(np.errstate(over="ignore", invalid="ignore"))
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore", ConvergenceWarning)
            # The comparison speaks of copies among all rows.
            warnings.filterwarnings("ignore", message=".* stay on one side of every split")
            if training.X.size * training.X.shape[1] < _BLAS_THREADS_FROM:
                stack.enter_context(single_threaded_libraries())
            start = self.clock()
            distance = method.fit_to(*training)
            fitted = self.clock()
            scores = self.task.score(distance, cell, raw=method.raw)
        return CellResult(scores, fitted - start, self.clock() - start, stop.happened)
