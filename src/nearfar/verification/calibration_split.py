"""Pairs that a verifier learns from, and pairs that it is calibrated on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedShuffleSplit

from nearfar.constraints import Pairs, RandomPairs
from nearfar.constraints.folds import components
from nearfar.typing import Ints
from nearfar.verification.evidence import joined_classes

SplitBy = Literal["classes", "rows"]

# Pairs of held-out rows that are used at most: classes limit the confidence long before.
_MOST_PAIRS = 1_000_000


@dataclass(frozen=True, eq=False)
class CalibrationSplit:
    """Two parts of the data.

    Attributes
    ----------
    seen : Pairs
        To learn from.
    held_out : Pairs
        To calibrate on.
    classes : array of shape (n_held_out, 2)
        Class numbers of the rows of each pair that is held out.
    rows : array of int or None
        Rows of the classes to learn from, if there are labels and whole classes are held out.
    whole_classes : bool
        Whether the two parts have no class in common.
    """

    seen: Pairs
    held_out: Pairs
    classes: Ints
    rows: Ints | None = None
    whole_classes: bool = True


def split_labels(
    codes: Ints,
    split: SplitBy,
    share: float,
    n_pairs: int | None,
    rng: np.random.RandomState,
    groups: Ints | None = None,
) -> CalibrationSplit:
    """Hold out whole classes, or rows of every class.

    Parameters
    ----------
    codes : array of shape (n_samples,)
        Class codes.
    split : {"classes", "rows"}
    share : float
        Of the classes or rows.
    n_pairs : int or None
        Number of pairs to draw.
    rng : RandomState
    groups : array of shape (n_samples,), optional
        Rows of one group, which are of one class, stay together.
    """
    if split == "rows":
        groups = np.arange(len(codes)) if groups is None else groups
        _, first, place = np.unique(groups, return_index=True, return_inverse=True)
        # A share of the groups of each class: the first of a random order, sorted by class.
        of_group = codes[first]
        order = rng.permutation(len(of_group))
        order = order[np.argsort(of_group[order], kind="stable")]
        rank = np.arange(len(order)) - np.searchsorted(of_group[order], of_group[order])
        held_out = np.empty(len(order), dtype=np.bool_)
        held_out[order] = rank < np.round(share * np.bincount(of_group)[of_group[order]])
        parts = [_drawn(codes, rows, n_pairs, rng) for rows in _parted(held_out[place])]
        return CalibrationSplit(parts[0], parts[1], codes[parts[1].index], whole_classes=False)
    classes = rng.permutation(int(codes.max()) + 1)
    number = min(max(round(share * len(classes)), 2), len(classes) - 2)
    if number < 2:
        raise ValueError(
            f"There are {len(classes)} classes: two are needed to learn from, and two others to "
            'calibrate on. Use split="rows" if the classes of new rows will be the same.'
        )
    held_out = np.isin(codes, classes[:number])
    learned, other = _parted(held_out)
    pairs = all_pairs(codes, other, n_pairs, rng)
    return CalibrationSplit(
        _drawn(codes, learned, n_pairs, rng), pairs, codes[pairs.index], learned
    )


def split_pairs(
    pairs: Pairs, split: SplitBy, share: float, rng: np.random.RandomState
) -> CalibrationSplit:
    """Hold out pairs of other classes, or any pairs.

    Rows that are joined by similar pairs are one class. If most pairs are connected through shared
    rows, pairs between classes to learn from and classes that are held out are left out.

    Parameters
    ----------
    pairs : Pairs
    split : {"classes", "rows"}
    share : float
    rng : RandomState
    """
    counts = np.bincount(pairs.similar.astype(np.intp), minlength=2)
    if counts.min() * min(share, 1 - share) < 1:
        raise ValueError(
            "There are too few pairs to learn from some and calibrate on others: "
            f"{counts[1]} similar, {counts[0]} dissimilar."
        )
    classes = joined_classes(pairs)
    if split == "rows":
        # A pair that is listed more than once is in one part.
        _, first, place = np.unique(
            np.sort(pairs.index, axis=1), axis=0, return_index=True, return_inverse=True
        )
        distinct = np.sort(first)
        shuffled = StratifiedShuffleSplit(1, test_size=share, random_state=rng)
        seen, unseen = next(shuffled.split(distinct, pairs.similar[distinct]))
        if len(distinct) < len(pairs):
            seen, unseen = _parted(np.isin(first[place.ravel()], distinct[unseen]))
        return CalibrationSplit(
            pairs.take(seen), pairs.take(unseen), classes[unseen], whole_classes=False
        )
    i, j = classes.T
    groups = components(i, j, int(classes.max()) + 1)[i]
    largest = np.bincount(groups).max()
    units = np.column_stack([groups, groups]) if 2 * largest <= len(pairs) else classes
    order = rng.permutation(int(units.max()) + 1)
    sizes = np.bincount(units.ravel(), minlength=len(order))[order]
    number = int(np.searchsorted(np.cumsum(sizes), share * sizes.sum(), "right")) + 1
    inside = np.isin(units, order[:number])
    seen, unseen = np.flatnonzero(~inside.any(axis=1)), np.flatnonzero(inside.all(axis=1))
    for part in (seen, unseen):
        if len(np.unique(pairs.similar[part])) < 2:
            raise ValueError(
                "The pairs cannot be split into two parts without common classes, each with "
                'similar and dissimilar pairs. Give more pairs, or use split="rows".'
            )
    return CalibrationSplit(pairs.take(seen), pairs.take(unseen), classes[unseen])


def all_given(pairs: Pairs, codes: Ints | None = None) -> CalibrationSplit:
    """Hold out all pairs, for a metric that is not learned; classes are joined ones if unknown."""
    classes = joined_classes(pairs) if codes is None else codes[pairs.index]
    return CalibrationSplit(pairs.take([]), pairs, classes)


def all_pairs(codes: Ints, rows: Ints, most: int | None, rng: np.random.RandomState) -> Pairs:
    """Return all pairs of rows, or some with weights that keep the share of similar ones.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.verification.calibration_split import all_pairs
    >>> codes = np.array([0, 0, 1, 1, 1])
    >>> pairs = all_pairs(codes, np.arange(5), None, np.random.RandomState(0))
    >>> len(pairs), int(pairs.similar.sum())
    (10, 4)
    """
    n = len(rows)
    every = n * (n - 1) // 2
    if every <= (_MOST_PAIRS if most is None else most):
        i, j = np.triu_indices(n, 1)
        pairs = Pairs(rows[np.column_stack([i, j])], codes[rows[i]] == codes[rows[j]])
        return _both_kinds(pairs)
    drawn = _drawn(codes, rows, _MOST_PAIRS if most is None else most, rng)
    sizes = np.bincount(codes[rows])
    similar = int((sizes * (sizes - 1) // 2).sum())
    share = np.where(drawn.similar, similar, every - similar)
    count = np.bincount(drawn.similar, minlength=2)[drawn.similar.astype(np.intp)]
    return Pairs(drawn.index, drawn.similar, share / count)


def _parted(chosen: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def _drawn(codes: Ints, rows: Ints, n_pairs: int | None, rng: np.random.RandomState) -> Pairs:
    """Draw as many similar as dissimilar pairs of rows."""
    pairs = RandomPairs(n_pairs)(np.zeros((len(rows), 1)), codes[rows], rng)
    return _both_kinds(Pairs(rows[pairs.index], pairs.similar))


def _both_kinds(pairs: Pairs) -> Pairs:
    if len(pairs) == 0 or pairs.similar.all() or not pairs.similar.any():
        raise ValueError(
            "There are too few rows: both parts need two classes, one of them with two rows. "
            "Give Pairs, or change calibration."
        )
    return pairs
