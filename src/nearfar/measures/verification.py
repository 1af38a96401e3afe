"""Verification: how well a threshold on the distance tells similar from dissimilar pairs.

A pair is declared "same" if its distance is at most a threshold. The true positive rate is the
share of similar pairs declared same, the false positive rate that of dissimilar pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import auc, roc_curve

from nearfar.evidence.calibrate import LikelihoodRatios, cllr
from nearfar.metrics.metric import Metric
from nearfar.supervision import Pairs
from nearfar.typing import Floats


@dataclass(frozen=True, eq=False)
class RocCurve:
    """Rates of the rule "same if the distance is at most the threshold".

    The rates rise from (0, 0) to (1, 1). The thresholds are -inf, where no pair is the same, and
    then every distance that occurs, in ascending order.

    Examples
    --------
    >>> from nearfar import Metric, Pairs
    >>> from nearfar.measures import verification_curve
    >>> pairs = Pairs([[0, 1], [0, 2]], similar=[True, False])
    >>> curve = verification_curve(Metric.identity(1), [[0.0], [1.0], [5.0]], pairs)
    >>> float(curve.true_positive_rate[-1])
    1.0
    """

    false_positive_rate: Floats
    true_positive_rate: Floats
    thresholds: Floats


@dataclass(frozen=True)
class Verification:
    """How well a metric tells similar from dissimilar pairs by a threshold.

    Attributes
    ----------
    auc : float
        Area under the ROC curve: the probability that a similar pair is nearer than a
        dissimilar one.
    eer : float
        Equal error rate: where the false positive rate equals the false negative rate, by linear
        interpolation on the curve.
    eer_threshold : float
        The distance, among those that occur, at which the two error rates are closest.
    accuracy : float
        Largest share of pairs that any threshold classifies correctly.
    accuracy_threshold : float
        The smallest threshold with that accuracy; -inf if it is best to call no pair the same.

    Examples
    --------
    >>> from nearfar import Metric, Pairs
    >>> from nearfar.measures import verification
    >>> pairs = Pairs([[0, 1], [0, 2]], similar=[True, False])
    >>> verification(Metric.identity(1), [[0.0], [1.0], [5.0]], pairs).auc
    1.0
    """

    auc: float
    eer: float
    eer_threshold: float
    accuracy: float
    accuracy_threshold: float


def verification_curve(metric: Metric, X: ArrayLike, pairs: Pairs) -> RocCurve:
    """Return the ROC curve of "same if near" over all thresholds, with the weights of the pairs.

    Examples
    --------
    >>> from nearfar import Metric, Pairs
    >>> from nearfar import measures
    >>> pairs = Pairs([[0, 1], [1, 2], [0, 2]], [True, False, False])
    >>> curve = measures.verification_curve(Metric.identity(1), [[0.0], [1.0], [3.0]], pairs)
    >>> curve.thresholds, curve.false_positive_rate
    (array([-inf,   1.,   2.,   3.]), array([0. , 0. , 0.5, 1. ]))
    """
    pairs.check(np.shape(X)[0])
    _class_weights(pairs)
    distances = metric.pair_distances(X, pairs.index)
    false_positive, true_positive, nearness = roc_curve(
        pairs.similar, -distances, sample_weight=pairs.weight, drop_intermediate=False
    )
    return RocCurve(false_positive, true_positive, -nearness)


def verification(metric: Metric, X: ArrayLike, pairs: Pairs) -> Verification:
    """Return the area under the ROC curve, equal error rate and best accuracy, weighted.

    The thresholds are chosen on the given pairs, so `accuracy` is slightly optimistic. For an
    honest estimate, choose the threshold on other pairs.

    Examples
    --------
    >>> from nearfar import Metric, Pairs
    >>> from nearfar import measures
    >>> pairs = Pairs([[0, 1], [1, 2], [0, 2]], [True, False, False])
    >>> result = measures.verification(Metric.identity(1), [[0.0], [1.0], [3.0]], pairs)
    >>> result.auc, result.eer, result.accuracy, result.accuracy_threshold
    (1.0, 0.0, 1.0, 1.0)
    """
    curve = verification_curve(metric, X, pairs)
    fpr, tpr = curve.false_positive_rate, curve.true_positive_rate
    excess = fpr + tpr - 1.0
    equal = 1 + np.argmin(np.abs(excess[1:]))
    similar, dissimilar = _class_weights(pairs)
    accuracy = (similar * tpr + dissimilar * (1.0 - fpr)) / (similar + dissimilar)
    best = np.argmax(accuracy)
    return Verification(
        auc=float(auc(fpr, tpr)),
        eer=float(np.interp(0.0, excess, fpr)),
        eer_threshold=float(curve.thresholds[equal]),
        accuracy=float(accuracy[best]),
        accuracy_threshold=float(curve.thresholds[best]),
    )


def _class_weights(pairs: Pairs) -> tuple[float, float]:
    """Total weight of the similar and of the dissimilar pairs."""
    weight = np.ones(len(pairs.index)) if pairs.weight is None else pairs.weight
    similar = float(np.sum(weight[pairs.similar]))
    dissimilar = float(np.sum(weight[~pairs.similar]))
    if similar <= 0 or dissimilar <= 0:
        raise ValueError(
            "Verification needs similar and dissimilar pairs of positive weight; "
            f"got a total weight of {similar:g} and {dissimilar:g}."
        )
    return similar, dissimilar


def min_cllr(metric: Metric, X: ArrayLike, pairs: Pairs) -> float:
    """Return the smallest log-likelihood ratio cost that the distances of pairs allow.

    Examples
    --------
    >>> from nearfar import Metric, Pairs
    >>> from nearfar import measures
    >>> pairs = Pairs([[0, 1], [1, 2], [0, 2]], [True, False, False])
    >>> round(measures.min_cllr(Metric.identity(1), [[0.0], [1.0], [3.0]], pairs), 3)
    0.0
    """
    distances = metric.pair_distances(X, pairs)
    return cllr(LikelihoodRatios.fit(distances, pairs, extra=(0.0, 0.0))(distances), pairs)
