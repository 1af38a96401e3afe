"""Pairs that a verifier learns from, and pairs that it is calibrated on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedShuffleSplit

from nearfar.evidence.splits import components, joined_classes
from nearfar.supervision import Pairs, RandomPairs
from nearfar.typing import Ints, Vector

SplitBy = Literal["classes", "rows"]

# Pairs of held-out rows that are used at most: classes limit the confidence long before.
_MOST_PAIRS = 1_000_000
# A class with this many times the similar pairs of another may differ from it in more than size.
_FAR_LARGER = 2.0


@dataclass(frozen=True, eq=False)
class CalibrationSplit:
    """Two parts of the data.

    Attributes
    ----------
    seen: To learn from.
    held_out: To calibrate on.
    classes: shape (n_held_out, 2). Class numbers of the rows of each pair that is held out.
    rows: Rows to learn from; None if the pairs alone do not tell.
    whole_classes: Whether the two parts have no class in common.
    unlike: Share of the similar pairs that are in classes far larger than all that are held out.
    """

    seen: Pairs
    held_out: Pairs
    classes: Ints
    rows: Ints | None = None
    whole_classes: bool = True
    unlike: float = 0.0


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
    codes: shape (n_samples,). Class codes.
    share: Of the classes or rows.
    n_pairs: Number of pairs to draw.
    groups: shape (n_samples,). Rows of one group, which are of one class, stay together.
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
        learned, other = _parted(held_out[place])
        seen = _drawn(codes, learned, n_pairs, rng)
        most = RandomPairs(n_pairs).number(len(other))
        pairs = all_pairs(codes, other, most, rng, prevalence=0.5)
        return CalibrationSplit(seen, pairs, codes[pairs.index], learned, whole_classes=False)
    classes = rng.permutation(int(codes.max()) + 1)
    number = min(max(round(share * len(classes)), 2), len(classes) - 2)
    if number < 2:
        raise ValueError(
            f"There are {len(classes)} classes: two are needed to learn from, and two others to "
            'calibrate on. Use split="rows" if the classes of new rows will be the same.'
        )
    held_out = np.isin(codes, classes[:number])
    learned, other = _parted(held_out)
    seen = _drawn(codes, learned, n_pairs, rng)
    pairs = all_pairs(codes, other, n_pairs, rng)
    sizes = np.bincount(codes)
    unlike = _unlike(sizes * (sizes - 1) / 2, classes[:number])
    return CalibrationSplit(seen, pairs, codes[pairs.index], learned, unlike=unlike)


def split_pairs(
    pairs: Pairs, split: SplitBy, share: float, rng: np.random.RandomState
) -> CalibrationSplit:
    """Hold out pairs of other classes, or any pairs.

    Rows that are joined by similar pairs are one class. If most pairs are connected through shared
    rows, pairs between classes to learn from and classes that are held out are left out.
    """
    counts = np.bincount(pairs.similar.astype(np.intp), minlength=2)
    if counts.min() * min(share, 1 - share) < 1:
        raise ValueError(
            "There are too few pairs to learn from some and calibrate on others: "
            f"{counts[1]} similar, {counts[0]} dissimilar."
        )
    classes = joined_classes(pairs.index, pairs.similar)
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
    similar = np.bincount(classes[pairs.similar, 0], minlength=int(classes.max()) + 1)
    unlike = _unlike(similar, np.unique(classes[unseen]))
    return CalibrationSplit(pairs.take(seen), pairs.take(unseen), classes[unseen], unlike=unlike)


def _unlike(n_similar: Ints | Vector, held_out: Ints) -> float:
    """Return the share of the similar pairs of classes far larger than all that are held out."""
    larger = n_similar > _FAR_LARGER * n_similar[held_out].max()
    return float(n_similar[larger].sum() / n_similar.sum())


def all_given(pairs: Pairs, codes: Ints | None = None) -> CalibrationSplit:
    """Hold out all pairs, for a metric that is not learned; classes are joined ones if unknown."""
    classes = joined_classes(pairs.index, pairs.similar) if codes is None else codes[pairs.index]
    return CalibrationSplit(pairs.take([]), pairs, classes)


def all_pairs(
    codes: Ints,
    rows: Ints,
    most: int | None,
    rng: np.random.RandomState,
    prevalence: float | None = None,
) -> Pairs:
    """Return all pairs of rows, or of many as many similar as dissimilar ones; none is there twice.

    Weights keep the share of similar pairs.

    Parameters
    ----------
    codes: shape (n_samples,). Class codes.
    rows: The rows that are paired.
    most: Number of pairs, if there are more.
    prevalence: Share of similar pairs that weights give; by default that of all pairs.
    """
    order = np.argsort(codes[rows], kind="stable")
    sizes = np.bincount(codes[rows])
    place, end = np.arange(len(rows)), np.cumsum(sizes)[codes[rows][order]]
    most = _MOST_PAIRS if most is None else most
    # By class, a row has the others of its class after it, and then those of later classes.
    first, count = (end, place + 1), (len(rows) - end, end - place - 1)
    totals = np.array([int(each.sum()) for each in count])
    # As many of both kinds, or what there is of one, and more of the other.
    numbers = np.minimum(totals, np.maximum(most // 2, most - totals[::-1]))
    # Of all pairs, or of those that are drawn.
    shares = totals
    if prevalence is not None:
        shares = numbers.sum() * np.array([1 - prevalence, prevalence])
    draw = np.random.default_rng(rng.randint(1 << 31))
    index = []
    for similar in (0, 1):
        kept = draw.choice(totals[similar], numbers[similar], replace=False, shuffle=False)
        ends = np.cumsum(count[similar])
        one = np.searchsorted(ends, kept, "right")
        other = first[similar][one] + kept - (ends - count[similar])[one]
        index.append(np.column_stack([order[one], order[other]]))
    weights = np.repeat(shares / np.maximum(1, numbers), numbers)
    kinds = np.repeat([False, True], numbers)
    return _both_kinds(Pairs(rows[np.concatenate(index)], kinds, weights))


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
