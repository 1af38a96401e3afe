"""FrobMetric: large margins of triplets at a small Frobenius norm (Shen, Kim, Liu, Wang, van den
Hengel, IEEE TNNLS 2014).

For triplets r = (anchor, near, far) with the margins  <A_r, M> = d_M(anchor, far)^2 -
d_M(anchor, near)^2  and shares p_r (1 / m, or in proportion to their weights), over psd M:

    min  1/2 |M - P|_F^2 + C sum_r p_r max(0, 1 - <A_r, M>)

The dual has one multiplier per triplet, and the psd constraint has become a projection, which an
eigendecomposition gives:

    max  sum_r u_r + 1/2 |P|_F^2 - 1/2 |M|_F^2     over  0 <= u_r <= C p_r
    M = [P + A(u)]+        A(u) = sum_r u_r A_r

It is concave with the gradient  1 - <A_r, M>,  so that L-BFGS within bounds solves it. M is also
feasible in the primal problem: the difference of the two values, `gap_`, bounds the distance to the
optimum, and ends the search. No A_r is formed: A(u) is a weighted Gram matrix of the points.

Where nearfar departs from the paper, and why:

- P is zero in the paper (``prior=None``).
- Margins are in units of the mean squared distance of the triplets, so that C means the same for X
  in any units.
- All A_r lie in the space that the points span. If that is small, the problem is solved there;
  outside M = P. It is solved in float64: values and gradients must agree closely for the search.
- The search ends at a relative gap, not at a small decrease of the dual.
- If classes overlap so much that the optimum is zero, the result is the prior, or Euclidean
  distance without one, and a warning says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from nearfar.learners.base import ConstraintLearner
from nearfar.learners.declaration import MaxRows, learner
from nearfar.learners.max_margin.box_dual import PsdSplit, ascend_box
from nearfar.learners.problem import (
    FitInput,
    MetricBuilder,
    Problem,
    factor_on_scaled_points,
    prior_factor,
    uncertified,
)
from nearfar.losses.loss import HINGE
from nearfar.metrics.metric import Metric
from nearfar.numerics.edges import TripletEdges
from nearfar.numerics.linear_algebra import row_space
from nearfar.runtime.history import History, Iterations
from nearfar.runtime.parameters import ParameterRule, number
from nearfar.supervision import NearestTriplets
from nearfar.typing import Matrix, Vector


@learner
class FrobMetric(ConstraintLearner):
    """Learn a metric with large margins of triplets and a small Frobenius norm.

    Parameters
    ----------
    C : float, default=1000.0
        Penalty for margins below one. The larger it is, the farther the metric moves from the prior
        to satisfy the triplets.
    max_iter : int, default=1000
        The most iterations of L-BFGS.
    constraints : strategy, default=NearestTriplets(targets=3, impostors=3)
        Makes triplets from labels.
    prior : {"identity", "covariance"}, Metric or None, default="identity"
        The metric P to stay near: Euclidean distance between scaled points, the inverse of their
        covariance, or a metric of your own. None is the paper's zero.
    prior_weight : float, default=1.0
        Mean squared distance of the triplets under the prior, in the units of margins.
    tol : float, default=1e-3
        Gap to end at, relative to the objective.

    Attributes
    ----------
    gap_ : float
        How far the objective can be above the optimum.
    history_ : History
        Objective and gap after every iteration; ``history_.stopped`` says why they ended.

    References
    ----------
    C. Shen, J. Kim, F. Liu, L. Wang, A. van den Hengel. Efficient dual approach to distance metric
    learning. IEEE Transactions on Neural Networks and Learning Systems, 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import FrobMetric
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = FrobMetric().fit(X, y)
    >>> learner.score(X, y) > 0.99
    True
    """

    max_rows: MaxRows = "auto"
    C: float = 1000.0
    max_iter: int = 1000
    prior_weight: float = 1.0
    tol: float = 1e-3

    rotates: ClassVar[bool] = True
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {"C": number(at_least=0.0)}

    def _build_problem(self, data: FitInput) -> FrobProblem:
        strategy = NearestTriplets() if self.constraints is None else self.constraints
        triplets = data.supervision.triplets(data.Z, strategy, data.random_state)
        prior = prior_factor(self.prior, self.prior_weight, data.scaler)
        points = data.Z.astype(np.float64, copy=False)
        # [P + A(u)]+ leaves the span of the points, and of a prior of the user, separate.
        spanned = points
        if isinstance(self.prior, Metric) and prior is not None:
            size = np.linalg.norm(points) / (np.linalg.norm(prior) or 1.0)
            spanned = np.vstack([points, size * prior])
        basis = row_space(spanned)
        if basis is not None and 2 * len(basis) > points.shape[1]:
            basis = None
        unit: float | Literal["mean"] = 1.0 if self.scale is None else "mean"
        edges = TripletEdges(_in_basis(points, basis), triplets.index, triplets.weight, unit=unit)
        P = np.zeros((1, len(edges)))
        if prior is not None:
            # The mean squared distance of the triplets under the prior is `prior_weight`.
            embedded = edges.embed(_in_basis(prior, basis))
            mean = edges.mean(edges.edges.squared_distances(embedded)) / edges.unit
            prior = prior * np.sqrt(self.prior_weight / mean if mean > 0 else self.prior_weight)
            P = _in_basis(prior, basis)
        weight = np.ones(len(triplets)) if triplets.weight is None else triplets.weight
        shares = weight / weight.max()
        objective = FrobObjective(
            edges,
            top=self.C * shares / shares.sum(),
            P=P.T @ P,
            prior_margins=edges.embedding_margins(edges.embed(P)),
            tol=self.tol,
        )
        problem = FrobProblem(objective, basis, prior, self.max_iter, edges.unit)
        if basis is not None and prior is not None:
            problem.base = prior - prior @ basis.T @ basis
        if data.warm is not None:
            # At the optimum multipliers are 0 for margins above one, and at their bound for those
            # below.
            L = factor_on_scaled_points(data.warm, data.scaler, "metric to continue from")
            margins = objective.margins(_in_basis(L * np.sqrt(edges.unit), basis))
            problem.shares = (margins < 1.0).astype(np.float64)
        return problem


def _in_basis(L: Matrix, basis: Matrix | None) -> Matrix:
    """Return the coordinates of the rows of L in a basis."""
    return L if basis is None else L @ basis.T


FrobSolution = tuple[PsdSplit, Vector]
"""A matrix of which the metric is the positive part, and the margins that the metric gives."""


@dataclass(frozen=True)
class FrobObjective:
    """The objective on listed triplets.

    Attributes
    ----------
    top: shape (n_triplets,). Weights of the hinges, C p_r.
    P: shape (n_features, n_features). Prior.
    prior_margins: shape (n_triplets,). Margins of the prior.
    tol: Gap to end at, relative to the objective.
    """

    triplets: TripletEdges
    top: Vector
    P: Matrix
    prior_margins: Vector
    tol: float

    def objective(self, solution: FrobSolution) -> float:
        """Return the value of the primal problem."""
        split, margins = solution
        penalty = 0.5 * float(((split.positive - self.P) ** 2).sum())
        return penalty + float(self.top @ HINGE.value(margins))

    def dual(self, u: Vector) -> tuple[float, Vector, FrobSolution]:
        """Return the dual at multipliers, its gradient, and M; the value by what cancels less.

        Where M is close to a large prior, |P|^2 - |M|^2 loses the digits that matter. With N the
        negative part of P + A(u), it is also  |N|^2 - |A(u)|^2 - 2 <A(u), P>.
        """
        A = self.triplets.matrix(u)
        split = PsdSplit.of(self.P + A)
        margins = self.margins(split.factor)
        prior, change = float((self.P**2).sum()), float((A**2).sum())
        positive = float((np.maximum(0.0, split.values) ** 2).sum())
        negative = float((np.minimum(0.0, split.values) ** 2).sum())
        if prior + positive <= change + negative:
            value = float(u.sum()) + 0.5 * (prior - positive)
        else:
            value = float(u @ (1.0 - self.prior_margins)) + 0.5 * (negative - change)
        return value, 1.0 - margins, (split, margins)

    def margins(self, L: Matrix) -> Vector:
        """Return the margins of the metric L'L."""
        return self.triplets.embedding_margins(self.triplets.embed(L))


