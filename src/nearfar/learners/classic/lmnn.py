"""Large margin nearest neighbours (Weinberger, Saul).

Each row i has a few *targets* j, its nearest rows of the same class. A row l of another class is an
*impostor* of such a pair if it is not farther from i than j is by a margin of one (10). Over maps
L, with H_ij = |L (x_i - x_j)|^2, T target pairs and mu = `push`:

    pull(L) = 1/T sum_(i, j) H_ij                                                       (11)
    push(L) = 1/T sum_(i, j) sum_l max(0, 1 + H_ij - H_il)                              (12)

    min  (1 - mu) pull(L) + mu push(L)                                                  (13)

pull is Tr(L C L') with a constant C; the gradient of push is the Laplacian of the triplets that
cost something, times the embedded points (`impostors`). L-BFGS runs on the triplets that cost
something or nearly do (`lmnn_problem`). Every few iterations, and at the end, a search through all
pairs of rows finds those that were missing: the objective after the search is that of all triplets,
and the fit ends only if nothing that matters was missing.

The problem is convex in M = L'L. Its solution does not depend on the units of X: another margin
would multiply M by a number. L-BFGS begins at the multiple of the first map that has the smallest
objective, found from the triplets of some anchors. There few triplets cost anything: on most
tables, from two to thirty for each row.

Where nearfar departs from the paper, and why:

- The paper sums over pairs; here both terms are divided by T, which leaves the optimum as it is.
- L-BFGS on L in place of subgradients of M and projections on the psd cone.
- Triplets may be given in place of labels. Then the target pairs are those of an anchor and a near
  row, and a pair weighs as much as its triplets do on average.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from nearfar.constraints import NearestTriplets
from nearfar.learners.base import MetricLearner
from nearfar.learners.classic.impostors import GivenTriplets, Impostors, Sample, Source
from nearfar.learners.classic.lmnn_problem import LMNNProblem, Objective
from nearfar.learners.declaration import Init, Validation, ValidationFraction, learner
from nearfar.learners.problem import FitInput
from nearfar.learners.starting_map import given_map, named_map, principal_axes
from nearfar.metrics.metric import Metric
from nearfar.runtime import parameters
from nearfar.runtime.parameters import integer, number
from nearfar.typing import Floats, Matrix

_BESIDE_KINK = 0.999
"""Where a triplet's margin is exactly one, rounding would decide whether it counts."""
_EXACT_ROWS = 1000
_FLOAT32_TOLERANCE = 1e-5


