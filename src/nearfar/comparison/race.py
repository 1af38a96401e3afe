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
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_X_y

from nearfar.comparison.contenders import Contender, line_up
from nearfar.comparison.contest import Entry
from nearfar.comparison.judging import Judgement, judge
from nearfar.comparison.table import Comparison
from nearfar.progress import OutOfTimeError, deadline

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.intp]
Progress = Callable[[int, int, str], None]

_NO_TIME = "no time left"


def compare(
    X: ArrayLike,
    y: ArrayLike,
    learners: Mapping[str, Any] | Iterable[Any] | None = None,
    *,
    cv: Any = 5,
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
    n_neighbors : int, default=3
        Neighbours that vote.
    budget : float, optional
        Seconds. Everyone runs on the first fold, then the best ones first on the others; who does
        not finish in time is left out, and the table says so. Euclidean distance always runs.
    random_state : int or None, default=0
        Seed of the folds and of the learners.
    progress : callable, optional
        Called with the number of fits done, their total, and who is next.

    Returns
    -------
    Comparison
        Prints as a table with a verdict.

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
    folds = _folds(points, codes, cv, random_state)
    smallest = min(len(train) for train, _ in folds)
    if not 1 <= n_neighbors <= smallest:
        raise ValueError(f"n_neighbors must be from 1 to {smallest}; got {n_neighbors}.")
    race = _Race(points, codes, folds, n_neighbors, random_state, progress)
    entrants = line_up(learners, random_state=random_state)
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


def _folds(X: Floats, y: Ints, cv: Any, random_state: int | None) -> list[tuple[Ints, Ints]]:
    if isinstance(cv, int | np.integer):
        largest = int(np.bincount(y).max())
        if not 2 <= cv <= largest:
            raise ValueError(f"cv must be from 2 to {largest}, the size of a class; got {cv}.")
        cv = StratifiedKFold(int(cv), shuffle=True, random_state=random_state)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        folds = list(check_cv(cv, y, classifier=True).split(X, y))
    for train, _ in folds:
        if len(np.unique(y[train])) < 2:
            raise ValueError("At least two classes are needed, and two in each fold.")
    return folds


@dataclass
class _Record:
    """What a contender has done so far."""

    judgements: list[Judgement] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    spent: float = 0.0
    note: str = ""

    @property
    def first_error(self) -> float:
        return float(self.judgements[0].wrong.mean())


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
        self.n_neighbors, self.random_state = n_neighbors, random_state
        self.progress = progress
        self.records: dict[str, _Record] = {}
        self.done = self.total = 0

    def run_all(self, entrants: list[Contender]) -> None:
        """Run everyone on every fold."""
        self._announce(entrants)
        for fold in range(len(self.folds)):
            for contender in self._running(entrants):
                self._run(contender, fold)

    def run_within(self, entrants: list[Contender], budget: float) -> None:
        """Run everyone on the first fold, then the best first on the others."""
        self._announce(entrants)
        end = time.monotonic() + budget
        later = range(1, len(self.folds))
        for contender in entrants:
            left = end - time.monotonic()
            if contender.kind == "nothing":
                for fold in range(len(self.folds)):
                    self._run(contender, fold)
            elif not self.records[contender.name].note:
                self._run(contender, 0, limit=left / 2)
        waiting = [c for c in self._running(entrants) if c.kind != "nothing"]
        for contender in sorted(waiting, key=lambda c: self.records[c.name].first_error):
            record = self.records[contender.name]
            if end - time.monotonic() < record.spent * len(later):
                self._drop(contender, _NO_TIME)
            for fold in later:
                if not record.note:
                    self._run(contender, fold, limit=end - time.monotonic())

    def entry(self, contender: Contender) -> Entry:
        """Return the contender's line of the table."""
        record = self.records[contender.name]
        if record.note:
            return Entry(contender, note=record.note)
        judgements = record.judgements
        return Entry(
            contender,
            errors=np.array([j.wrong.mean() for j in judgements]),
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

    def _announce(self, entrants: list[Contender]) -> None:
        self.records = {c.name: _Record(note=c.unsuited(self.X)) for c in entrants}
        self.total = len(self._running(entrants)) * len(self.folds)

    def _running(self, entrants: list[Contender]) -> list[Contender]:
        return [c for c in entrants if not self.records[c.name].note]

    def _run(self, contender: Contender, fold: int, *, limit: float = float("inf")) -> None:
        """Fit to the training rows of a fold and judge by its test rows."""
        if self.progress is not None:
            self.progress(self.done, self.total, contender.name)
        record = self.records[contender.name]
        train, test = self.folds[fold]
        rows, sought = self.X[train], self.X[test]
        if not contender.raw:
            scaler = StandardScaler().fit(rows)
            rows, sought = scaler.transform(rows), scaler.transform(sought)
        gallery, queries = (rows, self.y[train]), (sought, self.y[test])
        begin = time.monotonic()
        try:
            with deadline(limit), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                start = time.perf_counter()
                distance = contender.fit(*gallery)
                seconds = time.perf_counter() - start
                judgement = judge(
                    distance,
                    gallery,
                    queries,
                    n_neighbors=self.n_neighbors,
                    random_state=self.random_state,
                )
        except OutOfTimeError:
            self._drop(contender, _NO_TIME)
        except (ValueError, np.linalg.LinAlgError) as error:
            self._drop(contender, f"failed: {error}")
        else:
            record.seconds.append(seconds)
            record.judgements.append(judgement)
            record.spent += time.monotonic() - begin
            self.done += 1

    def _drop(self, contender: Contender, note: str) -> None:
        record = self.records[contender.name]
        record.note = note
        self.total -= len(self.folds) - len(record.judgements)
