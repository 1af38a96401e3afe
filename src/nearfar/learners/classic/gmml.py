"""Geometric mean metric learning (Zadeh, Hosseini, Sra): between two covariances of pairs.

With S and D the mean outer products of the differences of similar and of dissimilar pairs,

    min  tr A S + tr A^-1 D        over positive definite A                       (1)

has the solution A = S^-1 #_1/2 D, the only one of the Riccati equation A S A = D. It is the middle
of the geodesic from S^-1 to D; with t any other point of it is taken:

    A = S^-1 #_t D = G (G^-1 D G^-T)^t G'        G G' = S^-1

A prior A0 is kept near by the symmetrised LogDet divergence:

    S -> S + lambda A0^-1        D -> D + lambda A0

S and D are over all pairs that labels make, exactly (`scatter`), or over listed pairs.

Where nearfar departs from the paper, and why:

- S and D are means, not sums, and both are shrunk to multiples of the identity by the same share.
  The root makes A less sensitive than an inverse: 1 % is enough.
- A0 is multiplied by the factor that minimises (1) along it, and lambda is in units of the mean
  variance of the rows, so that neither depends on the units of X.
- The result is divided by the mean variance of the rows, for the same reason; but not if `scale` is
  None.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from scipy.linalg import cholesky, eigh, inv, solve_triangular

from nearfar.learners.classic.closed_form_base import Axes, Solution, SummedClosedForm
from nearfar.learners.classic.scatter import Evidence, Shrinkage, pair_scatters, with_ridge
from nearfar.learners.declaration import learner
from nearfar.learners.problem import factor_on_scaled_points
from nearfar.learners.scaling import Scaler
from nearfar.metrics.metric import Metric
from nearfar.numerics.linear_algebra import by_spread
from nearfar.runtime.parameters import ParameterRule, choice, either, instance, number, optional
from nearfar.typing import Matrix


@learner
class GMML(SummedClosedForm):
    """Geometric mean metric learning: between the inverse scatter of similar pairs and the other.

    Parameters
    ----------
    t : float from 0 to 1, default=0.5
        Where to stop between the inverse scatter of similar pairs (0) and the scatter of dissimilar
        ones (1).
    shrinkage : "auto" or float from 0 to 1, default=0.01
        Share of the identity, times the mean variance, in both scatters. "auto" estimates it as by
        Ledoit and Wolf.
    prior : {"identity"}, Metric or None, default=None
        A metric to stay near: Euclidean distance between scaled points, or a metric of your own.
    prior_weight : float, default=1.0
        Weight of the prior, in units of the mean variance of scaled points.

    References
    ----------
    P. H. Zadeh, R. Hosseini, S. Sra. Geometric mean metric learning. ICML 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import GMML
    >>> X, y = load_wine(return_X_y=True)
    >>> GMML().fit(X, y).score(X, y) > 0.95
    True
    """

    t: float = 0.5
    shrinkage: Shrinkage = 0.01
    prior: Literal["identity"] | Metric | None = None
    prior_weight: float = 1.0

    supervision: ClassVar[tuple[str, ...]] = ("labels", "pairs")
    auto_order: ClassVar[int | None] = 4
    compare_order: ClassVar[int | None] = 14
    parameter_rules: ClassVar[dict[str, ParameterRule]] = {
        "t": number(at_least=0.0, at_most=1.0),
        "prior": optional(either(choice("identity"), instance(Metric, "a Metric"))),
    }

    def _formula(self, evidence: Evidence, axes: Axes, scaler: Scaler) -> Solution:
        S, D = (with_ridge(mean) for mean in pair_scatters(evidence, self.shrinkage))
        if self.prior is not None:
            A0 = np.eye(len(S))
            if isinstance(self.prior, Metric):
                L = axes.map_of_coordinates(factor_on_scaled_points(self.prior, scaler, "prior"))
                A0 = L.T @ L
                A0 = with_ridge(A0 * (len(A0) / np.trace(A0)))
            inverse = inv(A0)
            factor = np.sqrt(np.sum(inverse * D) / np.sum(A0 * S))
            S = S + self.prior_weight / factor * inverse
            D = D + self.prior_weight * factor * A0
        L = by_spread(geodesic_factor(S, D, self.t), evidence.groups.total.within())[1]
        return Solution(L * axes.unit**self.t if self.scale is None else L)


def geodesic_factor(S: Matrix, D: Matrix, t: float) -> Matrix:
    """Return L with L'L = S^-1 #_t D, for positive definite S and D."""
    C = cholesky(S, lower=True)
    values, axes = eigh(C.T @ D @ C)
    return solve_triangular(C, axes * np.maximum(values, 0.0) ** (t / 2), trans="T", lower=True).T
