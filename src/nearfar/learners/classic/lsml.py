"""Metric learning from relative comparisons by least squared residuals (Liu et al.).

For triplets k = (anchor, near, far) with distances d = sqrt(z), and weights w_k that sum to one:

    min  sum_k w_k max(0, d(anchor, near) - d(anchor, far))^2 + prior_weight / D div(M, M0)

over psd M: a comparison that is violated costs the square of its residual, and the LogDet
divergence keeps M near the prior. Where it is violated, with z and z' the two squared distances,

    (sqrt z - sqrt z')^2 = z + z' - 2 sqrt(z z')

is convex in M, as the geometric mean is concave. `logdet` minimises the problem, divided by
prior_weight / D.

Where nearfar departs from the paper, and why:

- L-BFGS with a certified gap in place of gradient steps with projections.
- The two parts have weights, and squared distances are in units of their mean over the triplets
  under the prior: neither the units of X nor the number of triplets or features matter.
- The paper compares any two pairs of points; here both share the anchor, as in `Triplets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nearfar.learners.classic.logdet import SAME_POINT, LogDetLearner, LogDetProblem
from nearfar.learners.declaration import learner
from nearfar.learners.problem import FitInput
from nearfar.losses import SquaredHinge
from nearfar.numerics.edges import Edges
from nearfar.runtime.parameters import ParameterRule, number
from nearfar.supervision import RandomTriplets
from nearfar.typing import Ints, Vector

_HINGE = SquaredHinge(margin=0.0)


@learner
class LSML(LogDetLearner):
    """Learn from comparisons: penalise squared residuals, and stay near a prior.

    Parameters
    ----------
    max_iter : int, default=1000
        The most iterations of L-BFGS.
    constraints : strategy, default=RandomTriplets(max(2_000, 10 * n_samples))
        Makes triplets from labels.
    prior : {"identity", "covariance"} or Metric, default="identity"
        The metric to stay near: Euclidean distance between scaled points, the inverse of their
        covariance, or a metric of your own. Directions that it maps to zero stay there.
    prior_weight : float, default=0.003
        Weight of the divergence from the prior.
    tol : float, default=1e-5
        Gap to end at, relative to the objective.

    Attributes
    ----------
    gap_ : float
        How far the objective can be above the optimum.
    history_ : History
        Objective, divided by ``prior_weight / D``, and gap after every iteration;
        ``history_.stopped`` says why they ended.

    References
    ----------
    E. Y. Liu, Z. Guo, X. Zhang, V. Jojic, W. Wang. Metric learning from relative comparisons by
    minimizing squared residual. ICDM 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import LSML, Triplets
    >>> X, y = load_wine(return_X_y=True)
    >>> triplets = Triplets([[0, 1, 177], [1, 2, 176], [177, 176, 0]])
    >>> LSML().fit(X, triplets).score(X, triplets)
    1.0
    """

    max_iter: int = 1000
    prior_weight: float = 0.003
    tol: float = 1e-5

    supervision: ClassVar[tuple[str, ...]] = ("labels", "pairs", "triplets")
    compare_order: ClassVar[int | None] = 16
    compared_on_labels: ClassVar[bool] = False
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {"prior_weight": number(above=0.0)}

    def _build_problem(self, data: FitInput) -> LogDetProblem:
        strategy = self.constraints
        if strategy is None:
            strategy = RandomTriplets(max(2_000, 10 * len(data.Z)))
        triplets = data.supervision.triplets(data.Z, strategy, data.random_state)
        space, index = self._prior_space(data, triplets.index)
        anchor, near, far = index.T
        edges = Edges(space.X, np.concatenate([anchor, anchor]), np.concatenate([near, far]))
        of_near, of_far = np.split(edges.of_pair, 2)
        z = edges.squared_distances(space.X)
        unit = float(np.average(z[of_near] + z[of_far], weights=triplets.weight)) / 2
        weight = np.ones(len(triplets)) if triplets.weight is None else triplets.weight
        weight = weight / weight.max()
        weight *= space.n_varying / (self.prior_weight * (unit or 1.0) * weight.sum())
        loss = ResidualLoss(of_near, of_far, weight, z > SAME_POINT * z.max())
        return self._problem(data, space, edges, loss)


@dataclass(frozen=True, eq=False)
class ResidualLoss:
    """Sum of weighted squared residuals.

    Attributes
    ----------
    near, far: shape (n_triplets,). The edges of each triplet.
    distinct: shape (n_edges,). Which edges join different points; the others have no length
        under any metric.
    """

    near: Ints
    far: Ints
    weight: Vector
    distinct: NDArray[np.bool_]

    def __call__(self, z: Vector) -> tuple[float, Vector]:
        """Return the loss and its derivatives by the squared distances of the edges."""
        d = np.where(self.distinct, np.sqrt(z), 0.0)
        margins = d[self.far] - d[self.near]
        pressure = self.weight * _HINGE.slope(margins) / 2
        slopes = np.bincount(self.near, pressure, len(d)) - np.bincount(self.far, pressure, len(d))
        np.divide(slopes, d, out=slopes, where=self.distinct)
        return float(self.weight @ _HINGE.value(margins)), np.where(self.distinct, slopes, 0.0)
