"""Which fold holds out each row: by row, by class or by group.

A fold is a number from 0; rows of fold -1 are never held out.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from nearfar.numerics.nearest_rows import ClassOrder
from nearfar.typing import Ints

Random = np.random.RandomState

# More groups are balanced by chance, and balancing them takes a while.
_BALANCED_GROUPS = 5000


def group_splitter(
    n_folds: int, n_groups: int, random_state: int | np.random.RandomState | None
) -> GroupKFold | StratifiedGroupKFold:
    """Return folds that keep groups of constraints together, and are balanced if need be."""
    kind = StratifiedGroupKFold if n_groups <= _BALANCED_GROUPS else GroupKFold
    return kind(n_folds, shuffle=True, random_state=random_state)


def fold_of_rows(n: int, groups: Ints | None, n_folds: int, random: Random) -> Ints:
    """Return the fold that holds out each row, by group if there are groups."""
    if groups is None:
        return np.asarray(random.permutation(n) % n_folds)
    return fold_of_groups(groups, None, n_folds, random)


def fold_of_groups(groups: Ints, codes: Ints | None, n_folds: int, random: Random) -> Ints:
    """Keep groups together, with about the same share of each class in every fold.

    If every group is in one class, a group that is alone in its class is never held out.
    """
    _, first, place = np.unique(groups, return_index=True, return_inverse=True)
    n_folds = min(n_folds, len(first))
    fold = np.full(len(groups), -1, dtype=np.intp)
    if n_folds < 2:
        return fold
    if codes is not None and (codes == codes[first][place]).all():
        return fold_of_labels(codes[first], n_folds, random)[place]
    largest = 0 if codes is None else int(np.unique(codes, return_counts=True)[1].max())
    balanced = n_folds <= largest and len(first) <= _BALANCED_GROUPS
    kind = StratifiedGroupKFold if balanced else GroupKFold
    folds = kind(n_folds, shuffle=True, random_state=random)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        for number, (_, unseen) in enumerate(folds.split(groups, codes, groups)):
            fold[unseen] = number
    return fold


def fold_of_labels(codes: Ints, n_folds: int, random: Random) -> Ints:
    """Share out each class; a row that is alone in its class is never held out."""
    shuffled = random.permutation(len(codes))
    classes = ClassOrder(codes[shuffled])
    fold = np.empty(len(codes), dtype=np.intp)
    fold[shuffled[classes.order]] = np.arange(len(codes)) % n_folds
    fold[shuffled[classes.order[classes.size_of_each < 2]]] = -1
    return fold


def fold_of_classes(codes: Ints, groups: Ints | None, n_folds: int, random: Random) -> Ints:
    """Keep classes together, and classes that share a group; rows without a class stay.

    There are no more folds than half the classes: one class alone cannot be told from others.
    """
    inside = codes >= 0
    n_folds = min(n_folds, max(2, len(np.unique(codes[inside])) // 2))
    together = codes if groups is None else joined_classes(codes, groups)
    sets = random.permutation(np.unique(together[inside]))
    # One class alone cannot be judged: its rows have only each other to find.
    n_folds = max(2, min(n_folds, len(sets) // 2))
    fold_of_set = np.full(int(together.max(initial=-1)) + 2, -1, dtype=np.intp)
    fold_of_set[sets] = np.arange(len(sets)) % n_folds
    return fold_of_set[together]


def joined_classes(codes: Ints, groups: Ints) -> Ints:
    """Return a number for the classes that share groups, of each row; -1 without a class."""
    inside = codes >= 0
    n_classes = int(codes.max(initial=-1)) + 1
    component = components(
        codes[inside], n_classes + groups[inside], n_classes + int(groups.max()) + 1
    )
    return np.where(inside, component[codes], -1)


def components(i: Ints, j: Ints, n: int) -> Ints:
    """Return the number of the connected component of each of n nodes."""
    graph = coo_array((np.ones(len(i)), (i, j)), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.intp)
