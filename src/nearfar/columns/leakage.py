"""Label leakage: columns that alone tell the class of every row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearfar.typing import Floats, Ints

_LEAST_ROWS = 20
"""In fewer rows, columns separate classes by chance."""
_SAMPLE = 200


def leaking_columns(X: Floats, classes: Ints, sources: Sequence[str]) -> list[str]:
    """Return the columns that tell the class of every row.

    A column of numbers does if thresholds on it separate all classes. A column of several features,
    such as a category, does if it has as many different values as there are classes, and each
    belongs to one class.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    classes : array of int of shape (n_samples,)
        Class codes 0, 1 and so on.
    sources : sequence of str
        The column of each feature.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.columns.leakage import leaking_columns
    >>> X = np.column_stack([np.arange(30.0), np.arange(30.0) % 7])
    >>> leaking_columns(X, np.repeat([0, 1], 15), ["paid_late", "weekday"])
    ['paid_late']
    """
    if len(X) < _LEAST_ROWS or len(np.unique(classes)) < 2:
        return []
    # A column that fails on some rows fails on all of them.
    some = np.linspace(0, len(X) - 1, min(len(X), _SAMPLE)).astype(np.intp)
    sample, sampled = X[some], np.unique(classes[some], return_inverse=True)[1]
    features: dict[str, list[int]] = {}
    for place, name in enumerate(sources):
        features.setdefault(name, []).append(place)
    found = []
    for name, places in features.items():
        suspect = any(_separates(sample[:, place], sampled) for place in places)
        if suspect and any(_separates(X[:, place], classes) for place in places):
            found.append(name)
        elif len(places) > 1 and _identifies(sample[:, places], sampled):
            found += [name] if _identifies(X[:, places], classes) else []
    return found


def _separates(values: Floats, classes: Ints) -> bool:
    """Tell whether each class has an interval of its own."""
    order = np.lexsort((classes, values))
    sorted_values, sorted_classes = values[order], classes[order]
    changes = np.flatnonzero(np.diff(sorted_classes))
    if len(changes) != classes.max():
        return False
    return bool((sorted_values[changes] < sorted_values[changes + 1]).all())


def _identifies(values: Floats, classes: Ints) -> bool:
    """Tell whether there are as many different rows as classes, and each is of one class."""
    different, number = np.unique(values, axis=0, return_inverse=True)
    if len(different) != classes.max() + 1:
        return False
    return len(np.unique(np.column_stack([number.ravel(), classes]), axis=0)) == len(different)