@dataclass(eq=False)
class FrobProblem(Problem):
    """The objective in the space that matters, and the way to its optimum.

    Attributes
    ----------
    basis: shape (rank, n_features). Basis of the space of the objective; None for all
        features.
    prior: shape (rank, n_features). Factor of the prior.
    shares: shape (n_triplets,). Multipliers to start from, as shares of their bounds.
    """

    objective: FrobObjective
    basis: Matrix | None
    prior: Matrix | None
    max_iter: int
    unit: float
    shares: Vector | None = None

    def solve(self) -> Iterations:
        """Maximise the dual."""
        frob = self.objective
        return ascend_box(frob.dual, frob.objective, frob.top, frob.tol, self.max_iter, self.shares)

    def factor(self, history: History) -> Matrix:
        """Return the factor of the last solution, for all features."""
        L: Matrix = history[-1].payload[0].factor
        return L if self.basis is None else L @ self.basis

    def metric(self, history: History, builder: MetricBuilder) -> Metric:
        """Return the metric of the last solution, or the prior if that is zero."""
        if not history[-1].payload[0].is_negative:
            return builder.build(self.factor(history))
        kept = np.eye(len(builder.scale)) if self.prior is None else self.prior
        return replace(builder, base=None).build(kept)

    def attributes(self, history: History, builder: MetricBuilder) -> dict[str, object]:
        """The certified gap."""
        return {"gap_": max(0.0, history[-1].gap)}

    def warning_message(self, history: History, metric: Metric) -> str:
        """Warn where the optimum was not reached, or is zero."""
        if history[-1].payload[0].is_negative:
            kept, advice = "the prior", "a smaller C"
            if self.prior is None:
                kept, advice = "Euclidean distance", "a larger C or a prior"
            return (
                f"Nothing was learned: the best metric is zero. The result is {kept}; try {advice}."
            )
        return uncertified(history, self.max_iter)
