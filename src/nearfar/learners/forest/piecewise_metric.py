"""PiecewiseMetric: another learner, on columns that are divided into pieces (`PieceMap`).

    d(x, y)^2 = |L r(x) - L r(y)|^2,    r(x) the ramps of all columns

so that a column may count much in one range and little in another. It is to a linear metric what an
additive model of piecewise linear functions is to a linear model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from nearfar.learners.base import MetricLearner
from nearfar.learners.boosting import BoostMetric
from nearfar.learners.classic import LDA, MLKR, RCA
from nearfar.learners.declaration import learner
from nearfar.learners.max_margin import MaxMarginMetric
from nearfar.learners.problem import FitInput, Problem
from nearfar.learners.scaling import Scaler
from nearfar.metrics.feature_maps import PieceMap, moved
from nearfar.runtime.parameters import ParameterRule, integer

_LEARNERS: dict[str, type[MetricLearner]] = {
    "labels": LDA,
    "chunklets": RCA,
    "pairs": MaxMarginMetric,
    "triplets": BoostMetric,
    "numbers": MLKR,
}


@learner
class PiecewiseMetric(MetricLearner):
    """A metric that bends with its columns: ramps between quantiles, and a linear learner on them.

    Parameters
    ----------
    learner : MetricLearner, optional
        Learns from the ramps; cloned. By default LDA from labels, MLKR from numbers, RCA from
        chunklets, MaxMarginMetric from pairs and BoostMetric from triplets.
    n_pieces : int, default=6
        How many ramps a column becomes; fewer, if it has few values.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import LDA, PiecewiseMetric
    >>> from nearfar import measures
    >>> X = np.random.RandomState(0).normal(size=(400, 3))
    >>> y = np.abs(X[:, 0]) > 0.7
    >>> for learner in (LDA(), PiecewiseMetric()):
    ...     metric = learner.fit(X[::2], y[::2]).metric_
    ...     print(measures.knn_error(metric, X[::2], y[::2], X[1::2], y[1::2]) < 0.1)
    False
    True
    """

    learner: Any = None
    n_pieces: int = 6
    random_state: int | np.random.RandomState | None = 0
    n_jobs: int | None = None
    verbose: int = 0

    supervision: ClassVar[tuple[str, ...]] = tuple(_LEARNERS)
    gives_linear: ClassVar[bool] = False
    auto_order: ClassVar[int | None] = 17
    # Columns of embeddings are alike, and their many pieces take long.
    auto_features: ClassVar[float] = 100
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {"n_pieces": integer(at_least=1)}

    def _build_problem(self, data: FitInput) -> Problem:
        pieces = PieceMap.fit(data.Z, self.n_pieces)
        ramps = pieces.transform(data.Z)
        inner = _LEARNERS[data.supervision.kind]() if self.learner is None else clone(self.learner)
        scaler = Scaler(ramps.mean(axis=0), np.ones(ramps.shape[1]))
        problem = inner._build_problem(replace(data, Z=scaler.transform(ramps), scaler=scaler))
        problem.features = ramps
        problem.feature_map = moved(pieces, data.scaler.center, data.scaler.scale)
        return problem
