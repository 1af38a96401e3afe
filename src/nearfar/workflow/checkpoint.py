"""Checkpoints: interrupted work continues where it stopped.

While a learner runs on all rows, the metric so far is in FILE, an ordinary metric file. Its
metadata identifies the fit: method, parameters, a digest of the data, and the number of iterations
done. Finished results of a comparison are in FILE.comparison, or in FILE if nothing is fitted
afterwards (`nearfar compare`). All are deleted when the work is done.
"""

from __future__ import annotations

import json
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
from nearfar.runtime.history import Iteration
from nearfar.runtime.progress import FitInProgress, watching
from nearfar.tables.formats import check_output
from nearfar.typing import Floats, Ints

SECONDS_BETWEEN_WRITES = 30.0
"""What an interruption costs at most, if the process is killed; writing takes far less."""
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
        self.comparison = path
        if path is not None and fits:
            self.comparison = path.with_name(f"{path.name}.comparison")
        self.files = [file for file in (self.path, self.comparison) if file is not None]
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
        elif kind is KeyboardInterrupt and (files := [f for f in self.files if f.exists()]):
            raise KeyboardInterrupt(
                f"interrupted. The work so far is in {' and '.join(map(str, files))}; "
                "run the same command again to continue."
            ) from error

    def check(
        self, learner: MetricLearner | None, X: Floats, y: object, groups: Ints | None = None
    ) -> None:
        """Raise ValueError if FILE is not a checkpoint, or that of another fit."""
        if self.path is not None and self.path.exists():
            _read(self.path, None if learner is None else FitIdentity.of(learner, X, y, groups))

    def fit(
        self,
        learner: MetricLearner,
        X: Floats,
        y: object,
        describe: Callable[[Metric], Metric] = lambda metric: metric,
        groups: Ints | None = None,
    ) -> int:
        """Fit a learner, from where FILE is if it exists; FILE follows.

        A learner that cannot continue is fitted from the start, without FILE.

        Parameters
        ----------
        learner : MetricLearner
        X, y : object
            What to fit it to.
        describe : callable, optional
            Gives the metric in FILE its feature names.
        groups : array of shape (n_samples,), optional
            The group of each row.

        Returns
        -------
        int
            Number of iterations, including those before an interruption.
        """
        done = 0
        if self.path is None or not can_continue(learner):
            return int(learner.fit(X, y, groups=groups).n_iter_)
        identity = FitIdentity.of(learner, X, y, groups)
        # A fit that may be continued is not validated, neither now nor then.
        learner.set_params(warm_start=True)
        if self.path.exists():
            done = _read(self.path, identity)
            limit = learner.get_params()["max_iter"]
            left = None if limit is None else max(1, limit - done)
            learner.set_params(max_iter=left)
            learner.metric_ = Metric.load(self.path).named(None)
        path = self.path

        def save(metric: Metric, iterations: int) -> None:
            about = {**vars(identity), "iterations": done + iterations}
            describe(metric).save(path, metadata={_METADATA_KEY: json.dumps(about)})

        with watching(_saving(save)):
            return done + int(learner.fit(X, y, groups=groups).n_iter_)


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
    def of(
        cls, learner: MetricLearner, X: Floats, y: object, groups: Ints | None = None
    ) -> FitIdentity:
        """Identify the fit of a learner."""
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
    save: Callable[[Metric, int], None],
) -> Callable[[Iterable[Iteration], FitInProgress], Iterator[Iteration]]:
    """Return a watcher that saves the metric so far, now and then and when interrupted."""

    def watch(iterations: Iterable[Iteration], fit: FitInProgress) -> Iterator[Iteration]:
        number, last = 0, time.monotonic()
        try:
            for number, iteration in enumerate(iterations, start=1):
                if time.monotonic() - last >= SECONDS_BETWEEN_WRITES:
                    save(fit.metric(), number)
                    last = time.monotonic()
                yield iteration
        except (KeyboardInterrupt, SystemExit):
            if number > 0:
                save(fit.metric(), number)
            raise

    return watch
