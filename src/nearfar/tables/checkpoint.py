"""Checkpoints: interrupted work continues where it stopped.

While a learner runs on all rows, the metric so far is in FILE, an ordinary metric file. Its
metadata has a digest of the fit and the number of iterations. The next run starts from that metric.
Finished results of a comparison are in FILE.comparison, or in FILE if nothing is fitted afterwards
(`nearfar compare`). Both are deleted when the work is done.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Self

from nearfar.comparison.checkpoint import digest
from nearfar.frames.formats import check_output
from nearfar.learners.base import MetricLearner, resume
from nearfar.metrics.file_format import read_metadata
from nearfar.metrics.metric import Metric
from nearfar.rows import Moments, as_rows
from nearfar.runtime.history import Iteration
from nearfar.runtime.progress import FitInProgress, stage, watching
from nearfar.typing import Ints

SECONDS_BETWEEN_WRITES = 5.0
"""What an interruption may lose, beyond the running iteration."""
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
        self, path: Path | None, inputs: Iterable[object] = (), *, fits: bool = True
    ) -> None:
        self.path, self.comparison = path if fits else None, path
        if self.path is not None:
            self.comparison = self.path.with_name(f"{self.path.name}.comparison")
        self.files = [f for f in (self.path, self.comparison) if f is not None]
        for file in self.files:
            check_output(file, None, inputs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if kind is None:
            for file in self.files:
                file.unlink(missing_ok=True)
        elif kind is KeyboardInterrupt and self.files:
            files = " and ".join(str(file) for file in self.files if file.exists())
            kept = f"The work so far is in {files}" if files else "Nothing was kept"
            text = f"interrupted. {kept}; run the same command again to continue."
            raise KeyboardInterrupt(text)

    def check(
        self, learner: MetricLearner | None, X: object, y: object, groups: Ints | None = None
    ) -> int:
        """Return the iterations in FILE, or raise ValueError if it is not of this fit."""
        if self.path is None or not self.path.exists():
            return 0
        try:
            stored = json.loads(read_metadata(self.path)[_METADATA_KEY])
            fit, iterations = stored["fit"], int(stored["iterations"])
        except (ValueError, LookupError, TypeError) as error:
            raise ValueError(f"{self.path} is not a checkpoint; name another file.") from error
        if learner is not None and fit != fit_digest(learner, X, y, groups):
            raise ValueError(
                f"{self.path} is the checkpoint of another fit (other method, parameters or data); "
                "name another file, or delete it to start again."
            )
        return iterations

    def fit(
        self,
        learner: MetricLearner,
        X: object,
        y: object,
        describe: Callable[[Metric], Metric] = lambda metric: metric,
        groups: Ints | None = None,
    ) -> int:
        """Fit a learner, from the metric in FILE if it exists; FILE follows.

        A learner that cannot continue is fitted from the start, without FILE.

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
        path = self.path
        if path is None or not can_continue(learner):
            return int(learner.fit(X, y, groups=groups).n_iter_)
        identity, done = fit_digest(learner, X, y, groups), self.check(learner, X, y, groups)
        if done:
            resume(learner, Metric.load(path), done)

        def save(iterations: Iterable[Iteration], fit: FitInProgress) -> Iterator[Iteration]:
            """Write the metric so far after the first iteration, and every few seconds."""
            due = -math.inf
            for number, iteration in enumerate(iterations, start=done + 1):
                if time.monotonic() >= due:
                    about = json.dumps({"fit": identity, "iterations": number})
                    describe(fit.metric()).save(path, metadata={_METADATA_KEY: about})
                    due = time.monotonic() + SECONDS_BETWEEN_WRITES
                yield iteration

        with watching(save):
            return done + int(learner.fit(X, y, groups=groups).n_iter_)


def can_continue(learner: MetricLearner) -> bool:
    """Tell whether an interrupted fit of a learner can continue."""
    return {"warm_start", "max_iter"} <= set(learner.get_params())


@stage("identifying the data")
def fit_digest(learner: MetricLearner, X: object, y: object, groups: Ints | None = None) -> str:
    """Return a digest of what must be the same for a fit to continue; of rows on disk, moments."""
    rows = as_rows(X)
    settings = {
        k: repr(v) for k, v in learner.get_params(deep=False).items() if k not in _MAY_DIFFER
    }
    content = X if rows is None else vars(Moments.of(rows))
    return digest([type(learner).__name__, settings, content, y, groups])
