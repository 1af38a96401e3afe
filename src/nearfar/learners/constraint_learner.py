"""`ConstraintLearner`: what learners from constraints share."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from nearfar.learners.base import MetricLearner
from nearfar.learners.declaration import Prior, Validation, ValidationFraction, learner


@learner
class ConstraintLearner(MetricLearner):
    """Base of the learners that learn from constraints and stay near a prior metric.

    A strategy makes constraints from labels.
    """

    warm_start: bool = False
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    verbose: int = 0
    validation_fraction: ValidationFraction = "auto"
    validation: Validation = "rows"
    constraints: Any = None
    prior: Prior = "identity"
    tol: float

    supervision: ClassVar[tuple[str, ...]] = ("labels", "pairs", "triplets")

    def _slow_on_many_rows(self) -> bool:
        # Mining compares all rows; strategies that draw constraints do not.
        return not getattr(self.constraints, "ignores_rows", False)
