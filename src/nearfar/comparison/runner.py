"""Runs every method on every fold, or as many as a time budget allows."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_X_y

from nearfar.comparison.checkpoint import Checkpoint, FoldResult
from nearfar.comparison.methods import Learners, Method, default_methods
from nearfar.comparison.scoring import score_distance
from nearfar.comparison.significance import NO_TIME, MethodResult
from nearfar.comparison.table import Comparison
from nearfar.learners.scaler import Scaler
from nearfar.runtime.deadline import Clock, OutOfTimeError, deadline
from nearfar.runtime.parameters import check_parameters, integer, number
from nearfar.typing import Floats, Ints, Vector

Progress = Callable[[int, int, str], None]
Folds = list[tuple[Ints, Ints]]

_SAFETY_FACTOR = 1.3
"""Later folds may take longer than the first by this factor."""


def compare(
    X: ArrayLike,
    y: ArrayLike,
    learners: Learners = None,
    *,
    cv: Any = 5,
    groups: ArrayLike | None = None,
    n_neighbors: int = 3,
    budget: float | None = None,
    random_state: int | None = 0,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    clock: Clock = time.perf_counter,
) -> Comparison:
    """Compare learners with Euclidean distance and plain methods, on the same folds.

    The baselines are Euclidean distance on unscaled and on standardised rows. The plain methods are
    L1, chi-square (on unscaled rows, if no value is negative), the inverse covariance, and
    scikit-learn's linear discriminant analysis.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Class labels.
    learners : mapping of str to estimator, or iterable of estimators or names, optional
        By default scikit-learn's NCA and every learner of nearfar, with default parameters. An
        estimator needs `fit` and `transform`.
    cv : int, splitter or iterable, default=5
        An integer is a number of shuffled, stratified folds.
    groups : array-like of shape (n_samples,), optional
        For splitters that keep groups of rows together.
    n_neighbors : int, default=3
        Number of neighbours that vote.
    budget : float, optional
        Time limit in seconds. The baselines always run, then the plain methods, then every learner
        on the first fold, then the best learners on the other folds. Methods that do not finish
        in time are left out, and the verdict names them. Fits of nearfar's learners stop between
        iterations; a fit of another estimator is not interrupted.
    random_state : int or None, default=0
        Seed of the folds and of the learners.
    progress : callable, optional
        Called with the number of fits done, their total, and the name of the next method.
    checkpoint : path-like, optional
        A file that keeps finished results. If it exists, its results are used instead of running
        those folds again, and the time they took counts towards the budget. It must come from a
        comparison of the same data, folds, `n_neighbors` and `random_state`. The file is not
        deleted at the end: delete it when it is no longer needed.
    clock : callable, default=time.perf_counter
        Returns the time in seconds.

    Returns
    -------
    Comparison
        Prints as a table with a verdict.

    Notes
    -----
    The error of the best of many methods is optimistic: expect slightly more on new rows.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import compare
    >>> found = compare(*load_wine(return_X_y=True), ["BoostMetric"])
    >>> found["LDA"].error < found["Euclidean, as is"].error
    True
    >>> found.ranking.winner.name
    'LDA'
    """
    points, labels = check_X_y(X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
    check_classification_targets(labels)
    codes = np.unique(labels, return_inverse=True)[1]
    folds = _folds(points, codes, cv, groups, random_state)
    check_parameters({"n_neighbors": integer(at_least=1)}, {"n_neighbors": n_neighbors})
    smallest = min(len(train) for train, _ in folds)
    if n_neighbors > smallest:
        raise ValueError(f"n_neighbors must be from 1 to {smallest}; got {n_neighbors}.")
    if budget is not None:
        check_parameters({"budget": number(at_least=0.0)}, {"budget": budget})
    if checkpoint is not None and random_state is None:
        raise ValueError("A checkpoint needs an integer random_state.")
    methods = default_methods(learners, random_state=random_state)
    seed = int(check_random_state(random_state).randint(1 << 31))
    compared = [version("nearfar"), points, codes, folds, n_neighbors, seed]
    test_sizes = [len(test) for _, test in folds]
    with Checkpoint(checkpoint, compared, test_sizes, clock=clock) as kept:
        runner = _Runner(points, codes, folds, n_neighbors, seed, methods, kept, progress, clock)
        if budget is None:
            runner.run_all()
        else:
            runner.run_within(budget)
    return Comparison(
        [runner.result(method) for method in methods],
        n_neighbors=n_neighbors,
        n_folds=len(folds),
        n_rows=len(points),
        test_share=float(np.mean([len(test) / len(train) for train, test in folds])),
    )


def _folds(X: Floats, y: Ints, cv: Any, groups: Any, random_state: int | None) -> Folds:
    if isinstance(cv, int | np.integer) and groups is None:
        largest = int(np.bincount(y).max())
        if not 2 <= cv <= largest:
            raise ValueError(
                f"cv must be from 2 to {largest}, the size of the largest class; got {cv}."
            )
        cv = StratifiedKFold(int(cv), shuffle=True, random_state=random_state)
    rows = np.arange(len(X))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        splitter = check_cv(cv, y, classifier=True)
        folds = [(rows[train], rows[test]) for train, test in splitter.split(X, y, groups)]
    if not folds:
        raise ValueError("cv gives no folds.")
    for train, test in folds:
        if len(np.unique(y[train])) < 2:
            raise ValueError(
                "At least two classes are needed, also in the training rows of each fold."
            )
        if len(test) == 0 or len(np.intersect1d(train, test)):
            raise ValueError(
                "Every fold of cv needs test rows, and none of them among its training rows."
            )
    return folds


def _cost(method: Method) -> tuple[bool, bool]:
    """Sort key: methods that are likely to take longer come later."""
    return method.kind == "learned", not method.gives_metric


@dataclass
class _Record:
    """Results of a method so far, and why it was left out, if it was."""

    results: list[FoldResult] = field(default_factory=list)
    note: str = ""


class _Runner:
    """Fits and scores methods, and keeps their results."""

    def __init__(
        self,
        X: Floats,
        y: Ints,
        folds: Folds,
        n_neighbors: int,
        seed: int,
        methods: list[Method],
        checkpoint: Checkpoint,
        progress: Progress | None,
        clock: Clock,
    ) -> None:
        self.X, self.y, self.folds = X, y, folds
        self.n_neighbors, self.seed = n_neighbors, seed
        self.methods, self.checkpoint = methods, checkpoint
        self.progress, self.clock = progress, clock
        self.records = {method.name: _Record(note=method.unsuitable(X)) for method in methods}
        self.done, self.total = 0, len(self._running()) * len(folds)
        self._seconds_restored = 0.0
        self._standardised: tuple[int, Floats, Floats] | None = None

    def run_all(self) -> None:
        """Run every method on every fold."""
        for fold in range(len(self.folds)):
            for method in self._running():
                self._run(method, fold)

    def run_within(self, budget: float) -> None:
        """Run plain methods, then learners on the first fold, then the best ones on the others."""
        end = self._now() + budget
        every = range(len(self.folds))
        for method in sorted(self._running(), key=_cost):
            if method.kind == "baseline":
                self._run_folds(method, every, float("inf"))
            elif method.kind == "plain":
                self._run_folds(method, every, (self._now() + end) / 2)
        learned = [method for method in self._running() if method.kind == "learned"]
        for waiting, method in zip(range(len(learned), 0, -1), learned, strict=True):
            now = self._now()
            self._run_folds(method, every[:1], now + (end - now) / waiting)
        for method in self._best_first([m for m in self._running() if m.kind == "learned"]):
            first = self.records[method.name].results[0]
            if end - self._now() < first.seconds * len(every[1:]) * _SAFETY_FACTOR:
                self._leave_out(method, NO_TIME)
            else:
                self._run_folds(method, every[1:], end)

    def result(self, method: Method) -> MethodResult:
        """Return the results of a method on all folds."""
        record = self.records[method.name]
        if record.note:
            return MethodResult(method, note=record.note)
        scores = [result.scores for result in record.results]
        return MethodResult(
            method,
            errors=np.array([s.error for s in scores]),
            triplet_accuracies=np.array([s.triplet_accuracy for s in scores]),
            maps_at_r=np.array([s.map_at_r for s in scores]),
            seconds=np.array([result.fit_seconds for result in record.results]),
            wrong=self._mean_by_row([s.wrong for s in scores]),
            average_precision=self._mean_by_row([s.average_precision for s in scores]),
        )

    def _running(self) -> list[Method]:
        return [method for method in self.methods if not self.records[method.name].note]

    def _now(self) -> float:
        """Return the time as if the results of the checkpoint had just been computed."""
        return self.clock() + self._seconds_restored

    def _run_folds(self, method: Method, folds: range, end: float) -> None:
        for fold in folds:
            left = end - self._now()
            if self.records[method.name].note:
                return
            if left <= 0:
                self._leave_out(method, NO_TIME)
            else:
                self._run(method, fold, limit=left)

    def _best_first(self, learned: list[Method]) -> list[Method]:
        """Sort by the better of two ranks on the first fold: by error and by MAP@R."""
        first = {method.name: self.records[method.name].results[0].scores for method in learned}
        by_error = sorted(learned, key=lambda method: first[method.name].error)
        by_map = sorted(learned, key=lambda method: -first[method.name].map_at_r)
        return sorted(learned, key=lambda m: min(by_error.index(m), by_map.index(m)))

    def _run(self, method: Method, fold: int, *, limit: float = float("inf")) -> None:
        """Get a result from the checkpoint or by computing it."""
        result = self.checkpoint.get(method, fold)
        if result is not None:
            self._seconds_restored += result.seconds
        else:
            if self.progress is not None:
                self.progress(self.done, self.total, method.name)
            try:
                result = self._fit_and_score(method, fold, limit)
            except OutOfTimeError:
                return self._leave_out(method, NO_TIME)
            except Exception as error:
                # A failure of one method must not lose the results of the others.
                reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
                return self._leave_out(method, f"failed: {reason}")
            self.checkpoint.keep(method, fold, result)
        self.records[method.name].results.append(result)
        self.done += 1
        return None

    def _fit_and_score(self, method: Method, fold: int, limit: float) -> FoldResult:
        train, test = self.folds[fold]
        X, X_test = (self.X[train], self.X[test]) if method.raw else self._scaled(fold)
        gallery, queries = (X, self.y[train]), (X_test, self.y[test])
        # Values whose squares overflow are found by the search, which checks distances.
        with (
            deadline(limit, clock=self.clock),
            np.errstate(over="ignore", invalid="ignore"),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", ConvergenceWarning)
            start = self.clock()
            distance = method.fit(*gallery)
            fitted = self.clock()
            scores = score_distance(
                distance, gallery, queries, n_neighbors=self.n_neighbors, random_state=self.seed
            )
        return FoldResult(scores, fitted - start, self.clock() - start)

    def _mean_by_row(self, values: list[Vector]) -> Vector:
        """Mean for each row over the folds that tested it; nan if there are none."""
        total, times = np.zeros(len(self.X)), np.zeros(len(self.X))
        for (_, test), value in zip(self.folds, values, strict=True):
            known = ~np.isnan(value)
            np.add.at(total, test[known], value[known])
            np.add.at(times, test[known], 1)
        return np.divide(total, times, out=np.full(len(total), np.nan), where=times > 0)

    def _scaled(self, fold: int) -> tuple[Floats, Floats]:
        """Rows of a fold, standardised by its training rows; those of the last fold are kept."""
        if self._standardised is None or self._standardised[0] != fold:
            train, test = self.folds[fold]
            scaler = Scaler.fit(self.X[train], "standard")
            X, X_test = scaler.transform(self.X[train]), scaler.transform(self.X[test])
            self._standardised = fold, X, X_test
        return self._standardised[1:]

    def _leave_out(self, method: Method, note: str) -> None:
        record = self.records[method.name]
        record.note = note
        self.total -= len(self.folds) - len(record.results)
