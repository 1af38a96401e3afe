"""Large margin nearest neighbours (Weinberger, Saul).

Each row i has a few *targets* j, its nearest rows of the same class. A row l of another class is an
*impostor* of such a pair if it is not farther from i than j is by a margin of one (10). Over maps
L, with H_ij = |L (x_i - x_j)|^2, T target pairs and mu = `push`:

    pull(L) = 1/T sum_(i, j) H_ij                                                       (11)
    push(L) = 1/T sum_(i, j) sum_l max(0, 1 + H_ij - H_il)                              (12)

    min  (1 - mu) pull(L) + mu push(L)                                                  (13)

pull is Tr(L C L') with a constant C; the gradient of push is the Laplacian of the triplets that
cost something, times the embedded points (`impostors`). L-BFGS runs on the triplets that cost
something or nearly do. Every few iterations, and at the end, a search through all pairs of rows
finds those that were missing: the objective after the search is that of all triplets, and the fit
ends only if nothing that matters was missing.

The problem is convex in M = L'L. Its solution does not depend on the units of X: another margin
would multiply M by a number. L-BFGS begins at the multiple of the first map that has the smallest
objective, found from the triplets of some anchors. There few triplets cost anything, from two to
twenty for each row on the papers' sets.

Where nearfar departs from the paper, and why:

- The paper sums over pairs; here both terms are divided by T, which leaves the optimum as it is.
- L-BFGS on L in place of subgradients of M and projections on the psd cone.
- Triplets may be given in place of labels. Then the target pairs are those of an anchor and a near
  row, and a pair weighs as much as its triplets do on average.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from nearfar.constraints import (
    Chunklets,
    ConstraintsOver,
    NearestTriplets,
    Pairs,
    Triplets,
    to_triplets,
)
from nearfar.constraints.mining import class_neighbors
from nearfar.learners.base import (
    FitInput,
    MetricLearner,
    Problem,
    ValidationFraction,
    factor_on_scaled_points,
)
from nearfar.learners.classic.impostors import (
    Costs,
    GivenTriplets,
    Impostors,
    Sample,
    Source,
)
from nearfar.learners.held_out import Validation
from nearfar.learners.metric_builder import MetricBuilder, covariance_matrix
from nearfar.metrics.metric import Metric
from nearfar.numerics.edges import Edges
from nearfar.numerics.lbfgs import lbfgs
from nearfar.runtime import parameters
from nearfar.runtime.history import History, Iteration, Iterations, map_iterations
from nearfar.runtime.parameters import choice, either, instance, integer, number
from nearfar.runtime.threads import Threads, with_single_threaded_blas
from nearfar.typing import Floats, Ints, Matrix, Vector

Init = Literal["identity"] | Metric

_FIRST_ROUND = 2
"""Iterations before the second search; their number doubles with each search."""
_FIRST_STEP = 0.1
"""Length of the first step that is tried, relative to the first map."""
_BESIDE_KINK = 0.999
"""Where a triplet's margin is exactly one, rounding would decide whether it counts."""
_ROUNDING = 1e-12
_BLOCK_ROWS = 1024


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
        How many times to choose targets anew, under the metric learned so far, and continue.
    max_iter : int, default=500
        The most iterations of L-BFGS.
    init : {"identity"} or Metric, default="identity"
        Where to begin: Euclidean distance between scaled points, or a metric of your own. The
        first metric is multiplied by the best factor.
    scale : {"auto", "standard", "unit", "cosine"} or None, default="auto"
        How X is scaled internally; the result applies to X as given. "standard" gives every feature
        unit variance, "unit" leaves features as they are, "cosine" divides each row by its length,
        and "auto" takes what suits Euclidean distance best (`scale_`). None is "unit".
    n_components : int, optional
        Rows of the map that is learned; by default as many as there are features. Fewer begin with
        the principal axes of the points.
    validation_fraction : float, "auto" or None, default="auto"
        Share of the data that trial fits hold out, to choose the number of iterations and how much
        of Euclidean distance to keep (`prior_share_`). None fits to the end. "auto" is 0.2 if y are
        labels and the scale is "auto", and None otherwise and with `warm_start`.
    validation : {"rows", "classes"}, default="rows"
        Whether labelled rows or whole classes are held out. Choose "classes" for a metric that is
        meant for classes it has not seen.
    tol : float, default=1e-3
        Relative decrease of the objective at which to end. More iterations do not improve
        neighbours.
    warm_start : bool, default=False
        Continue from `metric_`: the map of the last fit, or a metric that was assigned to it.
    random_state : int, RandomState or None, default=None
        Not used: nothing is random.
    n_jobs : int, optional
        Number of threads. None and -1 use all cores, -2 all but one.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    metric_ : Metric
        The learned metric. The margin is 1 in squared distances of this metric.
    components_ : array of shape (n_components, n_features)
        Its map L.
    history_ : History
        Objective after every iteration; ``history_.stopped`` says why they ended. The last one is
        the objective of all triplets; between searches for impostors, triplets may be missing.
    n_iter_ : int
        Number of iterations.
    scale_ : str or None
        How X was scaled.
    prior_share_ : float
        Share of the prior in the mean squared distance, as chosen on held-out data.

    Notes
    -----
    `fit` takes class labels, or constraints. With `Triplets` the target pairs are those of an
    anchor and a near row, and the given triplets take the place of the search for impostors;
    `Pairs` become triplets first.

    Memory is linear in the number of rows. If more than 64 triplets per row cost something, they
    are evaluated tile by tile: exact, and slower.

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

    supervision: ClassVar[tuple[str, ...]] = ("labels", "pairs", "triplets")
    parameter_rules: ClassVar[dict[str, parameters.Rule]] = {
        "n_neighbors": integer(at_least=1),
        "push": number(above=0.0, below=1.0),
        "update_targets": integer(at_least=0),
        "max_iter": integer(at_least=1),
        "tol": number(at_least=0.0),
        "init": either(choice("identity"), instance(Metric, "a Metric")),
    }

    def __init__(
        self,
        *,
        n_neighbors: int = 3,
        push: float = 0.5,
        update_targets: int = 0,
        max_iter: int = 500,
        init: Init = "identity",
        scale: str | None = "auto",
        n_components: int | None = None,
        validation_fraction: ValidationFraction = "auto",
        validation: Validation = "rows",
        tol: float = 1e-3,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            scale=scale,
            n_components=n_components,
            validation_fraction=validation_fraction,
            validation=validation,
            warm_start=warm_start,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.n_neighbors = n_neighbors
        self.push = push
        self.update_targets = update_targets
        self.max_iter = max_iter
        self.init = init
        self.tol = tol

    def _build_problem(self, data: FitInput) -> LMNNProblem:
        X, basis = _coordinates(data.Z)
        unit = 2.0 * float(X.var(axis=0, dtype=np.float64).sum()) or 1.0
        X = X / X.dtype.type(np.sqrt(unit))
        source = self._source(X, data)
        objective = Objective(X, source, self.push)
        start = self._first_map(objective, source, data, basis * np.sqrt(unit))
        return LMNNProblem(self, objective, source, start, basis, unit)

    def _source(self, X: Floats, data: FitInput) -> Source:
        supervision = data.supervision
        if isinstance(supervision, ConstraintsOver):
            supervision = supervision.constraints
        if isinstance(supervision, Triplets | Pairs | Chunklets):
            triplets = to_triplets(X, supervision, NearestTriplets(), data.random_state)
            return GivenTriplets(X, triplets)
        y = np.asarray(supervision, dtype=np.intp)
        sizes = np.bincount(y)
        if len(sizes) < 2 or sizes.max() < 2:
            raise ValueError(
                "The labels give no triplet: at least two classes are needed, "
                "and at least one class with two members."
            )
        return self.impostors(X, y)

    def impostors(self, P: Floats, y: Ints) -> Impostors:
        """Return all triplets of the targets under an embedding."""
        return Impostors(y, class_neighbors(P, y, self.n_neighbors, 0)[0])

    def _first_map(
        self, objective: Objective, source: Source, data: FitInput, basis: Matrix
    ) -> Matrix:
        """Return where to begin: the last fit, or the best multiple of `init`."""
        given = self.init if data.warm is None else data.warm.metric
        X = objective.X
        if isinstance(given, Metric):
            L = factor_on_scaled_points(given, data.scaler, "metric to begin with") @ basis.T
        else:
            L = np.eye(X.shape[1])
        if self.n_components is not None and self.n_components < len(L):
            axes = np.linalg.eigh(L @ covariance_matrix(X) @ L.T)[1][:, ::-1]
            L = axes[:, : self.n_components].T @ L
        if data.warm is not None:
            return L
        return L * np.sqrt(best_factor(source.sample(objective.embed(L)), self.push))


def _coordinates(Z: Floats) -> tuple[Floats, Matrix]:
    """Return points in no more coordinates than they need, and the axes of these.

    Constant features are left out. If there are not more points than features, the coordinates are
    those of the principal axes.
    """
    varying = np.flatnonzero(np.ptp(Z, axis=0) > 0)
    axes = np.eye(Z.shape[1])[varying if len(varying) else slice(None)]
    if len(Z) > len(axes):
        return Z[:, varying] if len(varying) else Z, axes
    centred = Z - Z.mean(axis=0, dtype=np.float64)
    _, size, axes = np.linalg.svd(centred, full_matrices=False)
    kept = size > size[0] * max(Z.shape) * np.finfo(Z.dtype).eps
    axes = axes[kept if kept.any() else slice(1)]
    return (centred @ axes.T).astype(Z.dtype, copy=False), axes


def best_factor(sample: Sample, push: float) -> float:
    """Return the factor of a metric that has the smallest objective.

    The objective is convex in the factor s, with the slope
    ``(1 - push) pull - push sum_t w_t margin_t`` over the triplets whose margin is below 1/s.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.learners.classic.impostors import Sample
    >>> from nearfar.learners.classic.lmnn import best_factor
    >>> round(best_factor(Sample(1.0, np.array([0.5, 2.0]), np.ones(2)), push=0.5), 2)
    0.5
    """
    order = np.argsort(sample.margins)
    margins = sample.margins[order]
    slope = (1 - push) * sample.pull - push * np.cumsum(sample.weight[order] * margins)
    falling = np.flatnonzero(slope < 0)
    last = margins[falling[0]] if len(falling) else margins[-1]
    return _BESIDE_KINK / float(last) if last > 0 else 1.0


class Objective:
    """The objective (13) at maps of the points.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    source : Source
        Its target pairs are pulled.
    push : float
    """

    def __init__(self, X: Floats, source: Source, push: float) -> None:
        self.X, self.push = X, push
        self.threads = Threads()
        edges = Edges(X, source.anchor, source.near)
        weight = np.bincount(edges.of_pair, weights=source.pair_weight, minlength=len(edges))
        self.C = edges.matrix(weight.astype(np.float64, copy=False))

    def embed(self, L: Matrix) -> Floats:
        """Map the points."""
        right = L.T.astype(self.X.dtype, copy=False)
        P = np.empty((len(self.X), len(L)), dtype=self.X.dtype)

        def block(rows: slice) -> None:
            np.matmul(self.X[rows], right, out=P[rows])

        list(self.threads.map(block, len(self.X), _BLOCK_ROWS))
        return P

    def value(self, L: Matrix, triplets: Costs) -> tuple[float, Matrix]:
        """Return the objective on these triplets, and its gradient."""
        cost, half = triplets.evaluate(self.embed(L))

        def block(rows: slice) -> Floats:
            return half[rows].T @ self.X[rows]

        pulled = L @ self.C
        pushed = np.zeros_like(L)
        for part in self.threads.map(block, len(self.X), _BLOCK_ROWS):
            pushed += part
        value = (1 - self.push) * float((pulled * L).sum()) + self.push * cost
        return value, 2 * ((1 - self.push) * pulled + self.push * pushed)


class LMNNProblem(Problem):
    """LMNN over maps of a given number of rows.

    Parameters
    ----------
    learner : LMNN
    objective : Objective
    source : Source
    start : array of shape (k, n_coordinates)
        The first map.
    basis : array of shape (n_coordinates, n_features)
        Axes of the coordinates.
    unit : float
    """

    def __init__(
        self,
        learner: LMNN,
        objective: Objective,
        source: Source,
        start: Matrix,
        basis: Matrix,
        unit: float,
    ) -> None:
        self.learner, self.objective, self.source = learner, objective, source
        self.start, self.basis = start, basis
        self.unit, self.max_iter = unit, learner.max_iter

    def solve(self) -> Iterations:
        """Minimise by L-BFGS, and again for each update of the targets."""
        return with_single_threaded_blas(self._solve())

    def _solve(self) -> Iterations:
        L, n_left = self.start, self.max_iter
        objective, source = self.objective, self.source
        for updates_left in range(self.learner.update_targets, -1, -1):
            L, n_left = yield from self._minimize(objective, source, L, n_left)
            if n_left == 0:
                return "max_iter"
            if updates_left == 0 or not isinstance(source, Impostors):
                break
            updated = self.learner.impostors(objective.embed(L), source.y)
            if (updated.targets == source.targets).all():
                break
            objective, source = Objective(objective.X, updated, self.learner.push), updated
        return "converged"

    def _minimize(
        self, objective: Objective, source: Source, L: Matrix, n_left: int
    ) -> Generator[Iteration, None, tuple[Matrix, int]]:
        """Run L-BFGS on triplets that are searched for again after some iterations.

        Returns
        -------
        L : array of shape (k, n_coordinates)
        n_left : int
            Iterations that are left; 0 if the objective has not settled.
        """
        tol = max(self.learner.tol, _ROUNDING)
        triplets = source.around(objective.embed(L))
        value = objective.value(L, triplets)[0]
        length, step = _FIRST_ROUND, _FIRST_STEP * float(np.linalg.norm(L)) or 1.0
        while True:
            iterations = _lbfgs(objective, triplets, L, value, step, min(length, n_left), tol)
            end, n_taken, reason = yield from _all_but_last(iterations)
            found = source.around(objective.embed(end.model))
            after = objective.value(end.model, found)[0]
            yield Iteration(after, model=end.model)
            n_left -= n_taken
            settled = reason != "max_iter" and value - end.objective <= tol * value
            complete = after - end.objective <= tol * after
            if settled and complete:
                return end.model, max(n_left, 1)
            if n_left == 0:
                return end.model, 0
            moved = float(np.linalg.norm(end.model - L)) / n_taken
            triplets = found.joined(triplets) if reason != "max_iter" else found
            L, value, step, length = end.model, after, moved or step, 2 * length

    def builder(self, **parts: Any) -> MetricBuilder:
        """Return a builder that knows the axes of the coordinates."""
        return MapBuilder(basis=self.basis, **parts)

    def shortcoming(self, history: History, metric: Any) -> str:
        """Warn where nothing was learned, or where the objective has not settled."""
        if not metric.L.any():
            return "Nothing was learned: `push` is too small for any distance to be worth its cost."
        if history.stopped == "max_iter":
            return f"max_iter={self.max_iter} was reached before the objective settled to tol."
        return ""


def _lbfgs(
    objective: Objective,
    triplets: Costs,
    L: Matrix,
    value: float,
    step: float,
    max_iter: int,
    tol: float,
) -> Generator[Iteration, None, str]:
    """Run L-BFGS, with the first value as the unit of values and `step` as that of maps."""
    unit = value or 1.0

    def scaled(flat: Vector) -> tuple[float, Vector]:
        now, gradient = objective.value(step * flat.reshape(L.shape), triplets)
        return now / unit, gradient.ravel() * (step / unit)

    steps = lbfgs(scaled, L.ravel() / step, max_iter=max_iter, tol=tol)
    return map_iterations(
        steps, lambda at: Iteration(unit * at[0], model=step * at[1].reshape(L.shape))
    )


def _all_but_last(
    iterations: Generator[Iteration, None, str],
) -> Generator[Iteration, None, tuple[Iteration, int, str]]:
    """Pass on all iterations but the last; return that one, their number and why they ended."""
    with closing(iterations):
        last, n_taken = next(iterations), 1
        while True:
            try:
                following = next(iterations)
            except StopIteration as end:
                return last, n_taken, end.value
            yield last
            last, n_taken = following, n_taken + 1


@dataclass(frozen=True)
class MapBuilder(MetricBuilder):
    """Builds a metric from the last map.

    Attributes
    ----------
    basis : array of shape (n_coordinates, n_features)
        Axes of the coordinates that the map is for.
    """

    basis: Matrix = field(kw_only=True)

    def metric(self, history: History) -> Metric:
        """Return the metric of the last map, without directions that have vanished."""
        L: Matrix = history[-1].model
        _, size, axes = np.linalg.svd(L, full_matrices=False)
        kept = size**2 > L.size * np.finfo(float).eps * size[0] ** 2
        factor = size[kept, None] * axes[kept] if kept.any() else np.zeros((1, L.shape[1]))
        return Metric(factor @ self.basis / self.scale, self.feature_names)
