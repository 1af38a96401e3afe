"""How good a metric is: neighbours, retrieval, triplets, verification, on data with known answers.

Every measure embeds the rows once, z = L x, and uses Euclidean distances there. All are shares in
[0, 1]; errors (`eer` and the functions named so) are better when smaller, all others when larger.

`retrieval` has the definitions for neighbours and rankings, `verification` those for pairs.
"""

from nearfar.evaluate.profiles import accuracy_by
from nearfar.evaluate.retrieval import (
    knn_error,
    leave_one_out_error,
    map_at_r,
    ndcg,
    neighbor_accuracy_curve,
    precision_at_k,
    recall_at_k,
    triplet_accuracy,
)
from nearfar.evaluate.verification import RocCurve, Verification, verification, verification_curve

__all__ = [
    "RocCurve",
    "Verification",
    "accuracy_by",
    "knn_error",
    "leave_one_out_error",
    "map_at_r",
    "ndcg",
    "neighbor_accuracy_curve",
    "precision_at_k",
    "recall_at_k",
    "triplet_accuracy",
    "verification",
    "verification_curve",
]
