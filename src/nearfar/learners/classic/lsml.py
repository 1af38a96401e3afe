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

from nearfar.constraints import RandomTriplets, TripletStrategy, to_triplets
from nearfar.learners.base import Prior, ValidationFraction
from nearfar.learners.classic.logdet import LogDetLearner, LogDetProblem
from nearfar.learners.held_out import Validation
from nearfar.learners.problem import FitInput
from nearfar.numerics.edges import Edges
from nearfar.runtime import parameters
from nearfar.runtime.parameters import number
from nearfar.typing import Ints, Vector

_SAME_POINT = 1e-20
"""Squared distance, relative to the largest, at which two points count as equal."""


class LSML(LogDetLearner):
    """Learn from comparisons: penalise squared residuals, and stay near a prior.

    Parameters
    ----------
    max_iter : int, default=1000
        The most iterations of L-BFGS.
    constraints : strategy, default=RandomTriplets(max(2_000, 10 * n_samples))
        Makes triplets from labels.
    prior : {"identity"} or Metric, default="identity"
        The metric to stay near: Euclidean distance between scaled points, or a metric of your own.
        Directions that it maps to zero stay there.
    prior_weight : float, default=0.003
        Weight of the divergence from the prior.
    scale : {"auto", "standard", "unit", "cosine"} or None, default="auto"
        How X is scaled internally; the result applies to X as given. "standard" gives every feature
        unit variance, "unit" leaves features as they are, "cosine" divides each row by its length,
        and "auto" takes what suits Euclidean distance best (`scale_`). None is "unit".
    n_components : int, optional
        Dimension to reduce to, by the principal axes of the mapped points.
    validation_fraction : float, "auto" or None, default="auto"
        Share of the data that trial fits hold out, to choose the number of iterations and how much
        of the prior to keep (`prior_share_`). None fits to the end. "auto" is 0.2 if y are labels
        and the scale is "auto", and None otherwise and with `warm_start`.
    validation : {"rows", "classes"}, default="rows"
        Whether labelled rows or whole classes are held out. Choose "classes" for a metric that is
        meant for classes it has not seen.
    tol : float, default=1e-5
        Gap to end at, relative to the objective.
    warm_start : bool, default=False
        Continue from `metric_`: the result of the last fit, or a metric that was assigned to it.
    random_state : int, RandomState or None, default=None
        For drawing triplets.
    n_jobs : int, optional
        Number of threads. None and -1 use all cores, -2 all but one.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    metric_ : Metric
        The learned metric.
    components_ : array of shape (n_components, n_features)
        Its map L.
    gap_ : float
        How far the objective can be above the optimum.
    history_ : History
        Objective, divided by ``prior_weight / D``, and gap after every iteration;
        ``history_.stopped`` says why they ended.
    n_iter_ : int
        Number of iterations.
    scale_ : str or None
        How X was scaled.
    prior_share_ : float
        Share of the prior in the mean squared distance, as chosen on held-out data.

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

    supervision: ClassVar[tuple[str, ...]] = ("labels", "pairs", "triplets")
    parameter_rules: ClassVar[dict[str, parameters.Rule]] = {"prior_weight": number(above=0.0)}

    def __init__(
        self,
        *,
        max_iter: int = 1000,
        constraints: TripletStrategy | None = None,
        prior: Prior = "identity",
        prior_weight: float = 0.003,
        scale: str | None = "auto",
        n_components: int | None = None,
        validation_fraction: ValidationFraction = "auto",
        validation: Validation = "rows",
        tol: float = 1e-5,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            max_iter=max_iter,
            constraints=constraints,
            prior=prior,
            prior_weight=prior_weight,
            scale=scale,
            n_components=n_components,
            validation_fraction=validation_fraction,
            validation=validation,
            tol=tol,
            warm_start=warm_start,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )

    def _build_problem(self, data: FitInput) -> LogDetProblem:
        strategy = self.constraints
        if strategy is None:
            strategy = RandomTriplets(max(2_000, 10 * len(data.Z)))
        triplets = to_triplets(data.Z, data.supervision, strategy, data.random_state)
        rows, index = np.unique(triplets.index, return_inverse=True)
        space = self._prior_space(data, rows)
        anchor, near, far = index.reshape(triplets.index.shape).T
        edges = Edges(space.X, np.concatenate([anchor, anchor]), np.concatenate([near, far]))
        of_near, of_far = np.split(edges.of_pair, 2)
        z = edges.squared_distances(space.X)
        unit = float(np.average(z[of_near] + z[of_far], weights=triplets.weight)) / 2
        weight = np.ones(len(triplets)) if triplets.weight is None else triplets.weight
        weight = weight / weight.max()
        weight *= space.n_varying / (self.prior_weight * (unit or 1.0) * weight.sum())
        loss = ResidualLoss(of_near, of_far, weight, z > _SAME_POINT * z.max())
        start = self._first_map(data, space)
        return LogDetProblem(space, edges, loss, start, tol=self.tol, max_iter=self.max_iter)


@dataclass(frozen=True, eq=False)
class ResidualLoss:
    """Sum of weighted squared residuals.

    Attributes
    ----------
    near, far : array of int of shape (n_triplets,)
        The edges of each triplet.
    weight : array of shape (n_triplets,)
    distinct : array of bool of shape (n_edges,)
        Which edges join different points; the others have no length under any metric.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.learners.classic.lsml import ResidualLoss
    >>> loss = ResidualLoss(np.array([0]), np.array([1]), np.ones(1), np.array([True, True]))
    >>> loss(np.array([9.0, 4.0]))
    (1.0, array([ 0.33333333, -0.5       ]))
    """

    near: Ints
    far: Ints
    weight: Vector
    distinct: NDArray[np.bool_]

    def __call__(self, z: Vector) -> tuple[float, Vector]:
        """Return the loss and its derivatives by the squared distances of the edges."""
        d = np.where(self.distinct, np.sqrt(z), 0.0)
        residual = np.maximum(d[self.near] - d[self.far], 0.0)
        pressure = self.weight * residual
        slopes = np.bincount(self.near, pressure, len(d)) - np.bincount(self.far, pressure, len(d))
        np.divide(slopes, d, out=slopes, where=self.distinct)
        return float(pressure @ residual), np.where(self.distinct, slopes, 0.0)
