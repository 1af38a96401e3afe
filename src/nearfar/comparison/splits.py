"""Training and test rows: the folds, and samples of them where time is short.

Judgements are split in the same way as rows: in what follows, a row may be a triplet or a pair.
Rows of one group are never on both sides of a fold, and nor are judgements of them. All methods use
the same folds.
"""

from __future__ import annotations

import warnings
from typing import TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import BaseCrossValidator, StratifiedKFold, check_cv
from sklearn.utils import check_random_state

from nearfar.evidence.splits import group_splitter
from nearfar.supervision import Pairs, Supervision, Triplets, kind_of
from nearfar.typing import Array, Ints

Folds = list[tuple[Ints, Ints]]


def folds_within(folds: Folds, rows: Ints, n: int) -> Folds:
    """Return the folds of some of n rows; those that are left with nothing to test are dropped."""
    kept = np.zeros(n, dtype=bool)
    kept[rows] = True
    few = [(train[kept[train]], test[kept[test]]) for train, test in folds]
    return [(train, test) for train, test in few if len(train) and len(test)]


def stratified_order(y: Ints, random: np.random.Generator) -> Ints:
    """Order rows so that the first n of them are a stratified sample, for every n.

    The order begins with two rows of each class.
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
    """Return a splitter's folds of all rows as folds among some of them; a number as it is."""
    if is_count(cv):
        return cv
    place = np.full(len(y), -1)
    place[rows] = np.arange(len(rows))
    folds = _split(check_cv(cv, y, classifier=True), y, groups)
    kept = [(place[train], place[test]) for train, test in folds]
    kept = [(train[train >= 0], test[test >= 0]) for train, test in kept]
    return [(train, test) for train, test in kept if len(test)]


def class_folds(y: Ints, cv: object, groups: Ints | None, random_state: int | None) -> Folds:
    """Return folds that hold out whole classes; those that share a group stay together."""
    most = (int(y.max()) + 1) // 2
    if not is_count(cv) or cv < 2 or most < 2:
        raise ValueError(
            'split="classes" needs four classes or more, and a number of folds from 2; got '
            f"{int(y.max()) + 1} classes and cv={cv}."
        )
    labels = Supervision.of(y, len(y), groups=groups)
    splits = labels.split(min(int(cv), most), check_random_state(random_state), by="classes")
    folds = [(split.rows, split.unseen_rows) for split in splits]
    if len(folds) < 2 or any(len(np.unique(y[part])) < 2 for fold in folds for part in fold):
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
        n_groups = min(len(np.unique(together)), int(np.bincount(kinds).max()))
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
    """Return a number of folds, at most as many as there are of what it splits."""
    if most < 2:
        raise ValueError(f"There is nothing to hold out: {what} is {most}, and two are needed.")
    if not is_count(cv) or cv < 2:
        raise ValueError(f"cv must be a number of folds from 2, or a splitter; got {cv}.")
    return min(int(cv), most)


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
