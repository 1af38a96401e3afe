"""Whether the features of a column are the right ones."""

from __future__ import annotations

import numpy as np

from messy.answers import CATEGORY, DATE, LEFT_OUT, NUMBER, Answer, Array

_RELATIVE = 1e-5
_RARE = 0.01


def is_right(answer: Answer, features: Array | None) -> bool:
    """Tell whether a column became what it should.

    A number is right up to its unit and origin: every number of a cell is one feature, and there
    is at most one more, for missing values. A date is right if one of its features counts time. The
    rows of each frequent level of a category have features of their own, and there are about as
    many features as levels.
    """
    if answer.kind == LEFT_OUT or features is None:
        return (answer.kind == LEFT_OUT) == (features is None)
    if answer.kind == CATEGORY:
        return _are_levels(answer.values, features)
    values = (
        _days(answer.values) if answer.kind == DATE else answer.values.reshape(len(features), -1)
    )
    if answer.kind == NUMBER and features.shape[1] > values.shape[1] + 1:
        return False
    return all(any(_is_linear(v, f) for f in features.T) for v in values.T)


def _days(dates: Array) -> Array:
    days = (dates - np.datetime64("2000-01-01")) / np.timedelta64(1, "D")
    return np.where(np.isnat(dates), np.nan, days)[:, None]


def _is_linear(values: Array, feature: Array) -> bool:
    """Tell whether a feature is a number in another unit, and missing values are not told apart."""
    known = np.isfinite(values)
    if not np.isfinite(feature[known]).all() or len(np.unique(feature[~known])) > 1:
        return False
    v, f = values[known] - values[known].mean(), feature[known] - feature[known].mean()
    size = float(np.abs(f).max())
    slope = float(v @ f) / max(float(v @ v), np.finfo(float).tiny)
    return size > 0 and bool(np.abs(slope * v - f).max() <= _RELATIVE * size)


def _are_levels(levels: Array, features: Array) -> bool:
    names, number, count = np.unique(levels.astype(str), return_inverse=True, return_counts=True)
    frequent = np.flatnonzero(count >= max(2, _RARE * len(levels)))
    if not len(frequent) - 1 <= features.shape[1] <= len(names) + 2:
        return False
    means = []
    for level in frequent:
        own = features[number == level]
        if not (own == own[0]).all():
            return False
        means.append(own[0])
    return len(np.unique(np.array(means), axis=0)) == len(frequent)
