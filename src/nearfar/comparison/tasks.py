"""What methods learn from, and what they are scored on: labelled rows, triplets or pairs.

rows        a method learns from the training rows of a fold; test rows are classified and
            ranked by the training rows (`scoring`)
classes     a method learns from the rows of some classes; rows of the others are classified
            and ranked by each other
triplets    a method learns from the triplets of some anchors, over all rows; the triplets of
            the other anchors are right or wrong
pairs       a method learns from some connected groups of pairs, over all rows; a pair of the
            others is wrong with the share of test pairs of the other kind that it is on the
            wrong side of. The mean is 1 - AUC.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import check_cv

from nearfar.comparison.gains import Goal
from nearfar.comparison.scoring import Scores, score_distance
from nearfar.comparison.shared_rows import SharedRows
from nearfar.comparison.splits import Cell, Folds, Splits
from nearfar.constraints import Pairs, Triplets
from nearfar.constraints.base import group_splitter
from nearfar.learners.fitting import LARGEST_VALUE
from nearfar.learners.scaler import Scaler
from nearfar.metrics.metric import Metric
from nearfar.metrics.search import Distance
from nearfar.typing import Floats, Ints, Vector

Judgements = Triplets | Pairs


class Task(ABC):
    """What methods learn from and are scored on.

    Attributes
    ----------
    kind : {"labels", "triplets", "pairs"}
    goals : tuple of str
        What methods are compared by.
    X : array of shape (n_rows, n_features)
    splits : Splits
        Of rows, triplets or pairs.
    shared : SharedRows or None
        Which judgements share rows.
    unseen : array of shape (n_rows,) or None
        The class of each row, if methods are tested on classes that they did not learn from.
    """

    kind: ClassVar[str]
    goals: ClassVar[tuple[Goal, ...]]
    X: Floats
    splits: Splits
    shared: SharedRows | None = None
    unseen: Ints | None = None

    @abstractmethod
    def training(self, cell: Cell, *, raw: bool) -> tuple[Floats, Any]:
        """Return what to learn from: rows, unscaled or standardised, and what is known of them."""

    @abstractmethod
    def score(self, distance: Metric | Distance, cell: Cell, *, raw: bool) -> Scores:
        """Score a distance on what was held out."""


class LabelledRows(Task):
    """Rows with class codes."""

    kind = "labels"
    goals = ("classification", "ranking")

    def __init__(self, X: Floats, y: Ints, splits: Splits, *, n_neighbors: int, seed: int) -> None:
        self.X, self.y, self.splits = X, y, splits
        self.n_neighbors, self.seed = n_neighbors, seed
        self._standardised: tuple[Cell, Floats, Floats] | None = None

    def training(self, cell: Cell, *, raw: bool) -> tuple[Floats, Any]:
        """Return the training rows of a cell and their classes."""
        return self._rows(cell, raw)[0], self.y[self.splits.rows(cell)[0]]

    def score(self, distance: Metric | Distance, cell: Cell, *, raw: bool) -> Scores:
        """Classify and rank the test rows."""
        train, test = self.splits.rows(cell)
        X, X_test = self._rows(cell, raw)
        gallery, queries = (X, self.y[train]), (X_test, self.y[test])
        return score_distance(
            distance, gallery, queries, n_neighbors=self.n_neighbors, random_state=self.seed
        )

    def _rows(self, cell: Cell, raw: bool) -> tuple[Floats, Floats]:
        """Rows of a cell, standardised by its training rows; those of the last cell are kept."""
        train, test = self.splits.rows(cell)
        if raw:
            return self.X[train], self.X[test]
        if self._standardised is None or self._standardised[0] != cell:
            scaler = Scaler.fit(self.X[train], "standard")
            X, X_test = scaler.transform(self.X[train]), scaler.transform(self.X[test])
            self._standardised = cell, X, X_test
        return self._standardised[1:]


class UnseenClasses(LabelledRows):
    """Rows with class codes; classes are learned from or tested on, and never both."""

    def __init__(self, X: Floats, y: Ints, splits: Splits, *, n_neighbors: int, seed: int) -> None:
        super().__init__(X, y, splits, n_neighbors=n_neighbors, seed=seed)
        self.unseen = y

    def score(self, distance: Metric | Distance, cell: Cell, *, raw: bool) -> Scores:
        """Classify and rank the test rows by each other."""
        gallery = self._rows(cell, raw)[1], self.y[self.splits.rows(cell)[1]]
        return score_distance(
            distance, gallery, None, n_neighbors=self.n_neighbors, random_state=self.seed
        )


class _Judged(Task):
    """Rows with judgements; all rows are known, also those of held-out judgements."""

    def __init__(self, X: Floats, judgements: Any, splits: Splits, groups: Ints) -> None:
        self.X, self.judgements, self.splits = X, judgements, splits
        self.shared = self._shared(groups)
        self._Z: Floats | None = None

    def training(self, cell: Cell, *, raw: bool) -> tuple[Floats, Any]:
        """Return all rows and the training judgements of a cell."""
        return self._rows(raw), self.judgements.take(self.splits.rows(cell)[0])

    def score(self, distance: Metric | Distance, cell: Cell, *, raw: bool) -> Scores:
        """Score the test judgements."""
        unseen = self.judgements.take(self.splits.rows(cell)[1])
        wrong = self._wrong(distance, self._rows(raw), unseen)
        accuracy = 1 - float(wrong.mean()) if self.kind == "triplets" else float("nan")
        return Scores(wrong, np.full(len(wrong), np.nan), accuracy)

    def _rows(self, raw: bool) -> Floats:
        if raw:
            return self.X
        if self._Z is None:
            self._Z = Scaler.fit(self.X, "standard").transform(self.X)
        return self._Z

    @abstractmethod
    def _shared(self, groups: Ints) -> SharedRows: ...

    @abstractmethod
    def _wrong(self, distance: Metric | Distance, X: Floats, unseen: Any) -> Vector: ...


class JudgedTriplets(_Judged):
    """Rows with triplets."""

    kind = "triplets"
    goals = ("triplets",)

    def _shared(self, groups: Ints) -> SharedRows:
        return SharedRows(self.judgements.index, groups, _shares(self.judgements.weight))

    def _wrong(self, distance: Metric | Distance, X: Floats, unseen: Triplets) -> Vector:
        wrong = 1 - distance.prefers(X, unseen.index)
        shares = _shares(unseen.weight)
        return wrong if shares is None else wrong * shares


class JudgedPairs(_Judged):
    """Rows with pairs."""

    kind = "pairs"
    goals = ("pairs",)

    def _shared(self, groups: Ints) -> SharedRows:
        pairs = self.judgements
        return SharedRows(pairs.index, groups, _shares_by_kind(pairs), degree=2.0)

    def _wrong(self, distance: Metric | Distance, X: Floats, unseen: Pairs) -> Vector:
        return misplaced(distance.pair_distances(X, unseen.index), unseen)


def misplaced(distances: Vector, pairs: Pairs) -> Vector:
    """Return how far each pair is on the wrong side of those of the other kind.

    It is the weighted share of pairs of the other kind that are on the wrong side, where a tie
    counts half, times the weight of the pair: the mean over all pairs is 1 - AUC.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Pairs
    >>> from nearfar.comparison.tasks import misplaced
    >>> pairs = Pairs([[0, 1], [2, 3], [4, 5]], [True, False, False])
    >>> misplaced(np.array([2.0, 1.0, 3.0]), pairs)
    array([0.75, 0.75, 0.  ])
    """
    weight = np.ones(len(pairs)) if pairs.weight is None else pairs.weight
    wrong = np.empty(len(pairs))
    for kind, sign in ((pairs.similar, 1.0), (~pairs.similar, -1.0)):
        others, position = sign * distances[~kind], sign * distances[kind]
        order = np.argsort(others, kind="stable")
        below = np.concatenate([[0.0], np.cumsum(weight[~kind][order])])
        left, right = (np.searchsorted(others[order], position, side) for side in ("left", "right"))
        wrong[kind] = (below[left] + below[right]) / (2 * below[-1])
    return np.asarray(wrong * _shares_by_kind(pairs))


def _shares(weight: Vector | None) -> Vector | None:
    return None if weight is None else weight / weight.mean()


def _shares_by_kind(pairs: Pairs) -> Vector:
    """Return the share of each pair in a mean in which both kinds count alike, in units of 1."""
    weight = np.ones(len(pairs)) if pairs.weight is None else pairs.weight
    totals = np.bincount(pairs.similar, weight, minlength=2)
    return np.asarray(weight * len(pairs) / (2 * totals[pairs.similar.astype(np.intp)]))


def judged(X: Floats, judgements: Judgements, cv: Any, groups: Any, random_state: Any) -> _Judged:
    """Return the task of triplets or pairs, split in folds by anchor or connected group."""
    unit = type(judgements).__name__.lower()
    judgements.check(len(X))
    if float(np.abs(X).max()) > LARGEST_VALUE:
        raise ValueError(f"X has values beyond {LARGEST_VALUE:g}, whose squares overflow.")
    if judgements.weight is not None:
        judgements = judgements.take(judgements.weight > 0)
    kinds = np.zeros(len(judgements), dtype=np.intp)
    if isinstance(judgements, Pairs):
        kinds = judgements.similar.astype(np.intp)
    n_folds = int(cv) if isinstance(cv, int | np.integer) else 5
    own = judgements.groups(n_folds) if isinstance(judgements, Pairs) else judgements.groups()
    together = own if groups is None and isinstance(cv, int | np.integer) else groups
    folds = _folds(judgements, kinds, cv, together, random_state)
    seed = 0 if random_state is None else int(random_state)
    splits = Splits(folds, kinds, seed=seed, unit=unit)
    task = JudgedTriplets if isinstance(judgements, Triplets) else JudgedPairs
    return task(X, judgements, splits, own)


def _folds(judgements: Judgements, kinds: Ints, cv: Any, groups: Any, random_state: Any) -> Folds:
    unit = type(judgements).__name__.lower()
    n_kinds = 1 if isinstance(judgements, Triplets) else 2
    if groups is not None and len(groups) != len(judgements):
        raise ValueError(f"groups needs one value for each of the {len(judgements)} {unit}.")
    if isinstance(cv, int | np.integer):
        n_groups = len(np.unique(groups))
        if not 2 <= cv <= n_groups:
            what = "anchors" if unit == "triplets" else "groups of pairs that share rows"
            raise ValueError(f"cv must be from 2 to {n_groups}, the number of {what}; got {cv}.")
        cv = group_splitter(int(cv), n_groups, random_state)
    numbers = np.arange(len(judgements))
    folds = [(numbers[a], numbers[b]) for a, b in check_cv(cv).split(numbers, kinds, groups)]
    if not folds or any(len(np.unique(kinds[part])) < n_kinds for fold in folds for part in fold):
        both = "" if n_kinds == 1 else " of both kinds"
        raise ValueError(
            f"Every fold needs {unit}{both} to learn from and to test; use fewer folds."
        )
    if any(len(np.intersect1d(train, test)) for train, test in folds):
        raise ValueError(f"A fold of cv has the same {unit} to learn from and to test.")
    return folds
