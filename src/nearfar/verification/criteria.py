"""Thresholds by accuracy, a rate or F-beta, without a promise for new classes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar.constraints import Pairs
from nearfar.constraints.folds import group_splitter
from nearfar.evaluate import RocCurve
from nearfar.metrics.metric import Metric

# A share such as 1 - 0.8 is not quite the 0.2 of one pair in five.
_ROUNDING = 8 * np.finfo(float).eps


def held_out_decisions(
    metric: Metric,
    X: ArrayLike,
    pairs: Pairs,
    choose: Callable[[Pairs], float],
    *,
    n_folds: int = 5,
    random_state: int = 0,
) -> NDArray[np.bool_] | None:
    """Tell which pairs are the same, each by a threshold chosen on other pairs.

    Pairs are split as in `Pairs.folds`, so that pairs that share rows stay together where they can.

    Parameters
    ----------
    metric : Metric
    X : array-like of shape (n_samples, n_features)
    pairs : Pairs
    choose : callable
        Pairs -> threshold.
    n_folds : int, default=5
        The most parts to split pairs in.
    random_state : int, default=0

    Returns
    -------
    array of bool of shape (n_pairs,) or None
        None if there are too few pairs to split.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from nearfar import Metric, RandomPairs, evaluate
    >>> from nearfar.verification import held_out_decisions
    >>> X, y = load_iris(return_X_y=True)
    >>> pairs, metric = RandomPairs(200)(X, y, np.random.RandomState(0)), Metric.identity(4)
    >>> def choose(known):
    ...     return evaluate.verification(metric, X, known).accuracy_threshold
    >>> same = held_out_decisions(metric, X, pairs, choose)
    >>> bool(np.mean(same == pairs.similar) <= evaluate.verification(metric, X, pairs).accuracy)
    True
    """
    groups = pairs.groups(n_folds)
    counts = np.bincount(pairs.similar.astype(np.intp), minlength=2)
    n_groups = len(np.unique(groups))
    n_folds = min(n_folds, int(counts.min()), n_groups)
    if n_folds < 2:
        return None
    split = group_splitter(n_folds, n_groups, random_state)
    distances = metric.pair_distances(X, pairs)
    same = np.zeros(len(pairs), dtype=np.bool_)
    for seen, unseen in split.split(pairs.index, pairs.similar, groups):
        others = pairs.take(seen)
        if others.similar.all() or not others.similar.any():
            return None
        same[unseen] = distances[unseen] <= choose(others)
    return same


def threshold_on(
    curve: RocCurve,
    pairs: Pairs,
    criterion: str,
    max_fpr: float = 0.01,
    beta: float = 1.0,
    min_tpr: float = 0.9,
) -> float:
    """Return the best threshold of a curve by a rate or by F-beta.

    Parameters
    ----------
    curve : RocCurve
        Of the pairs.
    pairs : Pairs
    criterion : {"fpr", "tpr", "fbeta"}
    max_fpr, beta, min_tpr : float
        As of `PairVerifier`.

    Examples
    --------
    >>> from nearfar import Metric, Pairs, evaluate
    >>> from nearfar.verification import threshold_on
    >>> pairs = Pairs([[0, 1], [1, 2], [0, 2]], [True, False, True])
    >>> curve = evaluate.verification_curve(Metric.identity(1), [[0.0], [1.0], [3.0]], pairs)
    >>> [threshold_on(curve, pairs, "tpr", min_tpr=rate) for rate in (0.0, 0.5, 1.0)]
    [-inf, 1.0, 3.0]
    """
    if criterion == "fpr":
        allowed = np.flatnonzero(curve.false_positive_rate <= max_fpr + _ROUNDING)
        return float(curve.thresholds[allowed[-1]])
    if criterion == "tpr":
        return float(curve.thresholds[np.argmax(curve.true_positive_rate >= min_tpr - _ROUNDING)])
    weight = np.ones(len(pairs)) if pairs.weight is None else pairs.weight
    right = curve.true_positive_rate * weight[pairs.similar].sum()
    wrong = curve.false_positive_rate * weight[~pairs.similar].sum()
    missed = weight[pairs.similar].sum() - right
    b2 = beta * beta
    total = (1 + b2) * right + b2 * missed + wrong
    score = np.divide((1 + b2) * right, total, out=np.zeros(len(total)), where=total > 0)
    # Of equal scores the one that finds more: precision is 1 at many thresholds, or at none.
    return float(curve.thresholds[np.flatnonzero(score == score.max())[-1]])
