"""Which fold holds out each row: by row, by class or by group.

A fold is a number from 0; rows of fold -1 are never held out.
"""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from nearfar.numerics.nearest_rows import ClassOrder
from nearfar.typing import Bools, Ints

Random = np.random.RandomState
By = Literal["rows", "classes"]

# More groups are balanced by chance, and balancing them takes a while.
_BALANCED_GROUPS = 5000


def group_splitter(
    n_folds: int, n_groups: int, random_state: int | Random | None, *, balanced: bool = True
) -> GroupKFold | StratifiedGroupKFold:
    """Return folds that keep groups of constraints together, and are balanced if need be."""
    kind = StratifiedGroupKFold if balanced and n_groups <= _BALANCED_GROUPS else GroupKFold
    return kind(n_folds, shuffle=True, random_state=random_state)


def folds(
    n: int,
    n_folds: int,
    random: Random,
    *,
    codes: Ints | None = None,
    groups: Ints | None = None,
    by: By = "rows",
) -> Ints:
    """Return the fold that holds out each of n rows.

    Parameters
    ----------
    codes: shape (n,). Class codes. By rows, each fold has about the same share of each class, and
        a row, or a group, that is alone in its class is never held out. Negative ones are
        unlabelled; by classes, they are never held out.
    groups: shape (n,). Groups are never on both sides; by classes, nor are classes that share
        one.
    by: Whether rows or whole classes are held out. There are no more folds than half the classes:
        one class alone cannot be told from others.
    """
    if by == "classes" and codes is not None:
        inside = codes >= 0
        n_folds = min(n_folds, max(2, len(np.unique(codes[inside])) // 2))
        together = codes if groups is None else classes_in_groups(codes, groups)
        sets = random.permutation(np.unique(together[inside]))
        n_folds = max(2, min(n_folds, len(sets) // 2))
        fold_of_set = np.full(int(together.max(initial=-1)) + 2, -1, dtype=np.intp)
        fold_of_set[sets] = np.arange(len(sets)) % n_folds
        return fold_of_set[together]
    fold = np.full(n, -1, dtype=np.intp)
    if groups is None:
        shuffled = random.permutation(n)
        if codes is None:
            return np.asarray(shuffled % n_folds)
        classes = ClassOrder(codes[shuffled])
        fold[shuffled[classes.order]] = np.arange(n) % n_folds
        fold[shuffled[classes.order[classes.size_of_each < 2]]] = -1
        return fold
    _, first, place = np.unique(groups, return_index=True, return_inverse=True)
    n_folds = min(n_folds, len(first))
    if n_folds < 2:
        return fold
    if codes is not None and (codes == codes[first][place]).all():
        return folds(len(first), n_folds, random, codes=codes[first])[place]
    largest = 0 if codes is None else int(np.unique(codes, return_counts=True)[1].max())
    splitter = group_splitter(n_folds, len(first), random, balanced=n_folds <= largest)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        for number, (_, unseen) in enumerate(splitter.split(groups, codes, groups)):
            fold[unseen] = number
    return fold


def classes_in_groups(codes: Ints, groups: Ints) -> Ints:
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


def joined_classes(index: Ints, similar: Bools) -> Ints:
    """Return class numbers of the rows of each pair: rows joined by similar pairs are one class."""
    rows, place = np.unique(index, return_inverse=True)
    place = place.reshape(-1, 2)
    i, j = place[similar].T
    return components(i, j, len(rows))[place]
