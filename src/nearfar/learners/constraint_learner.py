"""What learners from constraints share: a strategy for labels, and a prior to start from."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from nearfar.learners.base import MetricLearner
from nearfar.learners.declaration import learner
from nearfar.learners.problem import factor_on_scaled_points
from nearfar.learners.scaler import Scaler
from nearfar.learners.shared_parameters import Iterative, Texts, Validated
from nearfar.metrics.metric import Metric
from nearfar.runtime.parameters import ParameterRule, number, optional
from nearfar.typing import Matrix

Prior = Literal["identity"] | Metric | None

PRIOR_RULE = ParameterRule(
    'None, "identity" or a Metric',
    lambda value: (
        value is None
        or isinstance(value, Metric)
        or (isinstance(value, str) and value == "identity")
    ),
)


@learner
class ConstraintLearner(Validated, Iterative, MetricLearner):
    """Base of the learners that learn from constraints and stay near a prior metric."""

    constraints: Any = None
    prior: Prior = "identity"
    tol: float

    supervision: ClassVar[tuple[str, ...]] = ("labels", "pairs", "triplets")
    parameter_docs: ClassVar[Texts] = {
        "prior": (
            '{"identity"}, Metric or None',
            "The metric to start from and to add to: Euclidean distance between scaled points, or\n"
            "a metric of your own. None starts from zero, as the paper does. If nothing improves\n"
            "on the prior, it is the result.",
        ),
    }
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "constraints": optional(
            ParameterRule(
                "a strategy such as NearestTriplets()",
                lambda value: callable(value) and not isinstance(value, type),
            )
        ),
        "prior": PRIOR_RULE,
        "tol": number(at_least=0.0),
    }

    def _reads_rows(self, kind: str) -> bool:
        """Labels too, where triplets are accepted and the strategy can mine them in blocks."""
        mined = kind == "labels" and "triplets" in self.reads_rows
        return super()._reads_rows(kind) or (mined and mines_in_blocks(self.constraints))


@learner
class WeightedPriorLearner(ConstraintLearner):
    """Base of the learners whose prior has a weight."""

    prior_weight: float

    parameter_rules: ClassVar[dict[str, ParameterRule]] = {"prior_weight": number(at_least=0.0)}

    def _prior_factor(self, scaler: Scaler) -> Matrix | None:
        """Return the prior's factor on scaled points, or None if there is no prior."""
        prior: Prior = self._setting("prior")
        if prior is None or self.prior_weight == 0:
            return None
        if not isinstance(prior, Metric):
            return np.eye(len(scaler.scale))
        return factor_on_scaled_points(prior, scaler, "prior")


def ignores_rows(strategy: Any) -> bool:
    """Return whether a strategy makes constraints from labels alone."""
    return bool(getattr(strategy, "ignores_rows", False))


def mines_in_blocks(strategy: Any) -> bool:
    """Return whether a strategy reads rows in blocks; None is `NearestTriplets()`, which does."""
    return strategy is None or bool(getattr(strategy, "reads_rows", False))
