"""Information-theoretic metric learning from pairs (Davis, Kulis, Jain, Sra, Dhillon).

Similar pairs should be at a squared distance of at most u, dissimilar ones of at least l, and the
metric should stay near a prior in the LogDet divergence. With slack variables xi (5):

    min  div(M, M0) + gamma div(diag xi, diag xi0)
    s.t. z_k <= xi_k for similar, z_k >= xi_k for dissimilar pairs,   xi0_k = u or l

For a given M the best slack is z_k where the bound is violated, and xi0_k elsewhere. What remains
is a convex function of M alone, which `logdet` minimises:

    min  div(M, M0) + gamma sum_k h_k        h_k = r_k - log r_k - 1
    r_k = max(z_k / u, 1) for similar, min(z_k / l, 1) for dissimilar pairs

At the optimum M^-1 = M0^-1 + sum_k lambda_k (x_i - x_j)(x_i - x_j)' with lambda_k the derivative of
gamma h_k by z_k: not negative for similar, not positive for dissimilar pairs, and zero where the
bound is kept.

Where nearfar departs from the paper, and why:

- Algorithm 1 projects on one pair after the other, in hundreds of passes over all pairs, and its
  printed step is for gamma = 1 only. L-BFGS reaches the same optimum some hundred times sooner,
  with a certified gap.
- gamma is for the mean over pairs, and for each feature: the paper's gamma is here
  ``gamma * n_features / n_pairs``. The same value then suits any number of pairs.
- u and l are by default the 5th and 80th percentile of the pairs' own distances. With the paper's
  95th, errors of nearest neighbours are about the same, but higher on pictures of digits.
- A pair of equal points has no influence, as no metric can move it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nearfar.learners.classic.logdet import SAME_POINT, LogDetLearner, LogDetProblem
from nearfar.learners.declaration import learner
from nearfar.learners.problem import FitInput
from nearfar.numerics.edges import Edges
from nearfar.runtime.parameters import ParameterRule, number, optional
from nearfar.supervision import RandomPairs
from nearfar.typing import Vector


def _ascending(of: str, each: ParameterRule) -> ParameterRule:
    """Accept two numbers, the smaller one first."""

    def accepts(value: Any) -> bool:
        return np.shape(value) == (2,) and all(map(each.accepts, value)) and value[0] <= value[1]

    return ParameterRule(f"two {of}, the smaller one first", accepts)


@learner
class ITML(LogDetLearner):
    """Keep similar pairs below one distance, dissimilar pairs above another, and M near a prior.

    Given pairs may be of one kind only; then there is only one of the two bounds.

    Parameters
    ----------
    gamma : float, default=8.0
        Weight of violated bounds against the divergence from the prior; the larger it is, the
        farther the metric moves.
    bounds : (float, float), optional
        Distances that similar pairs should stay below, and dissimilar ones above, under the learned
        metric; by default, `percentiles`.
    percentiles : (float, float), default=(5.0, 80.0)
        The bounds as percentiles of the pairs' distances under the prior.
    max_iter : int, default=1000
        The most iterations of L-BFGS.
    constraints : strategy, default=RandomPairs()
        Makes pairs from labels: ten for each row, at least 2,000, half of them similar.
    prior : {"identity", "covariance"} or Metric, default="identity"
        The metric to stay near: Euclidean distance between scaled points, the inverse of their
        covariance, or a metric of your own. Directions that it maps to zero stay there.
    tol : float, default=1e-5
        Gap to end at, relative to the objective.

    Attributes
    ----------
    bounds_ : (float, float)
        The two distances.
    gap_ : float
        How far the objective can be above the optimum.
    history_ : History
        Objective and gap after every iteration; ``history_.stopped`` says why they ended.

    References
    ----------
    J. V. Davis, B. Kulis, P. Jain, S. Sra, I. S. Dhillon. Information-theoretic metric learning.
    ICML 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import ITML
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = ITML(random_state=0).fit(X, y)
    >>> near, far = learner.bounds_
    >>> bool(near < learner.metric_.pair_distances(X, [[0, 177]])[0])
    True
    """

    gamma: float = 8.0
    bounds: Sequence[float] | None = None
    percentiles: Sequence[float] = (5.0, 80.0)
    max_iter: int = 1000
    tol: float = 1e-5

    supervision: ClassVar[tuple[str, ...]] = ("labels", "pairs")
    compare_order: ClassVar[int | None] = 17
    compared_on_labels: ClassVar[bool] = False
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "gamma": number(above=0.0),
        "bounds": optional(_ascending("positive distances", number(above=0.0))),
        "percentiles": _ascending("percentiles", number(at_least=0.0, at_most=100.0)),
    }

    def _build_problem(self, data: FitInput) -> LogDetProblem:
        strategy = RandomPairs() if self.constraints is None else self.constraints
        pairs = data.supervision.pairs(data.Z, strategy, data.random_state, both_kinds=False)
        space, index = self._prior_space(data, pairs.index)
        edges = Edges(space.X, *index.T)
        z = edges.squared_distances(space.X)[edges.of_pair]
        weight = np.ones(len(pairs)) if pairs.weight is None else pairs.weight / pairs.weight.max()
        share = self.gamma * space.n_varying / weight.sum()
        weight = np.where(z > SAME_POINT * z.max(), weight, 0.0)
        if self.bounds is not None:
            bounds = np.square(np.asarray(self.bounds, dtype=np.float64))
        elif not weight.any():
            bounds = np.ones(2)
        else:
            order = np.argsort(z)
            total = np.cumsum(weight[order])
            # A little less than a percentile, so that rounding does not lead to the next pair.
            wanted = np.asarray(self.percentiles) / 100 * total[-1] * (1 - 1e-12)
            bounds = z[order][np.searchsorted(total, np.maximum(wanted, np.finfo(float).tiny))]
        similar, dissimilar = (
            edges.sum_of_pairs(np.where(kind, share * weight, 0.0))
            for kind in (pairs.similar, ~pairs.similar)
        )
        near, far = np.sqrt(bounds)
        loss = BoundLoss(bounds, similar, dissimilar)
        return self._problem(data, space, edges, loss, bounds_=(float(near), float(far)))


@dataclass(frozen=True, eq=False)
class BoundLoss:
    """gamma sum_k h_k.

    Attributes
    ----------
    bounds: shape (2,). u and l: squared distances.
    similar, dissimilar: shape (n_edges,). Weight of each edge as a similar and as a
        dissimilar pair, times gamma.
    """

    bounds: Vector
    similar: Vector
    dissimilar: Vector

    def __call__(self, z: Vector) -> tuple[float, Vector]:
        """Return the loss and its derivatives by the squared distances of the edges."""
        near, far = self.bounds
        over = np.where(self.similar > 0, np.maximum(z / near, 1.0), 1.0)
        under = np.where(self.dissimilar > 0, np.minimum(z / far, 1.0), 1.0)
        value = self.similar @ (over - np.log(over) - 1.0)
        value += self.dissimilar @ (under - np.log(under) - 1.0)
        slopes = self.similar / near * (1.0 - 1.0 / over)
        slopes += self.dissimilar / far * (1.0 - 1.0 / under)
        return float(value), slopes
