"""Checkpoints: interrupted work continues where it stopped.

While a learner runs on all rows, the metric so far is in FILE, an ordinary metric file. Its
metadata identifies the fit: method, parameters, a digest of the data, and the number of iterations
done. Results of slow steps (mined triplets, gradients) are in FILE.steps, from which the same fit
is repeated quickly (`runtime.replay`). Finished results of a comparison are in FILE.comparison, or
in FILE if nothing is fitted afterwards (`nearfar compare`). All are deleted when the work is done.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from nearfar.comparison.comparison_checkpoint import digest
from nearfar.learners.base import MetricLearner
from nearfar.metrics.file_format import read_metadata
from nearfar.metrics.metric import Metric
from nearfar.rows import Moments, as_rows
from nearfar.runtime.history import Iteration
from nearfar.runtime.progress import FitInProgress, stage, watching
from nearfar.runtime.replay import replaying
from nearfar.tables.formats import check_output
from nearfar.typing import Ints

SECONDS_BETWEEN_WRITES = 30.0
"""How old the metric in FILE is at most, if the process is killed; writing takes far less."""
_METADATA_KEY = "checkpoint"
# Parameters that may differ when a fit continues.
_MAY_DIFFER = frozenset({"max_iter", "n_jobs", "verbose", "warm_start"})


class FitCheckpoint:
    """The files of a checkpoint while the work runs; without FILE, nothing is kept.

    Parameters
    ----------
    path : Path or None
        FILE.
    inputs : iterable of path, optional
        Files that must not be overwritten.
    fits : bool
        Whether a learner is fitted to all rows, after the comparison.
    """

    def __init__(
        self, path: Path | None, inputs: Iterable[str | Path | None] = (), *, fits: bool = True
    ) -> None:
        self.path = path if fits else None
        self.comparison, self.steps = path, None
        if path is not None and fits:
            self.comparison = path.with_name(f"{path.name}.comparison")
            self.steps = path.with_name(f"{path.name}.steps")
        self.files = [f for f in (self.path, self.steps, self.comparison) if f is not None]
        for file in self.files:
            check_output(file, None, inputs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            for file in self.files:
                file.unlink(missing_ok=True)
        elif kind is KeyboardInterrupt and self.files:
            files = [str(file) for file in self.files if file.exists()]
            early = self.path is not None and not self.path.exists()
            when = " before the first iteration was finished" if early else ""
            where = (
                f"The work so far is in {' and '.join(files)}; " if files else "Nothing was kept; "
            )
            raise KeyboardInterrupt(
                f"interrupted{when}. {where}run the same command again to continue."
            ) from error

    def check(
        self, learner: MetricLearner | None, X: object, y: object, groups: Ints | None = None
    ) -> None:
        """Raise ValueError if FILE is not a checkpoint, or that of another fit."""
        if self.path is not None and self.path.exists():
            _read(self.path, None if learner is None else FitIdentity.of(learner, X, y, groups))

    def fit(
        self,
        learner: MetricLearner,
        X: object,
        y: object,
        describe: Callable[[Metric], Metric] = lambda metric: metric,
        groups: Ints | None = None,
    ) -> int:
        """Fit a learner, from where FILE is if it exists; FILE follows.

        The result is that of ``learner.fit(X, y)``, to the last bit, however often it was
        interrupted. A learner that cannot continue is fitted from the start, without FILE.

        Parameters
        ----------
        learner : MetricLearner
        X, y : object
            What to fit it to; X may be a path, a Dask array or Rows.
        describe : callable, optional
            Gives the metric in FILE its feature names.
        groups : array of shape (n_samples,), optional
            The group of each row.

        Returns
        -------
        int
            Number of iterations, including those before an interruption.
        """
        path, steps = self.path, self.steps
        if path is None or steps is None or not can_continue(learner):
            return int(learner.fit(X, y, groups=groups).n_iter_)
        rows = as_rows(X)
        X = X if rows is None else rows
        identity = FitIdentity.of(learner, X, y, groups)
        done = _read(path, identity) if path.exists() else 0

        def save(metric: Metric, iterations: int) -> None:
            about = {**vars(identity), "iterations": iterations}
            describe(metric).save(path, metadata={_METADATA_KEY: json.dumps(about)})

        about_fit = json.dumps(vars(identity), sort_keys=True)
        with replaying(steps, about_fit), watching(_saving(save, done)):
            return int(learner.fit(X, y, groups=groups).n_iter_)


def can_continue(learner: MetricLearner) -> bool:
    """Tell whether an interrupted fit of a learner can continue.

    Examples
    --------
    >>> from nearfar import NCA, AutoMetric
    >>> from nearfar.workflow.checkpoint import can_continue
    >>> can_continue(NCA()), can_continue(AutoMetric())
    (True, False)
    """
    return {"warm_start", "max_iter"} <= set(learner.get_params())


@dataclass(frozen=True)
class FitIdentity:
    """What must be the same for a fit to continue.

    Attributes
    ----------
    method : str
    parameters : dict of str to str
    data : str
        Digest of the rows, of their labels or constraints, and of their groups.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfar import NCA
    >>> from nearfar.workflow.checkpoint import FitIdentity
    >>> X, y = load_iris(return_X_y=True)
    >>> FitIdentity.of(NCA(max_iter=5), X, y) == FitIdentity.of(NCA(max_iter=9), X, y)
    True
    >>> FitIdentity.of(NCA(), X, y) == FitIdentity.of(NCA(), X[::-1], y)
    False
    """

    method: str
    parameters: dict[str, str]
    data: str

    @classmethod
    @stage("identifying the data")
    def of(
        cls, learner: MetricLearner, X: object, y: object, groups: Ints | None = None
    ) -> FitIdentity:
        """Identify the fit of a learner; rows on disk, by their statistics."""
        rows = as_rows(X)
        X = X if rows is None else vars(Moments.of(rows))
        parameters = learner.get_params(deep=False).items()
        return cls(
            type(learner).__name__,
            {name: repr(value) for name, value in parameters if name not in _MAY_DIFFER},
            digest((X, y) if groups is None else (X, y, groups)),
        )


def _read(path: Path, identity: FitIdentity | None) -> int:
    """Return the iterations done, or raise ValueError if a file is not for this fit."""
    try:
        stored = json.loads(read_metadata(path)[_METADATA_KEY])
        iterations = int(stored["iterations"])
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"{path} is not a checkpoint; name another file.") from error
    for key, value in {} if identity is None else vars(identity).items():
        if stored.get(key) != value:
            raise ValueError(
                f"{path} is the checkpoint of a fit with other {key}; "
                "name another file, or delete it to start again."
            )
    return iterations


def _saving(
    save: Callable[[Metric, int], None], done: int
) -> Callable[[Iterable[Iteration], FitInProgress], Iterator[Iteration]]:
    """Return a watcher that saves the metric so far: at first, now and then, when interrupted.

    The metric of `done` iterations is in the file already.
    """

    def watch(iterations: Iterable[Iteration], fit: FitInProgress) -> Iterator[Iteration]:
        number, due = 0, -math.inf
        try:
            for number, iteration in enumerate(iterations, start=1):
                if number > done and time.monotonic() >= due:
                    save(fit.metric(), number)
                    due = time.monotonic() + SECONDS_BETWEEN_WRITES
                yield iteration
        except (KeyboardInterrupt, SystemExit):
            if number > done:
                save(fit.metric(), number)
            raise

    return watch
