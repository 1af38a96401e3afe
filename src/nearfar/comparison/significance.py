"""Tests of the difference between two methods.

If rows are in groups, a row below is a group: the mean difference over its rows.

Errors are compared by the sign test: among the rows on which two methods differ, one is wrong less
often than a fair coin would explain.

Rankings must pass two tests on the mean difference in average precision:

- by rows, or by unseen classes: their variance is a multiple of that of independent ones, because
  each is a query and also a result in the rankings of the others (`evaluate.measures`);
- by folds: Student's test with the variance increased for training rows that folds share (C.
  Nadeau, Y. Bengio: Inference for the generalization error, Machine Learning 52, 2003). It covers
  the variation between training sets.

Judgements are compared by Student's test over groups, with the variance of `evaluate.overlap`,
which allows for the rows that they share.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import binomtest
from scipy.stats import t as student

from nearfar.evaluate.overlap import OverlappingJudgements
from nearfar.typing import Vector


def sign_test(difference: Vector, mean: float) -> float:
    """p-value of a fair coin on the rows that differ; 1 if the mean has the other sign."""
    better, worse = int((difference < 0).sum()), int((difference > 0).sum())
    if (worse - better) * mean <= 0:
        return 1.0
    return float(binomtest(better, better + worse).pvalue)


def row_test(difference: Vector, noise: float = 1.0) -> float:
    """p-value of the mean over rows; `noise` is its variance relative to independent rows."""
    tested = difference[~np.isnan(difference)]
    return _student_test(tested, noise / len(tested)) if len(tested) > 1 else 1.0


def judgement_test(difference: Vector, overlap: OverlappingJudgements) -> float:
    """p-value of the mean over judgements that share rows."""
    tested, n = difference[~np.isnan(difference)], overlap.n_groups(difference)
    if n < 2 or not tested.any():
        return 1.0
    return _p_value(float(tested.mean()), math.sqrt(overlap.variance(difference)), n - 1)


def fold_test(difference: Vector, test_share: float) -> float:
    """p-value of the mean over folds that share training rows; 0 for a single fold."""
    tested = difference[~np.isnan(difference)]
    return _student_test(tested, 1 / len(tested) + test_share) if len(tested) > 1 else 0.0


def holm(p_values: Vector) -> Vector:
    """Adjust p-values for their number (Holm).

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.comparison.significance import holm
    >>> holm(np.array([0.04, 0.01, 0.5]))
    array([0.08, 0.03, 0.5 ])
    """
    order = np.argsort(p_values, kind="stable")
    raised = np.minimum(1.0, p_values[order] * np.arange(len(p_values), 0, -1))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.maximum.accumulate(raised)
    return adjusted


def _student_test(difference: Vector, variance_factor: float) -> float:
    """Test that a mean is zero whose variance is a multiple of the variance of the values."""
    if not difference.any():
        return 1.0
    error = float(difference.std(ddof=1)) * math.sqrt(variance_factor)
    return _p_value(float(difference.mean()), error, len(difference) - 1)


def _p_value(mean: float, error: float, degrees: int) -> float:
    ratio = abs(mean) / error if error > 0 else math.inf
    return float(2 * student.sf(ratio, degrees))
