"""Measures of how good a metric is, on data with known classes or known pairs.

Shares are in [0, 1]; `cllr` and `min_cllr` are in bits. These and errors (`eer` and the functions
named so) are better when smaller, all others when larger.

registry           what methods are compared by
retrieval          measures of neighbours and rankings
judgements         how wrong a distance is about pairs; errors by class, and the largest class
neighbor_votes     votes of neighbours
verification       ROC curves of pairs, equal error rate, cost of likelihood ratios
"""

from nearfar.evidence.calibrate import LikelihoodRatios, cllr
from nearfar.measures.retrieval import (
    average_precision_at_r,
    average_precisions,
    knn_error,
    knn_r2,
    leave_one_out_error,
    map_at_r,
    neighbor_accuracy_curve,
    neighbor_recall,
    precision_at_k,
    recall_at_k,
    triplet_accuracy,
)
from nearfar.measures.verification import (
    RocCurve,
    Verification,
    min_cllr,
    verification,
    verification_curve,
)

__all__ = [
    "LikelihoodRatios",
    "RocCurve",
    "Verification",
    "average_precision_at_r",
    "average_precisions",
    "cllr",
    "knn_error",
    "knn_r2",
    "leave_one_out_error",
    "map_at_r",
    "min_cllr",
    "neighbor_accuracy_curve",
    "neighbor_recall",
    "precision_at_k",
    "recall_at_k",
    "triplet_accuracy",
    "verification",
    "verification_curve",
]
