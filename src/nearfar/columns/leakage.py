"""Label leakage: columns that alone tell the class or number of every row, or nearly every one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

from nearfar.typing import Floats, Ints, Vector

# In fewer rows, columns separate classes by chance.
_LEAST_ROWS = 20
# Rows that show for most columns that they do not separate classes.
_SAMPLE = 200
# More rows take longer and hardly change the share of wrong ones.
_MOST_ROWS = 20_000
_BLOCK_ROWS = 1024
# Share of the rows that may be of another class than most rows with the same value.
_MOST_WRONG = 0.01
# The same, as a share of the rows outside the largest class.
_SHARE_OF_CHANCE = 0.05
# Rank correlation of a column with the numbers that it leaks, and on the sample, which shows less.
_CORRELATION, _SAMPLED_CORRELATION = 0.995, 0.98


def leaking_columns(X: Floats, classes: Ints, sources: Sequence[str]) -> list[str]:
    """Return the columns that tell the class of every row, or of nearly every one.

    A column of numbers does if thresholds on it separate all classes. A column whose values repeat,
    such as a category, does if nearly all rows with the same value are of one class.

    Parameters
    ----------
    classes: shape (n_samples,). Class codes 0, 1 and so on.
    sources: The column of each feature.
    """
    if len(X) < _LEAST_ROWS or len(np.unique(classes)) < 2:
        return []
    # A column that fails on some rows fails on all of them.
    some = np.linspace(0, len(X) - 1, min(len(X), _SAMPLE)).astype(np.intp)
    sample, sampled = X[some], np.unique(classes[some], return_inverse=True)[1]
    rows = np.linspace(0, len(X) - 1, min(len(X), _MOST_ROWS)).astype(np.intp)
    # A value that repeats in copies of a row alone says nothing.
    distinct = rows[_first_of_each(X[rows], classes[rows])]
    rows = distinct if len(distinct) >= _LEAST_ROWS else rows
    few = X[rows]
    mixing = np.random.RandomState(0).standard_normal(len(sources))
    features: dict[str, list[int]] = {}
    for place, name in enumerate(sources):
        features.setdefault(name, []).append(place)
    found = []
    for name, places in features.items():
        suspects = [place for place in places if _separates(sample[:, place], sampled)]
        separates = any(_separates(X[:, place], classes) for place in suspects)
        # In blocks, as the product is in float64.
        blocks = (few[top : top + _BLOCK_ROWS, places] for top in range(0, len(few), _BLOCK_ROWS))
        mixed = np.concatenate([block @ mixing[places] for block in blocks])
        if separates or _identifies(mixed, classes[rows]):
            found.append(name)
    return found


def leaking_numbers(X: Floats, numbers: Vector, sources: Sequence[str]) -> list[str]:
    """Return the columns that put the rows in the order of their numbers, or nearly so.

    Parameters
    ----------
    sources: The column of each feature.
    """
    if len(X) < _LEAST_ROWS:
        return []
    leaking = np.ones(X.shape[1], dtype=bool)
    for most, least in ((_SAMPLE, _SAMPLED_CORRELATION), (_MOST_ROWS, _CORRELATION)):
        rows = np.linspace(0, len(X) - 1, min(len(X), most)).astype(np.intp)
        ranks = _standard_ranks(numbers[rows])
        for place in np.flatnonzero(leaking):
            leaking[place] = abs(ranks @ _standard_ranks(X[rows, place])) >= least
    return list(dict.fromkeys(np.array(sources)[leaking].tolist()))


def _standard_ranks(values: Floats) -> Vector:
    """Return ranks with mean 0 and norm 1, or zeros if all values are equal."""
    ranks = rankdata(values) - (len(values) + 1) / 2
    return np.asarray(ranks / (np.linalg.norm(ranks) or 1.0))


def _separates(values: Floats, classes: Ints) -> bool:
    """Tell whether each class has an interval of its own."""
    order = np.lexsort((classes, values))
    sorted_values, sorted_classes = values[order], classes[order]
    changes = np.flatnonzero(np.diff(sorted_classes))
    if len(changes) != classes.max():
        return False
    return bool((sorted_values[changes] < sorted_values[changes + 1]).all())


def _first_of_each(X: Floats, classes: Ints) -> Ints:
    """Return the first of the rows that are equal, also in their class."""
    # Zeros of either sign are equal.
    hashes = [hash(((row + 0.0).tobytes(), code)) for row, code in zip(X, classes, strict=True)]
    return np.sort(np.unique(hashes, return_index=True)[1])


def _identifies(values: Floats, classes: Ints) -> bool:
    """Tell whether most values repeat, and the rows with a value are of one class."""
    number = np.unique(values, return_inverse=True)[1]
    n_values, n_classes = int(number.max()) + 1, int(classes.max()) + 1
    if 2 * n_values > len(values):
        return False
    cells = np.unique(number * n_classes + classes, return_counts=True)
    most = np.zeros(n_values, dtype=np.intp)
    np.maximum.at(most, cells[0] // n_classes, cells[1])
    wrong = len(values) - int(most.sum())
    others = len(values) - int(np.bincount(classes).max())
    return wrong <= min(_MOST_WRONG * len(values), _SHARE_OF_CHANCE * others)