@learner
class LMNN(MetricLearner):
    """Large margin nearest neighbours: pull targets near, push impostors beyond a margin.

    Parameters
    ----------
    n_neighbors : int, default=3
        Targets of each row: its nearest rows of the same class, under Euclidean distance between
        scaled points.
    push : float, default=0.5
        Weight of the impostors, between 0 and 1; 1 - push is the weight of the targets.
    update_targets : int, default=0
        How many times to choose targets anew, under the metric learned so far, and continue. Three
        updates lower the error on letters from 9.8 to 7.1 % and on vehicles from 23.1 to 21.2 %,
        and raise it on breast cancer (wdbc) from 3.5 to 5.1 %.
    max_iter : int, default=500
        The most iterations of L-BFGS.
    init : {"auto", "identity", "pca", "lda", "random"} or Metric, default="auto"
        Where to begin. "identity" and "pca" are Euclidean distance between scaled points, and with
        `n_components` its leading principal axes. "lda" is discriminant axes, "random" is drawn,
        and "auto" is "lda" if `n_components` is less than the number of classes, and "identity"
        otherwise. A metric of your own has at least `n_components` components. The first metric is
        multiplied by the best factor.
    n_components : int, optional
        Rows of the map that is learned; by default as many as there are features.
    tol : float, default=5e-4
        Decrease of the objective at which to end, relative to the objective of Euclidean distance.
        More iterations do not improve neighbours.

    Attributes
    ----------
    metric_ : Metric
        The learned metric. The margin is 1 in squared distances of this metric.
    history_ : History
        Objective after every iteration; ``history_.stopped`` says why they ended. The last one is
        the objective of all triplets; between searches for impostors, triplets may be missing.

    Notes
    -----
    `fit` takes class labels, or constraints. With `Triplets` the target pairs are those of an
    anchor and a near row, and the given triplets take the place of the search for impostors;
    `Pairs` become triplets first.

    Memory is linear in the number of rows. If more than 32 triplets for each target pair cost
    something, they are evaluated tile by tile instead of being listed: as exact, and slower.

    References
    ----------
    K. Q. Weinberger, L. K. Saul. Distance metric learning for large margin nearest neighbor
    classification. 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import LMNN
    >>> X, y = load_wine(return_X_y=True)
    >>> LMNN(n_components=2).fit(X, y).transform(X).shape
    (178, 2)
    """

    warm_start: bool = False
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    verbose: int = 0
    validation_fraction: ValidationFraction = "auto"
    validation: Validation = "rows"
    n_neighbors: int = 3
    push: float = 0.5
    update_targets: int = 0
    max_iter: int = 500
    init: Init = "auto"
    tol: float = 5e-4

    supervision: ClassVar[tuple[str, ...]] = ("labels", "pairs", "triplets")
    rotates: ClassVar[bool] = True
    auto_order: ClassVar[int | None] = 11
    compare_order: ClassVar[int | None] = 8
    parameter_rules: ClassVar[dict[str, parameters.ParameterRule]] = {
        "n_neighbors": integer(at_least=1),
        "push": number(above=0.0, below=1.0),
        "update_targets": integer(at_least=0),
        "max_iter": integer(at_least=1),
        "tol": number(at_least=0.0),
    }

    def _build_problem(self, data: FitInput) -> LMNNProblem:
        X, basis = _coordinates(self._in_precision(data.Z))
        unit = 2.0 * float(X.var(axis=0, dtype=np.float64).sum()) or 1.0
        X = X / X.dtype.type(np.sqrt(unit))
        source = self._source(X, data)
        objective = Objective(X, source, self.push)
        start = self._first_map(objective, source, data, basis * np.sqrt(unit))
        return LMNNProblem(
            objective,
            source,
            start,
            basis,
            unit=unit,
            typical=best_multiple(source.sample(X), self.push)[1] or 1.0,
            max_iter=self.max_iter,
            tol=self.tol,
            update_targets=self.update_targets,
        )

    def _in_precision(self, Z: Floats) -> Floats:
        """Convert many points to float32, unless `tol` needs more digits."""
        enough = len(Z) > _EXACT_ROWS and self.tol >= _FLOAT32_TOLERANCE
        return Z.astype(np.float32, copy=False) if enough else Z

    def _source(self, X: Floats, data: FitInput) -> Source:
        if data.supervision.kind != "labels":
            triplets = data.supervision.triplets(X, NearestTriplets(), data.random_state)
            return GivenTriplets(X, triplets)
        y = data.supervision.codes
        sizes = np.bincount(y)
        if len(sizes) < 2 or sizes.max() < 2:
            raise ValueError(
                "The labels give no triplet: at least two classes are needed, "
                "and at least one class with two members."
            )
        return Impostors.nearest(X, y, self.n_neighbors)

    def _first_map(
        self, objective: Objective, source: Source, data: FitInput, basis: Matrix
    ) -> Matrix:
        """Return where to begin: the last fit, or the best multiple of `init`."""
        X, k = objective.X, self.n_components
        given = self.init if data.warm is None else data.warm.metric
        if isinstance(given, Metric):
            L = given_map(given, data, k) @ basis.T
            L = L if k is None or k >= len(L) else principal_axes(L, X)[:k]
        else:
            L = named_map(given, X, data, k)
        if data.warm is not None:
            return L
        return L * np.sqrt(best_multiple(source.sample(objective.embed(L)), self.push)[0])


def _coordinates(Z: Floats) -> tuple[Floats, Matrix]:
    """Return points without constant features, and the axes of the others."""
    varying = np.ptp(Z, axis=0) > 0
    kept = varying if varying.any() else np.ones_like(varying)
    return Z[:, kept], np.eye(Z.shape[1])[kept]


def best_multiple(sample: Sample, push: float) -> tuple[float, float]:
    """Return the factor of a metric that has the smallest objective, and this objective.

    The objective is convex in the factor s, with the slope
    ``(1 - push) pull - push sum_t w_t margin_t`` over the triplets whose margin is below 1/s.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.learners.classic.impostors import Sample
    >>> from nearfar.learners.classic.lmnn import best_multiple
    >>> factor, objective = best_multiple(Sample(1.0, np.array([0.5, 2.0]), np.ones(2)), push=0.5)
    >>> round(factor, 2), round(objective, 2)
    (0.5, 0.63)
    """
    order = np.argsort(sample.margins)
    margins, weight = sample.margins[order], sample.weight[order]
    slope = (1 - push) * sample.pull - push * np.cumsum(weight * margins)
    falling = np.flatnonzero(slope < 0)
    last = float(margins[falling[0] if len(falling) else -1])
    factor = _BESIDE_KINK / last if last > 0 else 1.0
    cost = float(weight @ np.maximum(0.0, 1.0 - factor * margins))
    return factor, (1 - push) * factor * sample.pull + push * cost
