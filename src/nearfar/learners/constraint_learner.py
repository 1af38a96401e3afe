"""What learners from constraints share: a strategy for labels, and a prior to start from."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from nearfar.learners.base import MetricLearner
from nearfar.learners.declaration import learner
from nearfar.learners.shared_parameters import Iterative, Texts, Validated
from nearfar.metrics.metric import Metric
from nearfar.runtime.parameters import ParameterRule, choice, either, instance, number, optional

Prior = Literal["identity"] | Metric | None

PRIOR_RULE = optional(either(choice("identity"), instance(Metric, "a Metric")))


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


@learner
class WeightedPriorLearner(ConstraintLearner):
    """Base of the learners whose prior has a weight."""

    prior_weight: float

    parameter_rules: ClassVar[dict[str, ParameterRule]] = {"prior_weight": number(at_least=0.0)}
