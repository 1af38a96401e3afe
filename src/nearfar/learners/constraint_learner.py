"""What learners from constraints share: a strategy for labels, and a prior to start from."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np

from nearfar.learners.base import MetricLearner
from nearfar.learners.declaration import learner
from nearfar.learners.fitting import FitMethod
from nearfar.learners.problem import FitInput, Problem, covariance_matrix
from nearfar.learners.shared_parameters import Iterative, Texts, Validated
from nearfar.metrics.metric import Metric
from nearfar.rows import Rows
from nearfar.runtime.parameters import ParameterRule, choice, either, instance, number, optional

Prior = Literal["identity", "covariance"] | Metric | None

GIVEN_PRIOR_RULE = either(
    choice("identity", "covariance"),
    instance(Metric, "a Metric, as Metric.from_matrix(M) of an array M"),
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
            '{"identity", "covariance"}, Metric or None',
            "The metric to start from and to add to: Euclidean distance between scaled points,\n"
            "the inverse of their covariance, or a metric of your own. None starts from zero, as\n"
            "the paper does. If nothing improves on the prior, it is the result.",
        ),
    }
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "constraints": optional(
            ParameterRule(
                "a strategy such as NearestTriplets()",
                lambda value: callable(value) and not isinstance(value, type),
            )
        ),
        "prior": optional(GIVEN_PRIOR_RULE),
        "tol": number(at_least=0.0),
    }

    def _method(self) -> FitMethod:
        method, settled = super()._method(), self._settled()
        if settled.prior != "covariance":
            return method

        def build(data: FitInput) -> Problem:
            taught = copy.copy(settled)
            taught.prior = inverse_covariance(data)
            problem = taught._build_problem(data)
            problem.shrinks_to = taught.prior
            return problem

        return replace(method, build=build)


@learner
class WeightedPriorLearner(ConstraintLearner):
    """Base of the learners whose prior has a weight."""

    prior_weight: float

    parameter_rules: ClassVar[dict[str, ParameterRule]] = {"prior_weight": number(at_least=0.0)}


def inverse_covariance(data: FitInput) -> Metric:
    """Return the inverse of the covariance of scaled points, as a metric on X.

    It is shrunk as by Ledoit and Wolf, and zero where no points differ.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage

    values, vectors = np.linalg.eigh(covariance_matrix(data.Z))
    varying = values > len(values) * np.finfo(data.Z.dtype).eps * values[-1]
    values, vectors = values[varying], vectors[:, varying]
    if len(values) == 0:
        return data.scaler.euclidean
    if not isinstance(data.Z, Rows):
        share = ledoit_wolf_shrinkage(data.Z @ vectors)
        values = (1 - share) * values + share * values.mean()
    L = vectors.T / np.sqrt(values)[:, None]
    return Metric(L / data.scaler.scale, unit_rows=data.scaler.unit_rows)
