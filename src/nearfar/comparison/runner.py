"""Every contender on every fold, or as far as a budget of time goes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_X_y

from nearfar.comparison.methods import Method, default_methods
from nearfar.comparison.scoring import Scores, judge
from nearfar.comparison.significance import NO_TIME, MethodResult
from nearfar.comparison.table import Comparison
from nearfar.learners.scaler import Scaler
from nearfar.learners.base import require_integer, require_number
from nearfar.runtime.deadline import OutOfTimeError, deadline
from nearfar.typing import Floats, Ints

Progress = Callable[[int, int, str], None]

_SLOWER = 1.3
"""How much longer a fold may take than the first one."""


def compare(
    X: ArrayLike,
    y: ArrayLike,
    learners: Mapping[str, Any] | Iterable[Any] | None = None,
    *,
    cv: Any = 5,
    groups: ArrayLike | None = None,
    n_neighbors: int = 3,
    budget: float | None = None,
    random_state: int | None = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Compare learners with doing nothing and with plain methods, on the same folds.

    Beside the learners stand Euclidean distance (on rows as they are, and standardised), L1,
    chi-square (on rows as they are, if none is negative), the inverse covariance, and
    scikit-learn's linear discriminant analysis. But where it says "as they are", everything is
    fitted to the same standardised training rows.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Class labels.
    learners : mapping of str to estimator, or iterable of estimators or names, optional
        By default scikit-learn's NCA and every learner of nearfar, as they come. An estimator
        needs `fit` and `transform`.
    cv : int, splitter or iterable, default=5
        A number means so many shuffled, stratified folds.
    groups : array-like of shape (n_samples,), optional
        For splitters that keep groups of rows together.
    n_neighbors : int, default=3
        Neighbours that vote.
    budget : float, optional
        Seconds. Euclidean distance always runs, then the plain methods; then every learner on the
        first fold, and the best ones first on the others. Who does not finish in time is left out,
        and the verdict says so. A round of a learner that has begun is finished, and so is a fit of
        an estimator that is not nearfar's.
    random_state : int or None, default=0
        Seed of the folds and of the learners.
    progress : callable, optional
        Called with the number of fits done, their total, and who is next.

    Returns
    -------
    Comparison
        Prints as a table with a verdict.

    Notes
    -----
    The error of the winner is the smallest of many, so that on new rows expect a little more.

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
    require_integer("n_neighbors", n_neighbors, at_least=1)
    smallest = min(len(train) for train, _ in folds)
    if n_neighbors > smallest:
        raise ValueError(f"n_neighbors must be from 1 to {smallest}; got {n_neighbors}.")
    if budget is not None:
        require_number("budget", budget, at_least=0.0)
    race = _Race(points, codes, folds, n_neighbors, random_state, progress)
    entrants = default_methods(learners, random_state=random_state)
    if budget is None:
        race.run_all(entrants)
    else:
        race.run_within(entrants, budget)
    entries = [race.entry(contender) for contender in entrants]
    return Comparison(
        entries,
        n_neighbors=n_neighbors,
        n_folds=len(folds),
        n_rows=len(points),
        test_share=float(np.mean([len(test) / len(train) for train, test in folds])),
    )


def _folds(
    X: Floats, y: Ints, cv: Any, groups: Any, random_state: int | None
) -> list[tuple[Ints, Ints]]:
    if isinstance(cv, int | np.integer) and groups is None:
        largest = int(np.bincount(y).max())
        if not 2 <= cv <= largest:
            raise ValueError(f"cv must be from 2 to {largest}, the size of a class; got {cv}.")
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
            raise ValueError("At least two classes are needed, and two in each fold.")
        if len(test) == 0 or len(np.intersect1d(train, test)):
            raise ValueError("Every fold of cv needs test rows that are not among its others.")
    return folds


def _cost(contender: Method) -> tuple[bool, bool]:
    """Order by what is likely to take longer: learning, and distances without a map."""
    return contender.kind == "learned", not contender.maps


@dataclass
class _Record:
    """What a contender has done so far."""

    judgements: list[Scores] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    spent: float = 0.0
    note: str = ""


class _Race:
    def __init__(
        self,
        X: Floats,
        y: Ints,
        folds: list[tuple[Ints, Ints]],
        n_neighbors: int,
        random_state: int | None,
        progress: Progress | None,
    ) -> None:
        self.X, self.y, self.folds = X, y, folds
        self.n_neighbors, self.progress = n_neighbors, progress
        # Everyone must be judged by the same rows, also without a seed.
        self.seed = int(check_random_state(random_state).randint(1 << 31))
        self._every = list(range(len(folds)))
        self._standardised: tuple[int, Floats, Floats] | None = None
        self.records: dict[str, _Record] = {}
        self.done = self.total = 0

    def run_all(self, entrants: list[Method]) -> None:
        """Run everyone on every fold."""
        self._announce(entrants)
        for fold in range(len(self.folds)):
            for contender in self._running(entrants):
                self._run(contender, fold)

    def run_within(self, entrants: list[Method], budget: float) -> None:
        """Run plain methods, then learners on the first fold, then the best ones on the others."""
        self._announce(entrants)
        end = time.monotonic() + budget
        for contender in sorted(self._running(entrants), key=_cost):
            now = time.monotonic()
            if contender.kind == "nothing":
                self._run_folds(contender, self._every, float("inf"))
            elif contender.kind == "plain":
                self._run_folds(contender, self._every, now + (end - now) / 2)
        learned = [c for c in self._running(entrants) if c.kind == "learned"]
        for waiting, contender in zip(range(len(learned), 0, -1), learned, strict=True):
            now = time.monotonic()
            self._run_folds(contender, self._every[:1], now + (end - now) / waiting)
        for contender in self._best_first(self._running(learned)):
            needed = self.records[contender.name].spent * (len(self.folds) - 1) * _SLOWER
            if end - time.monotonic() < needed:
                self._drop(contender, NO_TIME)
            else:
                self._run_folds(contender, self._every[1:], end)

    def _run_folds(self, contender: Method, folds: list[int], end: float) -> None:
        for fold in folds:
            left = end - time.monotonic()
            if self.records[contender.name].note:
                return
            if left <= 0:
                self._drop(contender, NO_TIME)
            else:
                self._run(contender, fold, limit=left)

    def _best_first(self, learned: list[Method]) -> list[Method]:
        """Sort by the better of two places: by error, and by MAP@R, on the first fold."""
        first = {c.name: self.records[c.name].judgements[0] for c in learned}
        by_error = sorted(learned, key=lambda c: first[c.name].error)
        by_rank = sorted(learned, key=lambda c: -first[c.name].map_at_r)
        return sorted(learned, key=lambda c: min(by_error.index(c), by_rank.index(c)))

    def entry(self, contender: Method) -> MethodResult:
        """Return the contender's line of the table."""
        record = self.records[contender.name]
        if record.note:
            return MethodResult(contender, note=record.note)
        judgements = record.judgements
        return MethodResult(
            contender,
            errors=np.array([j.error for j in judgements]),
            triplet_accuracies=np.array([j.triplet_accuracy for j in judgements]),
            maps_at_r=np.array([j.map_at_r for j in judgements]),
            seconds=np.array(record.seconds),
            wrong=self._by_row([j.wrong for j in judgements]),
            average_precision=self._by_row([j.average_precision for j in judgements]),
        )

    def _by_row(self, values: list[NDArray[Any]]) -> NDArray[np.float64]:
        """Mean of what each row got in the folds that tested it; nan if it got nothing."""
        total, times = np.zeros(len(self.X)), np.zeros(len(self.X))
        for (_, test), value in zip(self.folds, values, strict=True):
            known = ~np.isnan(value)
            np.add.at(total, test[known], value[known])
            np.add.at(times, test[known], 1)
        return np.divide(total, times, out=np.full(len(total), np.nan), where=times > 0)

    def _announce(self, entrants: list[Method]) -> None:
        self.records = {c.name: _Record(note=c.unsuited(self.X)) for c in entrants}
        self.total = len(self._running(entrants)) * len(self.folds)

    def _running(self, entrants: list[Method]) -> list[Method]:
        return [c for c in entrants if not self.records[c.name].note]

    def _run(self, contender: Method, fold: int, *, limit: float = float("inf")) -> None:
        """Fit to the training rows of a fold and judge by its test rows."""
        if self.progress is not None:
            self.progress(self.done, self.total, contender.name)
        record = self.records[contender.name]
        train, test = self.folds[fold]
        rows, sought = (self.X[train], self.X[test]) if contender.raw else self._scaled(fold)
        gallery, queries = (rows, self.y[train]), (sought, self.y[test])
        begin = time.monotonic()
        try:
            # Numbers that are too large for their squares are found out by the judge.
            with (
                deadline(limit),
                np.errstate(over="ignore", invalid="ignore"),
                warnings.catch_warnings(),
            ):
                warnings.simplefilter("ignore", ConvergenceWarning)
                start = time.perf_counter()
                distance = contender.fit(*gallery)
                seconds = time.perf_counter() - start
                judgement = judge(
                    distance,
                    gallery,
                    queries,
                    n_neighbors=self.n_neighbors,
                    random_state=self.seed,
                )
        except OutOfTimeError:
            self._drop(contender, NO_TIME)
        except Exception as error:
            # Whatever one of them can't cope with must not cost the others their results.
            reason = (str(error) or type(error).__name__).splitlines()[0]
            self._drop(contender, f"failed: {reason}")
        else:
            record.seconds.append(seconds)
            record.judgements.append(judgement)
            record.spent += time.monotonic() - begin
            self.done += 1

    def _scaled(self, fold: int) -> tuple[Floats, Floats]:
        """Rows of a fold, standardised by its training rows; the last fold's are kept."""
        if self._standardised is None or self._standardised[0] != fold:
            train, test = self.folds[fold]
            scaler = Scaler.fit(self.X[train], "standard")
            self._standardised = (
                fold,
                scaler.transform(self.X[train]),
                scaler.transform(self.X[test]),
            )
        return self._standardised[1:]

    def _drop(self, contender: Method, note: str) -> None:
        record = self.records[contender.name]
        record.note = note
        self.total -= len(self.folds) - len(record.judgements)
