"""Training and test rows: the folds, and small stratified samples of them for a first impression.

Judgements are split in the same way as rows: in what follows, a row may be a triplet or a pair.
Rows of one group are never on both sides of a fold, and nor are judgements of them.

A cell is one training set with its test rows: a fold with all its training rows, or with a sample
of them. Samples of a fold are nested and contain every class. All methods use the same cells, so
any two methods can be compared on the cells that both have.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import NamedTuple, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import BaseCrossValidator, StratifiedKFold, check_cv
from sklearn.utils import check_random_state

from nearfar.constraints import Pairs, Supervision, Triplets, kind_of
from nearfar.constraints.folds import group_splitter
from nearfar.typing import Array, Ints, Vector

Folds = list[tuple[Ints, Ints]]

# Training rows of the smallest sample, if there are few classes: with fewer, the order of methods
# is chance; with more, a first look at slow learners takes too long.
_SAMPLE_ROWS = 300
# So that a class has neighbours of its own to find.
_SAMPLE_ROWS_PER_CLASS = 4
# So that neighbours are near, and not a tenth of all rows.
_SAMPLE_ROWS_PER_NEIGHBOR = 10
# Each sample is this many times larger than the one before, so that all before the last take
# little of the time.
_SAMPLE_GROWTH = 4
# Beyond this share of the training rows, all of them are used: a sample would save too little.
_LARGEST_SAMPLE_SHARE = 1 / 3
# Test rows used with a sample: enough to halve the methods, and a small part of the time.
_SAMPLE_TEST_ROWS = 1000


class Cell(NamedTuple):
    """One training set and its test rows.

    Attributes
    ----------
    fold : int
    n_train : int
        Number of training rows; fewer than the fold has if they are a sample.
    """

    fold: int
    n_train: int


class Splits:
    """The folds of a comparison and samples of their training rows.

    Parameters
    ----------
    folds : list of (training rows, test rows)
    y : array of shape (n_rows,)
        Class codes.
    n_neighbors : int
        Number of votes; a sample has many more rows.
    seed : int
        Seed of the samples.
    unit : str, default="rows"
        What is split: "rows", "triplets" or "pairs".
    """

    def __init__(
        self, folds: Folds, y: Ints, *, n_neighbors: int = 1, seed: int = 0, unit: str = "rows"
    ) -> None:
        self.folds, self.y, self.seed, self.unit = folds, y, seed, unit
        self._samples: dict[Cell, tuple[Ints, Ints]] = {}
        self._smallest = max(
            _SAMPLE_ROWS,
            _SAMPLE_ROWS_PER_CLASS * (int(y.max()) + 1),
            _SAMPLE_ROWS_PER_NEIGHBOR * n_neighbors,
        )

    @property
    def full(self) -> list[Cell]:
        """The folds with all their training rows."""
        return [Cell(fold, len(train)) for fold, (train, _) in enumerate(self.folds)]

    @property
    def stages(self) -> list[list[Cell]]:
        """Cells in the order in which they are used: samples of one fold, that fold, the others.

        Examples
        --------
        >>> import numpy as np
        >>> from nearfar.comparison.splits import Splits
        >>> rows = np.arange(6000)
        >>> folds = [(rows[rows % 2 == i], rows[rows % 2 != i]) for i in (0, 1)]
        >>> for stage in Splits(folds, rows % 5).stages:
        ...     print([tuple(cell) for cell in stage])
        [(0, 300)]
        [(0, 3000)]
        [(1, 3000)]
        """
        first, *others = self.full
        sizes = []
        size = self._smallest
        while size <= first.n_train * _LARGEST_SAMPLE_SHARE:
            sizes.append(size)
            size *= _SAMPLE_GROWTH
        stages = [[Cell(0, size)] for size in sizes] + [[first], others]
        return [stage for stage in stages if stage]

    def is_sample(self, cell: Cell) -> bool:
        """Tell whether a cell has only some of the training rows of its fold."""
        return cell.n_train < len(self.folds[cell.fold][0])

    def rows(self, cell: Cell) -> tuple[Ints, Ints]:
        """Return the training and the test rows of a cell."""
        train, test = self.folds[cell.fold]
        if not self.is_sample(cell):
            return train, test
        if cell not in self._samples:
            random = np.random.default_rng([self.seed, cell.fold])
            sample = stratified_order(self.y[train], random)[: cell.n_train]
            tested = random.permutation(len(test))[:_SAMPLE_TEST_ROWS]
            self._samples[cell] = train[np.sort(sample)], test[np.sort(tested)]
        return self._samples[cell]

    def mean_by_row(self, values: Iterable[tuple[Cell, Vector]]) -> Vector:
        """Mean for each row over the cells that tested it; nan if there are none."""
        total, times = np.zeros(len(self.y)), np.zeros(len(self.y))
        for cell, value in values:
            test, scored = self.rows(cell)[1], ~np.isnan(value)
            np.add.at(total, test[scored], value[scored])
            np.add.at(times, test[scored], 1)
        return np.divide(total, times, out=np.full(len(total), np.nan), where=times > 0)


def stratified_order(y: Ints, random: np.random.Generator) -> Ints:
    """Order rows so that the first n of them are a stratified sample, for every n.

    The order begins with two rows of each class.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.comparison.splits import stratified_order
    >>> y = np.repeat([0, 1, 2], [100, 50, 2])
    >>> order = stratified_order(y, np.random.default_rng(0))
    >>> np.bincount(y[order[:36]])
    array([22, 12,  2])
    """
    shuffled = random.permutation(len(y))
    grouped = shuffled[np.argsort(y[shuffled], kind="stable")]
    sizes = np.bincount(y)
    position = np.arange(len(y)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    offsets = random.uniform(size=len(sizes))
    share = (position + np.repeat(offsets, sizes)) / np.repeat(np.maximum(sizes, 1), sizes)
    share[position < 2] = -1.0
    return grouped[np.argsort(share, kind="stable")]


def row_folds(y: Ints, cv: object, groups: Ints | None, random_state: int | None) -> Folds:
    """Return the training and test rows of each fold, checked."""
    if is_count(cv):
        most, what = int(np.bincount(y).max()), "the size of the largest class"
        n_groups = len(y) if groups is None else int(groups.max()) + 1
        if n_groups < most:
            most, what = n_groups, "the number of groups"
        n_folds = checked_count(cv, most, what)
        if groups is None:
            cv = StratifiedKFold(n_folds, shuffle=True, random_state=random_state)
        else:
            cv = group_splitter(n_folds, n_groups, random_state)
    folds = _split(check_cv(cv, y, classifier=True), y, groups)
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
        if groups is not None and len(np.intersect1d(groups[train], groups[test])):
            raise ValueError("cv has rows of one group on both sides of a fold.")
    return folds


def folds_among(rows: Ints, cv: object, y: Array, groups: ArrayLike | None) -> object:
    """Return a splitter's folds of all rows as folds among some of them; a number as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.comparison.splits import folds_among
    >>> folds_among([0, 2, 3], [([0, 1], [2, 3])], np.array([0, -1, 1, 2]), None)
    [(array([0]), array([1, 2]))]
    """
    if is_count(cv):
        return cv
    place = np.full(len(y), -1)
    place[rows] = np.arange(len(rows))
    folds = _split(check_cv(cv, y, classifier=True), y, groups)
    kept = [(place[train], place[test]) for train, test in folds]
    kept = [(train[train >= 0], test[test >= 0]) for train, test in kept]
    return [(train, test) for train, test in kept if len(test)]


def class_folds(y: Ints, cv: object, groups: Ints | None, random_state: int | None) -> Folds:
    """Return folds that hold out whole classes; those that share a group stay together.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.comparison.splits import class_folds
    >>> y = np.repeat(np.arange(4), 3)
    >>> [np.unique(y[test]).tolist() for _, test in class_folds(y, 2, None, 0)]
    [[1, 2], [0, 3]]
    """
    most = (int(y.max()) + 1) // 2
    if not is_count(cv) or not 2 <= cv <= most:
        raise ValueError(
            f'With split="classes", cv must be a number of folds from 2 to {most}, as every fold '
            f"holds out two classes or more; got cv={cv}."
        )
    labels = Supervision.of(y, len(y), groups=groups)
    splits = labels.split(int(cv), check_random_state(random_state), by="classes")
    folds = [(split.rows, split.unseen_rows) for split in splits]
    if len(folds) < cv or any(len(np.unique(y[part])) < 2 for fold in folds for part in fold):
        raise ValueError(
            "Every fold needs two classes or more to learn from and to test, and classes that "
            "share a group stay together; use fewer folds."
        )
    return folds


def judgement_folds(
    judgements: Triplets | Pairs, cv: object, groups: Ints | None, random_state: int | None
) -> Folds:
    """Return the training and test judgements of each fold, checked.

    With a number of folds, judgements of two or more raters are split by rater, other triplets by
    anchor, and other pairs by connected group. With groups of rows, which may be those that similar
    pairs join, these are held out instead: judgements between seen and unseen groups are in neither
    part.
    """
    unit = kind_of(judgements)
    kinds = kinds_of(judgements)
    n_kinds = 1 if unit == "triplets" else 2
    if groups is not None:
        # Groups without judgements are not dealt into folds.
        judged = np.unique(judgements.index)
        n_groups = len(np.unique(groups[judged]))
        n_folds = checked_count(cv, n_groups, f"the number of groups with {unit}")
        rows = Supervision.of(None, len(judged), groups=groups[judged])
        folds = []
        for split in rows.split(n_folds, check_random_state(random_state)):
            held_out = np.isin(judgements.index, judged[split.unseen_rows])
            seen, unseen = ~held_out.any(axis=1), held_out.all(axis=1)
            folds.append((np.flatnonzero(seen), np.flatnonzero(unseen)))
    elif is_count(cv):
        together = judgement_groups(judgements, cv)
        n_groups = len(np.unique(together))
        what = "anchors" if unit == "triplets" else "groups of pairs that share rows"
        what = "raters" if judgements.n_raters > 1 else what
        n_folds = checked_count(cv, n_groups, f"the number of {what}")
        folds = _split(group_splitter(n_folds, n_groups, random_state), kinds, together)
    else:
        folds = _split(check_cv(cv), kinds, None)
    if not folds or any(len(np.unique(kinds[part])) < n_kinds for fold in folds for part in fold):
        both = "" if n_kinds == 1 else " of both kinds"
        raise ValueError(
            f"Every fold needs {unit}{both} to learn from and to test; use fewer folds."
        )
    if any(len(np.intersect1d(train, test)) for train, test in folds):
        raise ValueError(f"A fold of cv has the same {unit} to learn from and to test.")
    return folds


def checked_count(cv: object, most: int, what: str) -> int:
    """Return a number of folds, or raise ValueError if there are too few of what it splits."""
    if most < 2:
        raise ValueError(f"There is nothing to hold out: {what} is {most}, and two are needed.")
    if not is_count(cv) or not 2 <= cv <= most:
        raise ValueError(f"cv must be from 2 to {most}, {what}; got {cv}.")
    return int(cv)


def judgement_groups(judgements: Triplets | Pairs, cv: object) -> Ints:
    """Return the group of each judgement: its rater, its anchor, or the pairs that share rows."""
    if isinstance(judgements, Triplets):
        return np.asarray(judgements.groups())
    return np.asarray(judgements.groups(int(cv) if is_count(cv) else 5))


def kinds_of(judgements: Triplets | Pairs) -> Ints:
    """Return 1 for similar pairs, and 0 for dissimilar ones and for triplets."""
    if isinstance(judgements, Pairs):
        return np.asarray(judgements.similar, dtype=np.intp)
    return np.zeros(len(judgements), dtype=np.intp)


def is_count(cv: object) -> TypeGuard[int]:
    """Tell whether `cv` is a number of folds."""
    return isinstance(cv, int | np.integer)


def _split(splitter: BaseCrossValidator, y: Array, groups: ArrayLike | None) -> Folds:
    rows = np.arange(len(y))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        return [(rows[train], rows[test]) for train, test in splitter.split(rows, y, groups)]
