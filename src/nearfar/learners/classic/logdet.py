"""Metrics near a prior in the LogDet divergence, learned from squared distances of pairs.

For a convex loss of the squared distances z of listed pairs (`Edges`) the problem is, over psd M,

    min  div(M, M0) + loss(z)        z_k = (x_i - x_j)' M (x_i - x_j)
    div(M, M0) = tr(M M0^-1) - log det(M M0^-1) - D

The divergence keeps M positive definite, so that no projection is needed. In coordinates in which
M0 is the identity, and with M = L'L, L-BFGS runs over square L:

    f(L) = |L|^2 - 2 log |det L| - D + loss(z)        grad f(L) = 2 (L - L'^-1 + L G)
    G = sum_k loss'_k (x_i - x_j)(x_i - x_j)'

Every local minimum in L is the minimum in M. With its tangent in place of the loss the minimum has
a closed form, which bounds the optimum from below:

    f(L) - optimum <= tr N - log det N - D,        N = L (I + G) L'

N is the identity at the optimum. The search ends when this gap is small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from nearfar.learners.base import ConstraintLearner
from nearfar.learners.declaration import GIVEN_PRIOR_RULE, learner
from nearfar.learners.problem import (
    CertifiedProblem,
    FitInput,
    MetricBuilder,
    SearchPoint,
    factor_on_scaled_points,
)
from nearfar.metrics.metric import Metric
from nearfar.numerics.edges import Edges
from nearfar.runtime.history import History
from nearfar.runtime.parameters import ParameterRule
from nearfar.typing import Ints, Matrix, Vector

EdgeLoss = Callable[[Vector], tuple[float, Vector]]
"""Squared distances of the edges -> a convex function of them, and its derivatives."""

SAME_POINT = 1e-20
"""Squared distance, relative to the largest, at which two points count as equal: the square of
rounding errors of about 1e-10 in their coordinates."""


@learner
class LogDetLearner(ConstraintLearner):
    """Base of the learners that stay near a prior in the LogDet divergence."""

    max_iter: int

    rotates: ClassVar[bool] = True
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {"prior": GIVEN_PRIOR_RULE}

    def _prior_space(self, data: FitInput, index: Ints) -> tuple[PriorSpace, Ints]:
        """Return the points of constraints where the prior is the identity, and their numbers."""
        rows, number = np.unique(index, return_inverse=True)
        X, prior = data.Z[rows].astype(np.float64), None
        if isinstance(self.prior, Metric):
            prior = factor_on_scaled_points(self.prior, data.scaler, "prior")
        return PriorSpace.of(X, prior), number.reshape(index.shape)

    def _problem(
        self, data: FitInput, space: PriorSpace, edges: Edges, loss: EdgeLoss, **fitted: object
    ) -> LogDetProblem:
        """Return the problem, which begins at the prior, or at the metric of the last fit."""
        start = np.eye(space.X.shape[1])
        if data.warm is not None:
            name = "metric to continue from"
            start = space.inside(factor_on_scaled_points(data.warm, data.scaler, name))
        return LogDetProblem(space, edges, loss, start, self.tol, self.max_iter, fitted)


@dataclass(frozen=True, eq=False)
class PriorSpace:
    """Points in coordinates in which the prior is the identity.

    Attributes
    ----------
    prior: shape (rank, n_features). The prior's map; None for the identity.
    """

    X: Matrix
    prior: Matrix | None

    @classmethod
    def of(cls, X: Matrix, prior: Matrix | None) -> PriorSpace:
        """Map scaled points by the prior's factor."""
        return cls(X if prior is None else X @ prior.T, prior)

    @property
    def n_varying(self) -> int:
        """Number of directions in which points differ."""
        return int(np.linalg.matrix_rank(self.X - self.X.mean(axis=0)))

    def map_of(self, L: Matrix) -> Matrix:
        """Return the map of scaled points for a map of the coordinates."""
        return L if self.prior is None else L @ self.prior

    def inside(self, factor: Matrix) -> Matrix:
        """Return a square map of the coordinates for a map of scaled points.

        The prior takes the place of the directions that it maps to zero.
        """
        L = factor if self.prior is None else factor @ np.linalg.pinv(self.prior)
        values, vectors = np.linalg.eigh(L.T @ L)
        vanished = values <= len(values) * np.finfo(float).eps * values[-1]
        return np.asarray(np.sqrt(np.where(vanished, 1.0, values))[:, None] * vectors.T)


@dataclass(eq=False)
class LogDetProblem(CertifiedProblem):
    """A convex loss of squared distances, and the LogDet divergence from the prior.

    Attributes
    ----------
    edges: Pairs of the points in that space.
    start: shape (n_coordinates, n_coordinates). The map to begin with.
    tol: Gap to end at, relative to the objective.
    fitted: Fitted attributes of the learner beyond the gap.
    """

    space: PriorSpace
    edges: Edges
    loss: EdgeLoss
    start: Matrix
    tol: float
    max_iter: int
    fitted: dict[str, object] = field(default_factory=dict)
    rounding: ClassVar[float] = 1e-14

    def at(self, L: Matrix) -> SearchPoint:
        """Evaluate the problem at a map of the coordinates."""
        loss, slopes = self.loss(self.edges.squared_distances(self.edges.project(L.T)))
        pull = L @ self.edges.matrix(slopes)
        logdet = np.linalg.slogdet(L)[1]
        value = float((L**2).sum() - 2 * logdet) - len(L) + loss
        gradient = np.asarray(2 * (L - np.linalg.inv(L).T + pull))

        def gap() -> float:
            N = (L + pull) @ L.T
            excess = np.linalg.eigvalsh((N + N.T) / 2 - np.eye(len(N)))
            # Where an eigenvalue of N is negative, the tangent has no minimum.
            return float((excess - np.log1p(excess)).sum()) if excess[0] > -1 else np.inf

        return SearchPoint(value, gradient, value, gap, L)

    def factor(self, history: History) -> Matrix:
        """Return the last map, for all features."""
        return self.space.map_of(history[-1].payload)

    def attributes(self, history: History, builder: MetricBuilder) -> dict[str, object]:
        """Return the certified gap, and what the learner adds."""
        return super().attributes(history, builder) | self.fitted
