"""The score of a metric: the share of comparisons that it gets right."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from nearfar.constraints import NearestTriplets
from nearfar.learners.fitting import Data, check_in_memory
from nearfar.learners.scaler import Scaler


def share_right(metric: Any, data: Data) -> float:
    """Return the share of triplets in the right order, or the area under the ROC curve of pairs.

    Labels are nearest triplets of the standardised rows, whatever the metric was learned from.
    """
    check_in_memory(data.X)
    known: Any = data.supervision
    if known.kind == "pairs":
        if not known.can_teach:
            raise ValueError("To score pairs, both similar and dissimilar ones are needed.")
        distance = metric.pair_distances(data.X, known.given.index)
        return float(roc_auc_score(known.given.similar, -distance, sample_weight=known.weight))
    if len(known) == 0:
        raise ValueError("There are no triplets to score.")
    if known.kind == "labels" and not known.can_teach:
        raise ValueError(
            "All labels to score on are the same. If this is a fold of rows that are sorted by "
            "class, use cv=StratifiedKFold(5, shuffle=True)."
        )
    Z = data.X
    if known.kind != "triplets":
        Z = Scaler.fit(data.X, "standard").transform(data.X)
    triplets = known.triplets(Z, NearestTriplets(), np.random.RandomState(0))
    right = metric.prefers(data.X, triplets.index)
    return float(np.average(right, weights=triplets.weight))
