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
from nearfar.learners.classic import MLKR
from nearfar.learners.declaration import learner
from nearfar.learners.nca import NCA
from nearfar.learners.problem import FitInput, Problem
from nearfar.learners.scaler import Scaler
from nearfar.metrics.feature_maps import moved
from nearfar.metrics.piece_map import PieceMap
from nearfar.runtime.parameters import ParameterRule, integer


@learner
class PiecewiseMetric(MetricLearner):
    """A metric that bends with its columns: ramps between quantiles, and a linear learner on them.

    Parameters
    ----------
    learner : MetricLearner, default=NCA()
        Learns from the ramps; cloned. By default MLKR() if y has numbers.
    n_pieces : int, default=6
        How many ramps a column becomes; fewer, if it has few values.
    """

    learner: Any = None
    n_pieces: int = 6
    random_state: int | np.random.RandomState | None = 0
    n_jobs: int | None = None
    verbose: int = 0

    supervision: ClassVar[tuple[str, ...]] = (
        "labels",
        "numbers",
        "chunklets",
        "pairs",
        "triplets",
    )
    gives_linear: ClassVar[bool] = False
    auto_order: ClassVar[int | None] = 17
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {"n_pieces": integer(at_least=1)}

    def _build_problem(self, data: FitInput) -> Problem:
        pieces = PieceMap.fit(data.Z, self.n_pieces)
        ramps = pieces.transform(data.Z)
        usual = MLKR() if data.supervision.kind == "numbers" else NCA()
        inner = usual if self.learner is None else clone(self.learner)
        scaler = Scaler(ramps.mean(axis=0), np.ones(ramps.shape[1]))
        problem = inner._build_problem(replace(data, Z=scaler.transform(ramps), scaler=scaler))
        problem.features = ramps
        problem.kernel_map = moved(pieces, data.scaler.center, data.scaler.scale)
        return problem
